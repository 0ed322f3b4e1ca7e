"""Ctrl-C and SIGTERM at safe moments of a command.

Half-written records must be neither lost nor written twice. So a signal during a write is deferred until the write is done. A
second signal is not deferred: the output may be a pipe that no program reads.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """Handler that raises ``KeyboardInterrupt`` for either signal, but not inside ``held``. Use it in the main thread."""

    def __init__(self) -> None:
        self._holding = False
        self._came = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Raise on both signals inside the block. Does nothing in a thread other than the main one."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        previous = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Defer the first signal inside the block; it raises at the block's end."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
        if self._came:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._holding and not self._came:
            self._came = True
            return
        raise KeyboardInterrupt
