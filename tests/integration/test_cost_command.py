"""``tidelog cost`` over a real gateway: its own counts, priced."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.gateway_process import StartGateway


def test_a_topic_and_all_topics(tmp_path: Path, start_gateway: StartGateway) -> None:
    """A busy topic's PUTs are seen and priced; all cost at least as much as one; without either it is refused."""
    gateway = start_gateway(str(tmp_path / "store"))
    gateway.topic("busy", flush_ms=20)
    stopping = threading.Event()

    def produce() -> None:
        while not stopping.is_set():
            gateway.produce("busy", "x")

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        found = []
        for what in (["busy", "--commit-retention", "12h"], ["--all"]):
            program = [sys.executable, "-m", "tidelog", "cost", *what, "--seconds", "3", "--url", gateway.url, "--json"]
            ended = subprocess.run(program, capture_output=True, check=True, timeout=60)
            found.append(json.loads(ended.stdout))
    finally:
        stopping.set()
        producer.join()
    topic, everything = found
    for one in found:
        commits = next(row for row in one["requests"] if (row["kind"], row["of"]) == ("PUT", "commit"))
        assert commits["per_second"] > 2
        assert commits["dollars"] == pytest.approx(commits["per_second"] * 730 * 3.6 * 0.005, rel=0.01)
        assert one["dollars"] == pytest.approx(one["requests_dollars"] + one["storage_dollars"], abs=0.02)
        assert one["stored_bytes"] > 0
        assert one["prices_checked"]
    assert topic["clones"] == []
    assert topic["flushes_per_second_max"] == 50
    now, then = topic["versions"]
    assert then["commit_retention_ms"] == 12 * now["commit_retention_ms"]
    assert then["commits"] > now["commits"] > 2 * 3600
    assert then["dollars_max"] > now["dollars_max"]
    assert topic["flushes_dollars_max"] == pytest.approx(2 * 50 * 730 * 3.6 * 0.005, rel=0.01)
    assert {row["of"] for row in topic["requests"]} <= {"segment", "commit", "checkpoint"}
    assert "heartbeat" in {row["of"] for row in everything["requests"]}
    program = [sys.executable, "-m", "tidelog", "cost", "--url", gateway.url]
    assert subprocess.run(program, capture_output=True, check=False, timeout=60).returncode != 0
