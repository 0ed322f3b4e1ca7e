"""A thread whose owner can end it even if it never began.

Ctrl-C can come while ``start`` waits for the thread to run. ``join`` then raises ``RuntimeError``, since Python does not yet
know that the thread has begun. Raised from a ``close``, that error would hide the interrupt.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any


class WorkerThread(threading.Thread):
    """Daemon thread, to be started right after its creation."""

    def __init__(self, target: Callable[..., None], *arguments: Any, name: str) -> None:
        super().__init__(target=target, args=arguments, name=name, daemon=True)

    def ended(self, timeout_s: float | None = None) -> None:
        """Wait for the thread to end, unless it never began."""
        with contextlib.suppress(RuntimeError):
            self.join(timeout_s)
