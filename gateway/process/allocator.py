"""Settings of the C library's allocator, so that freed memory returns to the system.

glibc keeps an arena for each busy thread, and each arena keeps the most memory that its thread ever needed. A few dozen threads
that handle megabytes therefore hold several times the memory in use (measured: 1,300 MiB for 300 MiB). Two arenas, and large
blocks with mappings of their own, keep the process below its bound. ``trim`` returns freed blocks between used ones: it takes
milliseconds, and is called only when the process holds much. Other C libraries don't need any of this.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Final

ARENAS_MAX: Final = 2
LARGE_BLOCK_BYTES: Final = 32 * 1024 * 1024
"""Size from which a block has a mapping of its own. A smaller value would cost system time: with 256 KiB a third of a
gateway's CPU under Arrow load went into fresh pages, with 8 MiB a tenth for values of 1 KiB. glibc accepts no larger value."""
TOP_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes kept at the end of the heap for the next burst: those of a few large flushes."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8


def configure_allocator(*, large_block_bytes: int = LARGE_BLOCK_BYTES, kept_bytes: int = TOP_KEPT_BYTES) -> bool:
    """Configure the allocator; call it before threads start. Return False if the C library has no such settings."""
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
    """Return the process's resident memory; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def trim() -> None:
    """Return freed blocks between used ones to the system. Blocks this thread, and allocating ones, for milliseconds."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError, TypeError):
        return
