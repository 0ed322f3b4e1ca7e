"""Real gateways under kill -9, SIGSTOP and a store that dies, while workers share a queue of plain and delayed records: the judge
finds nothing. ``make torture-queues`` is the long run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.torture.tortured.queue_run import Plan, torture_queues

pytestmark = pytest.mark.timeout(600)


def test_a_short_torture_of_queues(tmp_path: Path) -> None:
    """Some faults; then every record is accepted or a dead letter, once."""
    plan = Plan(seconds=10, seed=22, gateways=2, senders=3, workers=4, freeze_seconds=4, handled_pace_seconds=2)
    outcome = torture_queues(plan, tmp_path)
    assert outcome.contradictions == []
    assert outcome.counts["accept: yes"] > 20
    assert outcome.counts["delayed: yes"] > 10
    assert outcome.counts["handling: handlers accepted"] > 5
    assert outcome.counts["dropping: handlers accepted"] > 5
    assert outcome.counts["renewed-work: accept: yes"] > 0
