"""Discovery of the files that match the patterns.

Symbolic links are ignored unless links are followed. Otherwise a user with write access to a collected directory could use a
link to publish any file that the agent may read. The directories that a pattern names before its first wildcard are the
operator's choice, and may be links.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from log_format.stores.beneath import open_parent
from tidelog.unpacking import compression_of

_WILDCARD: Final = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFile:
    """A regular file under one of its names; where links are followed, a symbolic link stands for its target."""

    path: str
    device: int
    inode: int
    stored_bytes: int
    compression: str | None


Files = dict[tuple[int, int], SeenFile]
"""Files by device and inode."""


def find_files(patterns: Iterable[str], *, follow_links: bool) -> tuple[Files, list[str]]:
    """Return every file that a pattern matches, under its first name in sort order, and the ignored links.

    Supports ``*``, ``?``, ``[…]`` and ``**`` (any number of directories); names that begin with a dot must be written out.
    """
    # Not pathlib, which accepts no absolute patterns. If several patterns match a path, the longest fixed directory counts.
    named: dict[str, str] = {}
    for pattern in patterns:
        directory = _WILDCARD.split(pattern, maxsplit=1)[0].rpartition("/")
        for path in glob.iglob(pattern, recursive=True):  # noqa: PTH207
            named[path] = max(named.get(path, ""), directory[0] + directory[1], key=len)
    links: list[str] = []
    files = _described(sorted(named.items()), follow_links, links)
    return files, [path for path in links if _target(path) not in files]


def find_siblings(paths: Iterable[str], *, follow_links: bool) -> Files:
    """Return every file in the directories of ``paths``, where a file renamed while no agent ran is likely to be."""
    directories = sorted({Path(path).parent for path in paths})
    beside = [(str(path), f"{directory}/") for directory in directories for path in _entries(directory)]
    return _described(beside, follow_links, [])


def _entries(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _described(named: Sequence[tuple[str, str]], follow_links: bool, links: list[str]) -> Files:
    """Return the regular files among the paths, each given with its directory that may be a link; append links to ``links``."""
    files: Files = {}
    for path, directory in named:
        try:
            status = Path(path).stat() if follow_links else _status(path, directory)
        except OSError as error:
            if error.errno == errno.ELOOP:
                links.append(path)
            continue  # otherwise deleted meanwhile, or a dangling link
        if stat.S_ISLNK(status.st_mode):
            links.append(path)
        elif stat.S_ISREG(status.st_mode):
            found = SeenFile(
                path=path,
                device=status.st_dev,
                inode=status.st_ino,
                stored_bytes=status.st_size,
                compression=compression_of(path),
            )
            files.setdefault((status.st_dev, status.st_ino), found)
    return files


def _status(path: str, directory: str) -> os.stat_result:
    """Return the file's status. Raises ``OSError``, with ``ELOOP`` if a directory below ``directory`` is a link."""
    below = "/".join(name for name in path[len(directory) :].split("/") if name)
    with open_parent(Path(directory), below) as (parent, name):
        return os.stat(name, dir_fd=parent, follow_symlinks=False)


def _target(path: str) -> tuple[int, int] | None:
    with suppress(OSError):
        status = Path(path).stat()
        return status.st_dev, status.st_ino
    return None
