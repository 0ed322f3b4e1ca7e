"""The share of the machine that this process may use: cores and memory, as Linux reports it (affinity, control groups v1 and v2).

Sources: sched_getaffinity(2); the kernel's documents of cgroup v2 (``cpu.max``, ``memory.max``) and of v1 (``cpu.cfs_quota_us``,
``memory.limit_in_bytes``). A group's limit holds for all groups below it, so the smallest limit counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

_GROUPS: Final = Path("sys/fs/cgroup")
_MEMBERSHIP: Final = Path("proc/self/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Cores, possibly a fraction of one, and bytes of memory."""

    cores: float
    memory_bytes: int

    @classmethod
    def current(cls) -> Self:
        """Return what this process may use now."""
        affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls.with_limits(
            Path("/"), cores=affine, memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        )

    @classmethod
    def with_limits(cls, root: Path, *, cores: float, memory_bytes: int) -> Self:
        """Return these values, or less if the process's control groups say so. ``root``: directory that has ``/proc`` and
        ``/sys``."""
        return cls(
            cores=min([cores, *_cores(root)]),
            memory_bytes=min([memory_bytes, *_memory_bytes(root)]),
        )


def _cores(root: Path) -> Iterator[float]:
    for group in _groups(root, ""):
        quota, _, period = _text(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)
    for group in _groups(root, "cpu"):
        quota, period = _text(group / "cpu.cfs_quota_us"), _text(group / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):  # -1: no limit
            yield int(quota) / int(period)


def _memory_bytes(root: Path) -> Iterator[int]:
    names = [*(group / "memory.max" for group in _groups(root, ""))]
    names += [group / "memory.limit_in_bytes" for group in _groups(root, "memory")]
    for name in names:
        text = _text(name)
        if text.isdigit():  # for no limit v2 says "max", v1 a number larger than any memory
            yield int(text)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield this process's group and all groups above it; "" is the single hierarchy of v2. In a container the path may be the
    host's: then only the topmost group exists, which is the container's own."""
    for line in _text(root / _MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            of = root / _GROUPS / controller
            below = PurePosixPath(path.lstrip("/"))
            yield from (of / part for part in (below, *below.parents))


def _text(path: Path) -> str:
    """Return the file's text; empty if there is no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
