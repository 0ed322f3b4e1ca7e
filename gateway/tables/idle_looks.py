"""When a table is looked at in which nothing happens: at once after a change, then ever more rarely.

A look at a system table is two requests to the store, and most of a gateway's life nothing has changed there. What could make a
look worth while is seen without the store: this gateway's own commits, and which gateways there are.
"""

from __future__ import annotations

from typing import Final

RAREST_TIMES: Final = 12
"""The longest pause, in first pauses: a minute for one of 5 s."""


class IdleLooks:
    """``pause_ms``: from one look to the next while things change."""

    def __init__(self, pause_ms: int) -> None:
        self._first_ms = pause_ms
        self._pause_ms = pause_ms
        self._due_ms = 0
        self._seen: object = None

    def is_due(self, now_ms: int, seen: object) -> bool:
        """Whether to look now (monotonic). ``seen``: what is known without a look; when it differs from last time, look."""
        if seen != self._seen:
            self._seen = seen
            self.keep_on()
        elif now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._pause_ms
        self._pause_ms = min(self._pause_ms * 2, self._first_ms * RAREST_TIMES)
        return True

    def keep_on(self) -> None:
        """Something is left to do: the next looks are not rarer."""
        self._pause_ms = self._first_ms
        self._due_ms = 0
