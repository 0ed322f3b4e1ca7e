"""The service under what Schemathesis makes of its own OpenAPI document."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from tests.support.gateway_process import running_gateway

OPERATIONS_MIN = 15
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance)
EXAMPLES = int(os.environ.get("TIDELOG_SCHEMATHESIS_EXAMPLES", "10"))

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway on a directory, with a topic that the document's examples name."""
    directory = tmp_path_factory.mktemp("schemathesis")
    with running_gateway(directory / "store", directory / "log", "--log-level", "info") as gateway:
        for topic in ("orders", "0", "a"):
            gateway.topic(topic, 3)
        yield gateway.url
    assert '"level":"error"' not in gateway.log()


def test_no_request_makes_the_gateway_fail(gateway_url: str) -> None:
    """G8: whatever is sent, no 5xx; and the status and media type are among those that the document names."""
    schema = schemathesis.openapi.from_url(f"{gateway_url}/openapi.json")
    tried: Counter[str] = Counter()
    failures: list[str] = []
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()

        @hypothesis.seed(0)
        @hypothesis.settings(
            max_examples=EXAMPLES,
            database=None,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def check(case: Any) -> None:
            accept = str((case.headers or {}).get("Accept", ""))
            if "event-stream" in accept:
                return  # it would follow the partition
            if case.query and "max_wait_ms" in case.query:
                case.query["max_wait_ms"] = "0"
            if isinstance(case.body, dict) and "max_wait_ms" in case.body:
                case.body["max_wait_ms"] = 0
            tried[f"{case.method} {case.path}"] += 1
            case.call_and_validate(checks=CHECKS, timeout=30)

        try:
            check()
        except schemathesis.errors.SchemathesisError as failure:
            failures.append(f"{operation.label}: {failure}")
        except (AssertionError, BaseExceptionGroup) as failure:
            failures.append(f"{operation.label}: {failure!r} {getattr(failure, 'exceptions', '')}")
    assert not failures, "\n".join(failures)
    assert len(tried) >= OPERATIONS_MIN, tried
    assert min(tried.values()) > 0
