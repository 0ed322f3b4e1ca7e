"""A thread that its owner may have to end although it never began.

Ctrl-C can come while ``start`` waits for the thread to run. ``join`` raises ``RuntimeError`` then, since the thread has not
begun, or not so far that it is known; coming out of a ``close``, that would hide the interrupt.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any


class WorkerThread(threading.Thread):
    """A daemon, to be started at once."""

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        super().__init__(target=target, args=arguments, name=name, daemon=True)

    def ended(self, timeout_s: float | None = None) -> None:
        """Wait for its end, unless it never began."""
        with contextlib.suppress(RuntimeError):
            self.join(timeout_s)
