"""Creating directories, and keeping them and their entries durable, so that they survive a crash of the machine.

A new directory is durable once its parent is synced. A process that finds a directory can't know whether its creator synced the
parent. So the process syncs the parent of each directory that it meets for the first time, and remembers the directory by
identity. An open file descriptor keeps the inode number from reuse, so a directory that was removed and re-created is noticed.
The memory is bounded; a forgotten directory costs one more sync.

A failed sync never counts as done: the directory stays doubtful. ``settle`` must succeed before anything in it is shown or built
upon.

An object that another process has just put has its name before that process syncs the directory, and the process may die in
between. So before an object is shown that is younger than this process's last sync, ``show`` syncs the directory and those above
it. Otherwise a power cut could remove what was read, and perhaps acknowledged on the strength of that.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Final

from log_format.limits import DIRECTORIES_REMEMBERED_MAX
from log_format.stores.beneath import link_error
from log_format.stores.permissions import PRIVATE, Permissions

WRITTEN_BACK_S: Final = 60
"""Age in seconds after which a name is certainly on disk: file systems write names back by themselves long before."""
_COARSE_S: Final = 0.05
"""Seconds by which a file's times may be behind the clock, since they come from its last tick."""
_NOT_WRITABLE: Final = {errno.EROFS, errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM}
"""Errors that mean that this process can't sync there: it only reads, and acknowledges nothing."""


class DurableDirectories:
    """The directories below ``root``, which it creates and syncs. Thread-safe. Raises the file system's ``OSError``.

    Below the root a symbolic link is never accepted as a directory.
    """

    def __init__(self, root: str, *, fsync: bool, permissions: Permissions = PRIVATE) -> None:
        self._root = root
        self._permissions = permissions
        self._fsync = fsync
        self._lock = threading.Lock()
        self._remembered: OrderedDict[str, tuple[int, int, int]] = OrderedDict()
        """Path -> a directory's open descriptor, device and inode."""
        self._doubtful: set[str] = set()
        self._synced: OrderedDict[str, float] = OrderedDict()
        """Path -> when the directory's last sync began (wall clock, like files' times)."""

    def __del__(self) -> None:
        while self._remembered:
            os.close(self._remembered.popitem()[1][0])

    def make(self, path: str) -> None:
        """Create ``path`` (the root or a directory below it) with its parents. On return it survives a crash."""
        try:
            status = os.stat(path)  # noqa: PTH116 - hot: an object of the path costs as much
        except OSError:
            status = None
        if status is not None and (self._is_remembered(path, status) if self._fsync else stat.S_ISDIR(status.st_mode)):
            return
        if path == self._root:
            self._make_root(Path(path))
        else:
            above = path.rpartition("/")[0]
            self.make(above)
            _make_directory(path, self._permissions)
            self.sync(above)
        if self._fsync:
            self._remember(path)

    def is_made(self, path: str, descriptor: int) -> bool:
        """Return whether the directory ``path``, open as ``descriptor``, is known to survive a crash."""
        return not self._fsync or self._is_remembered(path, os.fstat(descriptor))

    def sync(self, path: str, descriptor: int | None = None) -> None:
        """Make the directory's present entries durable. ``descriptor``: descriptor for reading, if the directory is
        open already."""
        if not self._fsync:
            return
        began_s = time.time()
        try:
            sync_directory(path, descriptor)
        except FileNotFoundError:
            pass  # removed by another process, so it was empty: nothing to make durable
        except OSError:
            with self._lock:
                self._doubtful.add(path)
            raise
        with self._lock:
            self._doubtful.discard(path)
            self._synced[path] = max(began_s, self._synced.pop(path, 0))
            if len(self._synced) > DIRECTORIES_REMEMBERED_MAX:
                self._synced.popitem(last=False)

    def show(self, path: str, changed_s: float) -> None:
        """Make sure that an object in the directory survives a crash. ``changed_s``: when the object got its name, or later."""
        if not self._fsync or time.time() - changed_s > WRITTEN_BACK_S:
            return
        with self._lock:
            synced_s = self._synced.get(path)
        if synced_s is not None and synced_s > changed_s + _COARSE_S:
            return
        try:
            self.sync(path)
            while synced_s is None and path != self._root:
                path = path.rpartition("/")[0]
                self.sync(path)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise

    def settle(self, path: str) -> None:
        """Sync the directory ``path`` again if its last sync failed."""
        if self._doubtful and path in self._doubtful:
            self.sync(path)

    def _make_root(self, path: Path) -> None:
        """Create the root. Existing directories above it are the user's choice, and may be links."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            _make_directory(str(directory), PRIVATE)
            self.sync(str(directory.parent))

    def _is_remembered(self, path: str, status: os.stat_result) -> bool:
        with self._lock:
            known = self._remembered.get(path)
            if known is None:
                return False
            same = known[1:] == (status.st_dev, status.st_ino)
            if same:
                self._remembered.move_to_end(path)
            else:
                os.close(self._remembered.pop(path)[0])
            return same

    def _remember(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        status = os.fstat(descriptor)
        with self._lock:
            stale = self._remembered.pop(path, None)
            self._remembered[path] = (descriptor, status.st_dev, status.st_ino)
            if stale is None and len(self._remembered) > DIRECTORIES_REMEMBERED_MAX:
                stale = self._remembered.popitem(last=False)[1]
        if stale is not None:
            os.close(stale[0])


def sync_directory(path: str, descriptor: int | None = None) -> None:
    """Make the directory's entries durable. ``descriptor``: as for ``DurableDirectories.sync``. Raises ``OSError``."""
    if descriptor is not None:
        os.fsync(descriptor)
        return
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _make_directory(directory: str, permissions: Permissions) -> None:
    path = Path(directory)
    try:
        path.mkdir(mode=permissions.directory_mode)
    except FileExistsError as error:
        mode = path.lstat().st_mode  # FileNotFoundError: a concurrent delete removed it
        if stat.S_ISLNK(mode):
            raise link_error(path) from error
        if not stat.S_ISDIR(mode):  # an object has this name; to the caller FileExistsError means something else
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory) from error
    else:
        if permissions.shared:
            path.chmod(permissions.directory_mode | (path.stat().st_mode & stat.S_ISGID))
