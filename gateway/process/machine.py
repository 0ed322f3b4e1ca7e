"""What this process may use of the machine: cores and memory, as Linux says it (affinity, control groups of either version).

Sources: sched_getaffinity(2); the kernel's documents of cgroup v2 (``cpu.max``, ``memory.max``) and of v1 (``cpu.cfs_quota_us``,
``memory.limit_in_bytes``). A limit of a group holds for all groups below it, so the least of all counts.
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
    """``cores`` may be a fraction of one."""

    cores: float
    memory_bytes: int

    @classmethod
    def of_this_process(cls) -> Self:
        """What this process may use now."""
        affine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls.limited(
            Path("/"), cores=affine, memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        )

    @classmethod
    def limited(cls, root: Path, *, cores: float, memory_bytes: int) -> Self:
        """So much, or less where the control groups of this process say so. ``root``: where ``/proc`` and ``/sys`` are."""
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
        if quota.isdigit() and period.isdigit() and int(period):  # -1: none
            yield int(quota) / int(period)


def _memory_bytes(root: Path) -> Iterator[int]:
    names = [*(group / "memory.max" for group in _groups(root, ""))]
    names += [group / "memory.limit_in_bytes" for group in _groups(root, "memory")]
    for name in names:
        text = _text(name)
        if text.isdigit():  # v2 says "max" for none, v1 a number beyond any memory
            yield int(text)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """This process's group and all above it; "" is the one hierarchy of v2. In a container the path may be the host's: then only
    the uppermost is there, which is the container's own."""
    for line in _text(root / _MEMBERSHIP).splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            of = root / _GROUPS / controller
            below = PurePosixPath(path.lstrip("/"))
            yield from (of / part for part in (below, *below.parents))


def _text(path: Path) -> str:
    """The file's text; empty where there is none."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""
