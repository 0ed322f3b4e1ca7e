"""Threads of a run that are told to stop."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterable


def joined(threads: Iterable[threading.Thread], seconds: float) -> list[str]:
    """Wait for the threads, at most so long for each. Return a line for each that goes on, with the calls that it is in."""
    waited = list(threads)
    for thread in waited:
        thread.join(seconds)
    frames = sys._current_frames()
    found = []
    for thread in waited:
        frame = frames.get(thread.ident or 0)
        if thread.is_alive():
            calls = traceback.extract_stack(frame) if frame is not None else []
            found.append(f"{thread.name} hangs: {' < '.join(f'{one.name}:{one.lineno}' for one in reversed(calls))}")
    return found
