"""Who serves a request is a matter of speed only: the whole contract holds when each goes to a gateway taken at random."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.gateway_process import GatewayProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.processes

ROOT = Path(__file__).resolve().parents[3]
TAKES_TURNS = "test_without_key_and_partition_requests_take_turns"
"""Each gateway takes turns for itself: three of them begin at places of their own."""


def test_the_contract_holds_with_random_forwarding(
    tmp_path: Path, start_gateway: Callable[..., GatewayProcess]
) -> None:
    """The black-box suite passes against three gateways of which each passes requests on at random."""
    settings = ("--heartbeat-ms", "300", "--forwarding", "random")
    gateways = [start_gateway(str(tmp_path / "store"), *settings) for _ in range(3)]
    assert eventually(lambda: all(len(gateway.http.get("/v1/cluster").json()["gateways"]) == 3 for gateway in gateways))
    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance/http_api"]
    done = subprocess.run(
        [*suite, "--deselect", f"tests/conformance/http_api/test_records.py::{TAKES_TURNS}"],
        cwd=ROOT,
        env={**os.environ, "TIDELOG_TEST_URL": gateways[0].url},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6_000:]
    assert "passed" in done.stdout
