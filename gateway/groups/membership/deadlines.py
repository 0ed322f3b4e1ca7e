"""When each group's sessions have to be looked at. Belongs to the event loop."""

from __future__ import annotations

import heapq


class SessionDeadlines:
    """One deadline for each group. The heap also has replaced deadlines, which are skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._deadlines: dict[str, int] = {}

    def expect(self, group: str, deadline_ms: int | None) -> None:
        """Have the group looked at then, or at its earlier deadline. None: it has no sessions."""
        known_ms = self._deadlines.get(group)
        if deadline_ms is not None and (known_ms is None or deadline_ms < known_ms):
            self._deadlines[group] = deadline_ms
            heapq.heappush(self._heap, (deadline_ms, group))

    def due(self, now_ms: int) -> list[str]:
        """The groups to look at now; their deadlines are removed."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, group = heapq.heappop(self._heap)
            if self._deadlines.get(group) == deadline_ms:
                del self._deadlines[group]
                due.append(group)
        return due

    def forget(self, group: str) -> None:
        """Remove the group's deadline."""
        self._deadlines.pop(group, None)
