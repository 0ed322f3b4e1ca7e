"""Deadlines at which each of many things has to be looked at next: a group's sessions, a queue's locks. Used on the event loop
only."""

from __future__ import annotations

import heapq


class Deadlines:
    """One deadline for each name. The heap also has replaced deadlines, which are skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._deadlines: dict[str, int] = {}

    def expect(self, name: str, deadline_ms: int | None) -> None:
        """Set the name's deadline, unless it has an earlier one. None: change nothing."""
        known_ms = self._deadlines.get(name)
        if deadline_ms is not None and (known_ms is None or deadline_ms < known_ms):
            self._deadlines[name] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, name))

    def due(self, now_ms: int) -> list[str]:
        """Return the names whose deadlines have passed, and remove these deadlines."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, name = heapq.heappop(self._heap)
            if self._deadlines.get(name) == deadline_ms:
                del self._deadlines[name]
                due.append(name)
        return due

    def forget(self, name: str) -> None:
        """Remove the name's deadline."""
        self._deadlines.pop(name, None)
