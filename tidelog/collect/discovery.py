"""Which files the patterns name now."""

from __future__ import annotations

import glob
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.collect.content import compression_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A regular file under one of its names; a symbolic link is the file that it leads to."""

    path: str
    device: int
    inode: int
    stored_bytes: int
    compression: str | None


def find(patterns: Iterable[str]) -> dict[tuple[int, int], Found]:
    """Every file that a pattern matches, by device and inode; of several names the first in order.

    ``*``, ``?``, ``[…]`` and ``**`` (any number of directories) are taken; names that begin with a dot must be written out.
    """
    # Not pathlib: it takes no absolute patterns.
    paths = sorted({path for pattern in patterns for path in glob.iglob(pattern, recursive=True)})  # noqa: PTH207
    return _described(paths)


def find_beside(paths: Iterable[str]) -> dict[tuple[int, int], Found]:
    """Every file in the directories of ``paths``: where what was renamed while nobody looked is likely to be."""
    directories = sorted({Path(path).parent for path in paths})
    return _described([str(path) for directory in directories for path in _entries(directory)])


def may_be_copy(path: str, originals: Sequence[str]) -> bool:
    """Whether rotation may have made ``path`` of a file with these names: the same beginning, and another name.

    ``access.log.1``, ``access.log-20250131.gz``, ``access-1.log`` and ``access.1.log`` of ``access.log``.
    """
    name = Path(path).name
    return path not in originals and any(name.startswith(Path(original).stem) for original in originals)


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _described(paths: Sequence[str]) -> dict[tuple[int, int], Found]:
    files: dict[tuple[int, int], Found] = {}
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue  # deleted meanwhile, or a link that leads nowhere
        if stat.S_ISREG(status.st_mode):
            found = Found(
                path=path,
                device=status.st_dev,
                inode=status.st_ino,
                stored_bytes=status.st_size,
                compression=compression_of(path),
            )
            files.setdefault((status.st_dev, status.st_ino), found)
    return files
