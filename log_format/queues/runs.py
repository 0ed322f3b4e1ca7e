"""The settlements of one partition by a queue: a start offset, and runs above it.

1. Everything before the start offset is settled. A run describes a range above it. What no run covers was never settled.
2. Runs are disjoint and ascending. Neighbours with the same state and count become one run, and settled ones at the start raise
   the start offset, so settlements in any order leave few runs.

Source: the share-partition state of KIP-932 (start offset, delivery state and count).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

SETTLED: Final = 0
"""State of records that are accepted, dropped, or in the dead letter topic."""
RELEASED: Final = 1
"""State of records to be delivered again, from ``due_ms`` on."""
DEAD: Final = 2
"""State of records that are not delivered any more, and on their way into the dead letter topic, for ``reason``."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Offsets ``first`` to ``last``, both included. ``count``: deliveries so far. ``due_ms``: ms since the epoch."""

    first: int
    last: int
    state: int
    count: int = 0
    due_ms: int = 0
    reason: str = ""

    def part(self, first: int, last: int) -> Run:
        """Return the same run with fewer offsets."""
        return Run(first, last, self.state, self.count, self.due_ms, self.reason)

    def joins(self, other: Run) -> bool:
        """Return whether ``other`` begins where this run ends, with the same state."""
        return (
            self.last + 1 == other.first
            and self.state == other.state
            and (self.state == SETTLED or self._what() == other._what())
        )

    def _what(self) -> tuple[int, int, str]:
        return (self.count, self.due_ms, self.reason)


def overlay_runs(start_offset: int, runs: Sequence[Run], more: Sequence[Run]) -> tuple[int, tuple[Run, ...]]:
    """Return the start offset and the runs after ``more`` (disjoint, ascending) has replaced what was there."""
    left = list(runs)
    out: list[Run] = []
    at = 0
    for new in more:
        while at < len(left) and left[at].last < new.first:
            out.append(left[at])
            at += 1
        if at < len(left) and left[at].first < new.first:
            out.append(left[at].part(left[at].first, new.first - 1))
        out.append(new)
        while at < len(left) and left[at].last <= new.last:
            at += 1
        if at < len(left) and left[at].first <= new.last:
            left[at] = left[at].part(new.last + 1, left[at].last)
    out += left[at:]
    return advance_start(start_offset, out)


def advance_start(start_offset: int, runs: Iterable[Run]) -> tuple[int, tuple[Run, ...]]:
    """Join runs, and raise the start offset as far as they allow; return both."""
    start, joined = start_offset, list[Run]()
    for run in runs:
        if run.last < start:
            continue
        if run.first < start:
            run = run.part(start, run.last)  # noqa: PLW2901 - the rest of it
        if run.state == SETTLED and run.first == start:
            start = run.last + 1
        elif joined and joined[-1].joins(run):
            joined[-1] = joined[-1].part(joined[-1].first, run.last)
        else:
            joined.append(run)
    return start, tuple(joined)


def join_runs(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return the runs in order, with neighbours of the same state joined."""
    return advance_start(-1, sorted(runs, key=lambda run: run.first))[1]
