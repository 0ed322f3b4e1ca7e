"""The service under what Schemathesis makes of its own OpenAPI document."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
import urllib3
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

START_SECONDS_MAX = 60
OPERATIONS_MIN = 15
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance)
EXAMPLES = int(os.environ.get("TIDELOG_SCHEMATHESIS_EXAMPLES", "30"))

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def gateway_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway on a directory, with a topic that the document's examples name."""
    directory = tmp_path_factory.mktemp("schemathesis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "gateway", "--store", str(directory / "store"), "--port", str(port)]
    log = directory / "gateway.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + START_SECONDS_MAX
        with urllib3.PoolManager(retries=False, timeout=5) as http:
            while time.monotonic() < deadline:
                with contextlib.suppress(urllib3.exceptions.HTTPError):
                    if http.request("GET", f"{url}/readyz").status == 200:
                        break
                time.sleep(0.05)
            else:
                pytest.fail(f"the gateway does not start:\n{log.read_text()[-3000:]}")
            for topic in ("orders", "0", "a"):
                made = {"name": topic, "partition_count": 3, "config": {"flush.ms": 0}}
                assert http.request("POST", f"{url}/v1/topics", json=made).status == 201
        yield url
    finally:
        process.terminate()
        assert process.wait(30) == 0
        assert '"level":"error"' not in log.read_text()


def test_no_request_makes_the_gateway_fail(gateway_url: str) -> None:
    """G8: whatever is sent, no 5xx; and the status and media type are among those that the document names."""
    schema = schemathesis.openapi.from_url(f"{gateway_url}/openapi.json")
    tried: Counter[str] = Counter()
    failures: list[str] = []
    for found in schema.get_all_operations():
        operation = found.ok()
        assert operation is not None, found.err()

        @hypothesis.seed(0)
        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            accept = str((case.headers or {}).get("Accept", ""))
            if "event-stream" in accept:
                return  # it would follow the partition
            if case.query and "max_wait_ms" in case.query:
                case.query["max_wait_ms"] = "0"
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
