"""Opening paths below a directory without following symbolic links on the way; the directory itself may be one.

Each name is opened relative to the descriptor of the directory before it, so that no other process can put a link in between. For
a key of four names that is five system calls more than opening the path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

StrPath = str | os.PathLike[str]

_READABLE: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def open_parent(root: StrPath, key: str) -> Iterator[tuple[int, str]]:
    """Open the directory of object ``key``; yield its descriptor, for ``dir_fd`` only, and the object's name in it.

    Raises ``OSError``: ``ELOOP`` if a directory on the way is a symbolic link.
    """
    *names, name = key.split("/")
    descriptor = _open_directory(root, names, _DIRECTORY)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


def open_beneath(root: StrPath, directory: str, *, to_sync: bool) -> int:
    """Return a descriptor of ``directory`` below ``root`` (empty: the root itself), which the caller must close.

    It is for ``dir_fd``, and with ``to_sync`` also for ``fsync``. Raises the same ``OSError`` as ``open_parent``.
    """
    names = [name for name in directory.split("/") if name]
    return _open_directory(root, names, _READABLE if to_sync else _DIRECTORY)


def check_way(root: StrPath, directory: str) -> None:
    """Raise ``OSError`` unless ``directory``, below ``root``, can be reached without a symbolic link."""
    os.close(open_beneath(root, directory, to_sync=False))


def link_error(path: object) -> OSError:
    """Return the error ``ELOOP`` for a symbolic link on the way."""
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _open_directory(root: StrPath, names: Sequence[str], last_flags: int) -> int:
    descriptor = os.open(root, _DIRECTORY if names else last_flags)
    last = len(names) - 1
    for index, name in enumerate(names):
        above = descriptor
        try:
            flags = last_flags if index == last else _DIRECTORY
            descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        except NotADirectoryError:
            # The error is the same for a link and for a file.
            if _is_link(name, above):
                raise link_error(name) from None
            raise
        finally:
            os.close(above)
    return descriptor


def _is_link(name: str, directory: int) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False
