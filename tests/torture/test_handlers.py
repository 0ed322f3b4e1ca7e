"""Worker processes of a queue, stopped and killed, at a gateway with a planted fault: the judge finds it.

A gateway without one is judged in ``tests/torture/test_queue_kills.py``.
"""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.support.gateway_process import running_gateway
from tests.support.waiting import until
from tests.torture.tortured.clients import Client
from tests.torture.tortured.history import History
from tests.torture.tortured.queue_processes import QueueProcesses

PLANTED = Path(__file__).with_name("planted_queues")
KILLED_MIN = 16
"""So many records killed workers may have begun with; they had taken many more."""

pytestmark = pytest.mark.timeout(300)


def test_a_gateway_that_counts_what_no_handler_began_is_found(tmp_path: Path) -> None:
    """Records that were taken ahead lose a delivery with each worker that is killed or leaves."""
    environment = {"PYTHONPATH": str(PLANTED)}
    with running_gateway(tmp_path / "store", tmp_path / "log", environment=environment) as gateway:
        failures: list[str] = []
        calm = threading.Event()
        killer, sender = (Client(name, [gateway.url], History(), calm, 4) for name in ("killer", "sender"))
        processes = QueueProcesses(killer, [gateway.url], tmp_path, failures)
        processes.start(sender, pace_seconds=0.05)
        until(lambda: sum(processes.slack.values()) >= KILLED_MIN, 120, what="no worker is killed")
        calm.set()
        processes.settled(seconds_max=12)
        found = processes.judged(lost_answers_max=0)
    assert failures == []
    assert any("deliveries counted that no handler began" in line for line in found), (found, processes.counts)
