"""Schedule of looks at a table in which nothing happens: immediately after a change, then ever more rarely.

A look at a system table is two requests to the store, and most of a gateway's life nothing has changed there. Two things that
may make a look worth while are seen without the store: this gateway's own commits, and which gateways there are.
"""

from __future__ import annotations

from typing import Final

PAUSE_FACTOR_MAX: Final = 12
"""Longest pause, in multiples of the first pause: a minute for one of 5 s."""


class LookBackoff:
    """Schedule of looks. ``pause_ms``: from one look to the next while things change."""

    def __init__(self, pause_ms: int) -> None:
        self._first_ms = pause_ms
        self._pause_ms = pause_ms
        self._due_ms = 0
        self._seen: object = None

    def is_due(self, now_ms: int, seen: object) -> bool:
        """Return whether to look now (monotonic), and schedule the next look. ``seen``: what is known without a look; a look is
        due when it differs from the last call's."""
        if seen != self._seen:
            self._seen = seen
            self.reset()
        elif now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, self._first_ms * PAUSE_FACTOR_MAX)
        return True

    def reset(self) -> None:
        """Reset the pause, since something is left to do."""
        self._pause_ms = self._first_ms
        self._due_ms = 0
