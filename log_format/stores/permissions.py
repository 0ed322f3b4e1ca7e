"""The permissions of files in a directory's store: for its user, and for a group with which the directory is shared.

A directory is shared with its group by ``chmod g+w`` or ``chmod g+s``. The group then has the same rights to everything written
below it, whatever the umask. Use ``chmod 2770`` for several users that write, ``chmod 2750`` for some that only read. Any other
directory, and one that the store creates, is for its user alone. Other users never get a right.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Permissions:
    """The modes of new files and directories. ``shared``: they apply whatever the umask."""

    file_mode: int
    directory_mode: int
    shared: bool


PRIVATE = Permissions(0o600, 0o700, shared=False)


def permissions_below(root: Path) -> Permissions:
    """Return the permissions of a store in ``root``, which need not exist yet."""
    try:
        mode = root.stat().st_mode
    except OSError:
        return PRIVATE
    if not mode & (stat.S_IWGRP | stat.S_ISGID):
        return PRIVATE
    group = mode & stat.S_IRWXG
    return Permissions(0o600 | (group & 0o060), 0o700 | group, shared=True)
