"""What a queue without a dead letter topic gives up is told: a line with the offsets, and a metric."""

from __future__ import annotations

import logging

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from gateway.queues.dropped import LINES_MAX, SHOWN_MAX, Dropped, DropReports, Drops
from gateway.queues.metrics import QueueMetrics
from gateway.queues.outcomes import (
    LiveSettlement,
    ended_drops,
    ended_runs,
    settled_drops,
    settled_runs,
)
from gateway.queues.queue_partition import HeldRange, Lease, QueuePartition
from gateway.queues.settlement import Settlement
from log_format.queues.row import QueueSettings
from log_format.queues.runs import DEAD, RELEASED, SETTLED, Run
from log_format.queues.state import PartitionSettlements
from tests.support.clocks import EPOCH_MS, ManualClock

PLAIN = QueueSettings(
    topics=("t",),
    start="earliest",
    lock_ms=30_000,
    max_deliveries=2,
    dead_letter_topic=None,
    backoff_ms=(500,),
    max_in_flight=10,
    order="none",
    expired="drop",
    filter=None,
)


def held(count: int, *, is_begun: bool = True) -> HeldRange:
    share = QueuePartition("q", "t", ("t-id", 3), PartitionSettlements("t"))
    return HeldRange(4, 5, count, leased_by=Lease("1-1", share), is_begun=is_begun)


def checked(action: str, count: int, **more: object) -> LiveSettlement:
    wanted = {"topic": "t", "partition": 3, "first": 4, "last": 5, "lease": "1-1", "action": action, **more}
    return LiveSettlement(Settlement(**wanted), [held(count)])  # type: ignore[arg-type]


def told(dropped: list[Dropped]) -> list[tuple[int, int, int, str]]:
    return [(one.first, one.last, one.deliveries, one.reason) for one in dropped]


def test_what_is_dropped_by_settlements() -> None:
    """A rejection and the last release; no acceptance, no release before the last, none that does not count."""
    many = [
        checked("accept", 1),
        checked("release", 0),
        checked("release", 1, begun=False),
        checked("release", 1),
        checked("reject", 0, reason="bad"),
    ]
    assert told(settled_drops(many, PLAIN)) == [(4, 5, 2, "max_deliveries"), (4, 5, 1, "bad")]


def test_an_uncounted_release_has_no_pause() -> None:
    """The record is as it was, whatever the queue's pauses are; its caller may still wish one."""
    (runs,) = settled_runs([checked("release", 1, begun=False)], PLAIN, 1_000).values()
    assert runs == (Run(4, 5, RELEASED, 1),)
    (runs,) = settled_runs([checked("release", 1, begun=False, delay_ms=7)], PLAIN, 1_000).values()
    assert runs == (Run(4, 5, RELEASED, 1, 1_007),)


def test_what_is_dropped_when_locks_end() -> None:
    """The last delivery, where it was one."""
    assert told(ended_drops([held(0), held(1)], PLAIN)) == [(4, 5, 2, "max_deliveries")]
    assert ended_drops([held(1, is_begun=False)], PLAIN) == []
    (runs,) = ended_runs([held(1, is_begun=False)], PLAIN, 1_000).values()
    assert runs == (Run(4, 5, RELEASED, 1),)
    (runs,) = ended_runs([held(1)], PLAIN, 1_000).values()
    assert runs[0].state == SETTLED


def test_with_a_dead_letter_topic_nothing_is_dropped() -> None:
    """It is dead then."""
    kept = msgspec.structs.replace(PLAIN, dead_letter_topic="d")
    assert settled_drops([checked("reject", 1)], kept) == ended_drops([held(1)], kept) == []
    (runs,) = ended_runs([held(1)], kept, 1_000).values()
    assert runs[0].state == DEAD


def test_it_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Each range up to a bound has a line, and is told to the audit trail; the metric and the description count all records."""
    registry = CollectorRegistry()
    some = [Dropped("t", 3, at, at, 2, "max_deliveries", 1) for at in range(LINES_MAX + 5)]
    with caplog.at_level(logging.WARNING, "gateway.queues"):
        heard: list[tuple[str, Dropped]] = []
        reports = DropReports(QueueMetrics(registry), ManualClock(), lambda queue, lost: heard.append((queue, lost)))
        drops = Drops("q", reports)
        drops.tell(some)
    assert heard == [("q", one) for one in some[:LINES_MAX]]
    assert (drops.records, drops.since_ms) == (len(some), EPOCH_MS)
    assert [one for _, one in drops.newest] == some[-SHOWN_MAX:]
    assert "dropped t/3 offsets 0 to 0 after 2 deliveries: max_deliveries" in caplog.messages[0]
    assert caplog.messages[LINES_MAX:] == ["queue q dropped 5 further ranges"]
    assert registry.get_sample_value("tidelog_queue_records_dropped_total") == LINES_MAX + 5
