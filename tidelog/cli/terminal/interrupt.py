"""Ctrl-C and SIGTERM, where a command can bear them.

Records that are half written must be neither lost nor written twice. So a signal that comes during a write waits until the
write is done. A second signal does not wait: the output may be a pipe that no program reads.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Interrupts:
    """``KeyboardInterrupt`` for either signal, but not inside ``held``. Use as a context manager, in the main thread."""

    def __init__(self) -> None:
        self._holding = False
        self._came = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Inside, both signals raise. In a thread other than the main one nothing changes."""
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
        """While inside, the first signal waits; it raises when the block is done."""
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
