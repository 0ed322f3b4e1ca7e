"""Lag of the tables of topics at journals: measured when the metrics are scraped, from what this gateway knows.

Every gateway that has a journal open measures it, so a query takes the maximum over gateways. Labels: the journal's number,
below ``JOURNALS``.
"""

from __future__ import annotations

from typing import NamedTuple

from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_journal import Journals
from gateway.journals.future_times import FutureTimes
from log_format.clock import Clock
from log_format.delta.table import NO_LOG
from log_format.journal.state import JournalState


class JournalLag(NamedTuple):
    """Lag of one journal.

    ``oldest_ms``: age of the oldest commit with records that a topic's table lacks. ``overdue_ms``: by how much the topic with
    the largest lag exceeds its ``drain.ms``.
    """

    topics: int
    records: int
    size_bytes: int
    oldest_ms: int
    overdue_ms: int


def measure_lag(state: JournalState, now_ms: int, monotonic_ms: int, ahead: FutureTimes) -> JournalLag:
    """Return a journal's lag. O(topics).

    ``ahead``: gives the age of a time that another clock put into the future, from when this gateway first saw it.
    """
    records = size_bytes = oldest_ms = overdue_ms = 0
    for topic in state.topics.by_id.values():
        age_ms = ahead.age_ms(topic, now_ms, monotonic_ms)
        if age_ms is None:
            continue
        oldest_ms, overdue_ms = max(oldest_ms, age_ms), max(overdue_ms, age_ms - topic.drain_ms)
        undrained = state.runs.of(topic.topic_id)
        if undrained is not None:
            records += undrained.record_count
            size_bytes += undrained.size_bytes
    return JournalLag(len(state.topics.by_id), records, size_bytes, oldest_ms, overdue_ms)


def measure(journals: Journals, metrics: EngineMetrics, clock: Clock, ahead: FutureTimes) -> None:
    """Set the metrics of each journal that this gateway has read."""
    ahead.begin()
    for journal in journals:
        if journal.state.version == NO_LOG:
            continue
        lag, number = measure_lag(journal.state, clock.now_ms(), clock.monotonic_ms(), ahead), str(journal.number)
        metrics.journal_topics.labels(number).set(lag.topics)
        metrics.undrained_records.labels(number).set(lag.records)
        metrics.undrained_bytes.labels(number).set(lag.size_bytes)
        metrics.undrained_seconds.labels(number).set(lag.oldest_ms / 1000)
        metrics.overdue_seconds.labels(number).set(lag.overdue_ms / 1000)
