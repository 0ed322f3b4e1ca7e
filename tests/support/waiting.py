"""Waiting for what comes about by itself."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(condition: Callable[[], object], seconds: float = 20) -> bool:
    """Whether the condition comes true within so many seconds."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return bool(condition())


PAUSE_SECONDS_MAX = 0.1
"""A look may be a request: what takes long is looked at ten times a second, what comes soon at once."""


def until(holds: Callable[[], object], seconds: float = 30, *, every: float = 0.02) -> None:
    """Return when the condition holds; fail when it does not within so many seconds. ``every``: the first pause."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(every)
        every = max(every, min(1.2 * every, PAUSE_SECONDS_MAX))
