"""Alarms for a person, by the metrics: what failed or was refused recently, and what runs full or falls behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from gateway.monitoring import metrics_reading
from gateway.monitoring.metrics_reading import MetricsReading

FULL_SHARE: Final = 0.8
"""Share of a state's budget from which on there is an alarm. Past the whole of it, requests are refused."""
OVERDUE_S: Final = 60
"""Lateness of a drain, in seconds, up to which there is no alarm: the next round drains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm. ``bad``: requests fail. ``warning``: they will, or a table falls behind.

    ``what`` is a word for programs, ``said`` a sentence.
    """

    severity: Literal["bad", "warning"]
    what: str
    said: str


def find_alarms(before: MetricsReading, now: MetricsReading) -> Sequence[Alarm]:
    """Return the alarms by the metrics now, and by their growth since ``before``."""
    return tuple(_alarms(before, now))


def _alarms(before: MetricsReading, now: MetricsReading) -> Iterator[Alarm]:
    def grown(name: str) -> int:
        return int(now.total(name) - before.total(name))

    if failures := grown(metrics_reading.FLUSH_FAILURES):
        said = f"{failures} flushes were not acknowledged in the last minutes: producers got errors."
        yield Alarm(severity="bad", what="flush_failures", said=said)
    if refusals := grown(metrics_reading.STATE_REFUSALS):
        said = f"{refusals} requests were refused in the last minutes, since the memory for state is full."
        yield Alarm(severity="bad", what="state_refusals", said=said)
    if errors := grown(metrics_reading.STORE_ERRORS):
        said = f"{errors} calls to the store failed in the last minutes."
        yield Alarm(severity="warning", what="store_errors", said=said)
    limits = now.by_label.get(metrics_reading.STATE_BYTES_LIMIT, {})
    for kind, used in sorted(now.by_label.get(metrics_reading.STATE_BYTES, {}).items()):
        limit = limits.get(kind, 0.0)
        if limit and used >= FULL_SHARE * limit:
            said = f"The state of {kind} takes {used / limit:.0%} of its memory limit. Beyond the limit requests are refused."
            yield Alarm(severity="warning", what="state_nearly_full", said=said)
    if behind := int(now.total(metrics_reading.TOPICS_BEHIND)):
        said = f"{behind} topics have more segments than maintenance would leave. Is 'tidelog maintain' running?"
        yield Alarm(severity="warning", what="maintenance_behind", said=said)
    overdue_s = max(now.by_label.get(metrics_reading.OVERDUE_SECONDS, {}).values(), default=0.0)
    if overdue_s > OVERDUE_S:
        said = f"Tables of topics at a journal are {overdue_s:.0f} s further behind than drain.ms allows."
        yield Alarm(severity="warning", what="drains_overdue", said=said)
