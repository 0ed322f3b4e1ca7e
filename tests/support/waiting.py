"""Waiting for what comes about by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


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


def until(
    look: Callable[[], T | None], seconds: float = 30, *, every: float = 0.02, what: str = "it never came about"
) -> T:
    """What a look finds, as soon as that is true; fail with ``what`` when it is not within so many seconds. ``every``: the first
    pause."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, what
        time.sleep(every)
        every = max(every, min(1.2 * every, PAUSE_SECONDS_MAX))
    return found


async def turns_up(look: Callable[[], T | None], seconds: float = 30, *, what: str = "it never came about") -> T:
    """As ``until``, for what the event loop of the test itself brings about, or threads beside it."""
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.01)
    return found
