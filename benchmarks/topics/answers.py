"""What a load got: one row for each request, and the figures of a span of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.harness.percentiles import Array

ACKNOWLEDGED: Final = 0
UNANSWERED: Final = 1
CODES: Final = ("acknowledged", "no answer")
"""The codes that every load has, by their numbers; those of refusals come behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Arrays of equal length; times are monotonic seconds."""

    due: Array
    done: Array
    """NaN: no answer came."""
    code: Array
    """Into ``codes``."""
    topic: Array
    gateway: Array
    offset: Array
    """The base offset of an acknowledged request; -1 of others."""
    record_bytes: Array
    codes: tuple[str, ...]
    cpu_seconds: float
    """CPU seconds of the load generator."""
    connections: int

    def between(self, start: float, end: float) -> Answers:
        """Return the answers to requests due in ``[start, end)``."""
        chosen = (self.due >= start) & (self.due < end)
        return self._chosen(chosen)

    def acknowledged(self) -> Answers:
        """Return the answers to requests that were acknowledged."""
        return self._chosen(self.code == ACKNOWLEDGED)

    def latency_ms(self) -> Array:
        """Return the milliseconds from when each acknowledged request was due to its acknowledgement."""
        kept = self.acknowledged()
        return (kept.done - kept.due) * 1000

    def refused(self) -> dict[str, int]:
        """Return the number of requests that were not acknowledged, by code."""
        counted = Counter(self.code[self.code != ACKNOWLEDGED].tolist())
        return {self.codes[code]: number for code, number in sorted(counted.items())}

    def acknowledged_between(self, start: float, end: float) -> int:
        """Return the number of acknowledgements that came in ``[start, end)``, whenever their requests were due."""
        return int(np.count_nonzero(self._acknowledged_in(start, end)))

    def bytes_between(self, start: float, end: float) -> int:
        """Return the bytes of the values whose acknowledgements came in ``[start, end)``."""
        return int(self.record_bytes[self._acknowledged_in(start, end)].sum())

    def _acknowledged_in(self, start: float, end: float) -> Array:
        return (self.code == ACKNOWLEDGED) & (self.done >= start) & (self.done < end)

    def _chosen(self, chosen: Array) -> Answers:
        return Answers(
            due=self.due[chosen],
            done=self.done[chosen],
            code=self.code[chosen],
            topic=self.topic[chosen],
            gateway=self.gateway[chosen],
            offset=self.offset[chosen],
            record_bytes=self.record_bytes[chosen],
            codes=self.codes,
            cpu_seconds=self.cpu_seconds,
            connections=self.connections,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wakes:
    """What waiting readers got: one row for each answer with records, of the offsets ``[start, end)``."""

    topic: Array
    gateway: Array
    start: Array
    end: Array
    at: Array
    refused_count: int
    """Fetches that were refused, and readers that lost their connection."""

    def after_acknowledgement_ms(self, sent: Answers) -> tuple[Array, Array]:
        """Return, for each record that a reader got, ms behind its acknowledgement, and the row of its answer.

        ``sent``: requests of one record each. A reader may be told before the producer: that is less than nothing.
        """
        kept = sent.acknowledged()
        known = dict(zip(zip(kept.topic.tolist(), kept.offset.tolist(), strict=True), kept.done.tolist(), strict=True))
        waits: list[float] = []
        rows: list[int] = []
        columns = (self.topic.tolist(), self.start.tolist(), self.end.tolist(), self.at.tolist())
        for row, (topic, start, end, at) in enumerate(zip(*columns, strict=True)):
            for offset in range(start, end):
                acknowledged = known.get((topic, offset))
                if acknowledged is not None:
                    waits.append((at - acknowledged) * 1000)
                    rows.append(row)
        return np.array(waits), np.array(rows, np.int64)
