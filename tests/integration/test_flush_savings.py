"""What a gateway tells of savings for early flushes, over a real one: a topic's description, the metrics, the log."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from tests.support.gateway_process import StartGateway
from tests.support.waiting import until


def test_savings_are_told_and_the_timer_that_is_back(tmp_path: Path, start_gateway: StartGateway) -> None:
    """A lone sender's flushes begin at once until its savings are spent; a topic that was never written to is described without
    them."""
    gateway = start_gateway(str(tmp_path / "store"), "--flush-savings-first-ms", "2000")
    for topic in ("orders", "quiet"):
        gateway.topic(topic, flush_ms=400, commit_mode="own")
    assert "flush_savings_ms" not in gateway.http.get("/v1/topics/quiet?include=flush_savings").json()["commit"]
    gateway.produce("orders", "x")
    told = gateway.http.get("/v1/topics/orders?include=flush_savings").json()["commit"]
    assert told["flush_savings_ms"] == pytest.approx(1_600, abs=350)
    assert told["savings_spent"] is False
    for _ in range(20):
        gateway.produce("orders", "x")
    told = gateway.http.get("/v1/topics/orders?include=flush_savings").json()["commit"]
    assert told["flush_savings_ms"] < 800
    assert told["savings_spent"] is True
    metrics = gateway.http.get("/metrics").text
    assert 'tidelog_flush_savings_spent{of="topics"} 1.0' in metrics
    flushes = {reason: _counted(metrics, reason) for reason in ("senders_wait", "timer")}
    assert flushes["senders_wait"] >= 4
    assert flushes["timer"] >= 3
    assert gateway.log().count("topic 'orders': what was saved for commits that begin early is spent") == 1
    assert "flush_savings_ms" not in _listed(gateway.http)["orders"]["commit"]
    assert "flush_savings_ms" not in gateway.http.get("/v1/topics/orders").json()["commit"]


def test_a_lone_client_of_any_gateway_waits_for_its_commit_alone(tmp_path: Path, start_gateway: StartGateway) -> None:
    """Its requests may be passed on by any connection between the gateways: it is one sender all the same."""
    gateways = [start_gateway(str(tmp_path / "store")) for _ in range(2)]
    until(lambda: all(len(_alive(gateway.http)) == 2 for gateway in gateways))
    gateways[0].topic("orders", flush_ms=400, commit_mode="own")
    for gateway in gateways:
        for _ in range(20):
            gateway.produce("orders", "x")
        time.sleep(0.4)  # from then on this client is not expected any more
    told = [gateway.http.get("/metrics").text for gateway in gateways]
    assert sum(_counted(metrics, "senders_wait") for metrics in told) >= 36
    assert sum('tidelog_forwarded_requests_total{outcome="answered"} 20.0' in metrics for metrics in told) == 1


def _alive(http: httpx.Client) -> list[object]:
    alive: list[object] = http.get("/v1/cluster").json()["gateways"]
    return alive


def _counted(metrics: str, reason: str) -> float:
    start = f'tidelog_flushes_total{{reason="{reason}"}} '
    return next((float(line.removeprefix(start)) for line in metrics.splitlines() if line.startswith(start)), 0.0)


def _listed(http: httpx.Client) -> dict[str, dict[str, dict[str, object]]]:
    return {topic["name"]: topic for topic in http.get("/v1/topics").json()["topics"]}
