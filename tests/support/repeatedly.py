"""Something done again and again in a thread of its own, for the time of a block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def repeatedly(act: Callable[[], object], pause_seconds: float) -> Iterator[None]:
    """Call ``act`` with a pause ahead of each call. The last call is over when the block is."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(pause_seconds):
            act()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
