"""Makes the C library's allocator give memory back, so that the process holds what it uses.

glibc keeps an arena for each busy thread, and each arena keeps the most that its thread ever needed. A few dozen threads that
pass megabytes around so hold several times the memory in use (measured: 1,300 MiB for 300 MiB). Two arenas, and large blocks
mapped by themselves, keep the process below its bound. ``trim`` gives back freed blocks between used ones: it takes milliseconds,
and is called only when much is held. Other C libraries don't need it.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

ARENAS_MAX: Final = 2
LARGE_BLOCK_BYTES: Final = 32 * 1024 * 1024
"""Blocks of this size and more are mapped and unmapped by themselves. A smaller size would cost system time: with 256 KiB a third
of a gateway's CPU under Arrow load went into fresh pages, with 8 MiB a tenth where values have 1 KiB. glibc takes no more."""
TOP_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes kept at the end of the heap for the next burst: those of a few large flushes."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def give_memory_back(*, large_block_bytes: int = LARGE_BLOCK_BYTES, kept_bytes: int = TOP_KEPT_BYTES) -> bool:
    """Set the allocator up, before threads start. False where the C library has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return False
    settings = (
        (_M_ARENA_MAX, ARENAS_MAX),
        (_M_MMAP_THRESHOLD, large_block_bytes),
        (_M_TRIM_THRESHOLD, kept_bytes),
    )
    return all(mallopt(name, value) == 1 for name, value in settings)


def resident_bytes() -> int:
    """The process's memory; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def trim() -> None:
    """Give back freed blocks between used ones. It blocks this thread, and allocating ones, for milliseconds."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return
