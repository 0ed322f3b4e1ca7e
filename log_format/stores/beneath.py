"""Opens paths below a directory without following symbolic links on the way; the directory itself may be one.

Each name is opened from the descriptor of the directory before it, so that no other process can put a link in between. For a
key of four names that is five system calls more than opening the path.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_DIRECTORY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def parent_of(root: Path, key: str) -> Iterator[tuple[int, str]]:
    """A descriptor of the directory that holds the object ``key``, for ``dir_fd`` only, and the object's name there.

    Raises ``OSError``: ``ELOOP`` where a directory on the way is a symbolic link.
    """
    *names, name = key.split("/")
    descriptor = _open_directory(root, names)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)


def check_way(root: Path, directory: str) -> None:
    """Raise ``OSError`` unless ``directory``, below ``root``, can be reached without a symbolic link."""
    os.close(_open_directory(root, [name for name in directory.split("/") if name]))


def link_error(path: object) -> OSError:
    """``ELOOP``: a symbolic link is on the way."""
    return OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _open_directory(root: Path, names: Sequence[str]) -> int:
    descriptor = os.open(root, _DIRECTORY)
    for name in names:
        above = descriptor
        try:
            descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
        except NotADirectoryError:
            # The system gives this error for a link here, and for a file.
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
