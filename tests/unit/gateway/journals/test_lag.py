"""What is measured of a journal: its topics, and how far their tables are behind."""

from __future__ import annotations

from typing import Any

from gateway.journals.future_times import FutureTimes
from gateway.journals.lag import JournalLag, measure_lag
from tests.support.engine import Gateway, make_gateway

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


def measured(gateway: Gateway, name: str, **labels: str) -> float | None:
    registry = gateway.registry
    return registry.get_sample_value(name, labels)


async def test_undrained_records_are_measured_until_they_are_drained() -> None:
    """Their number, the age of the oldest, and by how much the topic that is furthest behind exceeds its ``drain.ms``."""
    gateway = make_gateway()
    late = await gateway.topic("late", **SHARED, drain_ms=1_000)
    early = await gateway.topic("early", **SHARED, drain_ms=60_000)
    await gateway.engine.measure()
    assert measured(gateway, "tidelog_journal_topics", journal="0") is None
    await gateway.append(late, [b"a", b"b"])
    await gateway.append(early, [b"c"])
    state = gateway.engine.journals.get(0).state
    since_ms = min(topic.undrained_since_ms or 0 for topic in state.topics.by_id.values())
    lag = measure_lag(state, since_ms + 5_000, 0, FutureTimes())
    assert lag[:2] == (2, 3)
    assert lag.size_bytes > 0
    assert (lag.oldest_ms, lag.overdue_ms) == (5_000, 4_000)
    assert measure_lag(state, since_ms + 500, 0, FutureTimes()).overdue_ms == 0
    ahead = FutureTimes(tells=False)
    for monotonic_ms in (7, 2_007):
        ahead.begin()
        lag = measure_lag(state, since_ms - 7_200_000, monotonic_ms, ahead)
    assert (lag.oldest_ms, lag.overdue_ms) == (2_000, 1_000), "by a clock two hours ahead: since it was seen"
    await gateway.engine.measure()
    assert measured(gateway, "tidelog_journal_topics", journal="0") == 2
    assert measured(gateway, "tidelog_journal_undrained_records", journal="0") == 3
    assert measured(gateway, "tidelog_journal_flush_topics_sum") == 2
    for topic in (late, early):
        await topic.moving.drain_all()
    await gateway.engine.journals.get(0).commit_entries()
    assert measure_lag(gateway.engine.journals.get(0).state, since_ms + 5_000, 0, FutureTimes()) == JournalLag(
        2, 0, 0, 0, 0
    )
    await gateway.engine.measure()
    assert measured(gateway, "tidelog_journal_undrained_records", journal="0") == 0
