"""A store in one directory: objects are files, and keys are their paths, so that Spark and Delta can read the directory.

1. An object is written to a file in ``.tmp/`` and synced, then appears as a whole under its name: by ``rename`` (put) or by
   ``link`` (put_if_absent). ``link`` fails if the name is taken, among all processes of the machine.
2. Before a put returns, the directory and each directory above it are synced (``durable_directory``); also before a read shows
   what another process has just put.
3. ``.tmp/`` is never shown. A store opened an hour later removes what a killed process left there.
4. Files are for the store's user alone, and for its group if the directory is shared with the group (``permissions``).
5. Below the directory no symbolic link is followed; an operation that meets one on its way is refused (``beneath``).
6. If the store's directory itself is moved away, deleted or unmounted, every operation fails from then on (``local_root``).
7. A directory without objects counts as absent: it is not shown, and ``delete`` removes it. A concurrent put creates it again.

Other files are not shown either: symbolic links, pipes, names that are no valid keys. There is no locking. So network file
systems whose ``link`` is not atomic are not supported.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, count
from pathlib import Path
from typing import Final, TypeVar

from log_format.errors import ObjectExists, ObjectMissing, ObjectTooLarge, StoreUnavailable
from log_format.limits import DIRECTORY_ATTEMPTS_MAX, TEMPORARY_FILE_AGE_MAX_MS
from log_format.store import ObjectInfo
from log_format.stores.beneath import link_error, open_beneath, open_parent
from log_format.stores.durable_directory import DurableDirectories
from log_format.stores.keys import TEMPORARY, check_directory, check_key, check_prefix, check_range
from log_format.stores.local_errors import OUTCOME_UNKNOWN, failed, reading_failed, refused
from log_format.stores.local_links import Links
from log_format.stores.local_list import list_directories, list_objects
from log_format.stores.local_root import LocalRoot
from log_format.stores.permissions import permissions_below

T = TypeVar("T")
_NO_LINK: Final = {errno.EMLINK, errno.EPERM, errno.EXDEV}
"""Errors with which the system refuses a link that it could do without: too many names, another's file, another file system."""

_LOOKED_FOR_BYTES: Final = 64 * 1024
"""Size above which ``put_if_absent`` looks for an existing object before it writes. For a commit that would cost more than it
saves."""


class _NoLink(Exception):
    """The system gives this file no second name."""


class LocalStore:
    """A store in a directory, which the first put creates. ``fsync`` false gives up promise 4 of ``ObjectStore``."""

    def __init__(self, directory: str | os.PathLike[str], *, fsync: bool = True) -> None:
        if sys.getfilesystemencoding().lower() != "utf-8":
            raise ValueError("file names must be UTF-8: set PYTHONUTF8=1")
        if str(directory).startswith("file:"):
            raise ValueError(f"{directory} is a URI, not a directory: open_store takes URIs")
        self._root = Path(directory).absolute()
        if self._root.exists() and not self._root.is_dir():
            raise ValueError(f"{self._root} is not a directory")
        self._base = str(self._root)
        """Root as text, since path objects would cost as much as the system calls."""
        self._temporary = f"{self._base}/{TEMPORARY}"
        self._nonce = os.urandom(16).hex()
        """Random part of temporary names. Two processes may have the same id, in containers that share the directory."""
        self._numbers = count()
        self._fsync = fsync
        self._permissions = permissions_below(self._root)
        self._directories = DurableDirectories(self._base, fsync=fsync, permissions=self._permissions)
        self._seen = LocalRoot(self._base)
        self._remove_stale()

    @property
    def uri(self) -> str:
        """Address of the store: ``file:///directory``, percent-encoded."""
        return self._root.as_uri()

    @property
    def lists_from_key(self) -> bool:
        """False, since the operating system lists a directory as a whole, in no order."""
        return False

    @property
    def directory(self) -> Path:
        """Absolute path of the root."""
        return self._root

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the object, as ``ObjectStore.get`` specifies."""

        def read(descriptor: int, size_bytes: int) -> bytes:
            if bytes_max is not None and size_bytes > bytes_max:
                raise ObjectTooLarge(key, size_bytes, bytes_max)
            return _read_range(descriptor, 0, size_bytes)

        return self._read(key, read)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes, as ``ObjectStore.get_range`` specifies."""
        check_range(start, end)
        return self._read(key, lambda descriptor, size_bytes: _read_range(descriptor, start, min(end, size_bytes)))

    def head(self, key: str) -> ObjectInfo:
        """Return size and time, as ``ObjectStore.head`` specifies."""
        with self._seen.kept(key):
            return self._info(key)

    def _info(self, key: str) -> ObjectInfo:
        path = self._path(key)
        try:
            self._directories.settle(_above(path))
            status = self._status(key)
        except OSError as error:
            raise reading_failed(key, error) from error
        if stat.S_ISLNK(status.st_mode):
            raise refused(key, link_error(path))
        if not stat.S_ISREG(status.st_mode):
            raise ObjectMissing(key)
        try:
            self._directories.show(_above(path), status.st_ctime)
        except OSError as error:
            raise reading_failed(key, error) from error
        return ObjectInfo(key=key, size_bytes=status.st_size, modified_at_ms=status.st_mtime_ns // 1_000_000)

    def put(self, key: str, data: bytes) -> None:
        """Write the object, as ``ObjectStore.put`` specifies."""
        self._write(key, data, replace=True)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write the object unless it exists, as ``ObjectStore.put_if_absent`` specifies."""
        path = self._path(key)
        if len(data) > _LOOKED_FOR_BYTES and os.path.lexists(path):
            with suppress(OSError):
                if stat.S_ISREG(self._status(key).st_mode):  # saves writing the data; the link below decides
                    raise self._exists(key, path)
        try:
            self._write(key, data, replace=False)
        except FileExistsError:
            raise self._taken(key, path) from None

    def copy_if_absent(self, source: str, target: str) -> None:
        """Give the source's file a second name, as ``ObjectStore.copy_if_absent`` specifies; where the system refuses that, copy
        its bytes. A file is never changed in place, so neither name can change the other's object."""
        path = self._path(target)
        try:
            with self._seen.kept(source, writes=True):
                self._link(source, target)
        except _NoLink:
            self.put_if_absent(target, self.get(source))
        except FileExistsError:
            raise self._taken(target, path) from None

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Give each source's file a second name, as ``CopiesMany`` specifies."""
        for key in chain.from_iterable(copies):
            check_key(key)
        with self._seen.kept("", writes=True):
            Links(self._base, self._durable, self._directories.sync, self.copy_if_absent).make(copies)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects, as ``ObjectStore.list`` specifies. Each directory is read as a whole when the listing reaches it."""
        check_prefix(prefix)
        return self._listed(
            prefix, list_objects(self._root, prefix, start_after, lambda path: self._directories.settle(str(path)))
        )

    def list_directories(self, prefix: str) -> Iterator[str]:
        """Yield directories, as ``ObjectStore.list_directories`` specifies."""
        check_directory(prefix)
        return self._listed(prefix, list_directories(self._root, prefix))

    def _listed(self, prefix: str, found: Iterator[T]) -> Iterator[T]:
        with self._seen.kept(prefix):
            yield from found

    def delete(self, key: str) -> None:
        """Delete the object, as ``ObjectStore.delete`` specifies."""
        with self._seen.kept(key, writes=True):
            self._delete(key)

    def _delete(self, key: str) -> None:
        path = self._path(key)
        try:
            with open_parent(self._base, key) as (descriptor, name):
                if stat.S_ISDIR(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                    return
                os.unlink(name, dir_fd=descriptor)
        except NotADirectoryError:
            return
        except FileNotFoundError:
            pass
        except OSError as error:
            raise refused(key, error) from error
        try:
            self._directories.sync(_above(path))  # even if it was absent: an earlier delete may not be durable yet
        except OSError as error:
            raise failed(key, error, may_have_happened=True) from error
        parent = _above(path)
        with suppress(OSError):
            while parent != self._base:
                Path(parent).rmdir()
                parent = _above(parent)

    def _path(self, key: str) -> str:
        return f"{self._base}/{check_key(key)}"

    def _status(self, key: str) -> os.stat_result:
        with open_parent(self._base, key) as (parent, name):
            return os.stat(name, dir_fd=parent, follow_symlinks=False)

    def _read(self, key: str, read: Callable[[int, int], bytes]) -> bytes:
        with self._seen.kept(key):
            return self._read_file(key, read)

    def _read_file(self, key: str, read: Callable[[int, int], bytes]) -> bytes:
        path = self._path(key)
        try:
            self._directories.settle(_above(path))
            with open_parent(self._base, key) as (parent, name):
                # Non-blocking, so that a pipe with the object's name can't stop the reader.
                descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise ObjectMissing(key)
                self._directories.show(_above(path), status.st_ctime)
                return read(descriptor, status.st_size)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise reading_failed(key, error) from error

    def _write(self, key: str, data: bytes, *, replace: bool) -> None:
        """Write ``data`` to a temporary file and publish it. Raises ``FileExistsError`` if the name is taken and ``replace`` is
        false."""
        with self._seen.kept(key, writes=True):
            self._write_file(key, data, replace=replace)

    def _write_file(self, key: str, data: bytes, *, replace: bool) -> None:
        temporary = f"{self._temporary}/{os.getpid()}-{self._nonce}-{next(self._numbers)}"
        is_moved = False
        try:
            try:
                self._write_temporary(temporary, data)
            except OSError as error:
                raise refused(key, error) from error

            def give_name(name: str, parent: int) -> None:
                if replace:
                    os.rename(temporary, name, dst_dir_fd=parent)
                else:
                    os.link(temporary, name, dst_dir_fd=parent)

            self._publish(key, temporary, give_name)
            is_moved = replace
        finally:
            if not is_moved:
                with suppress(OSError):
                    os.unlink(temporary)  # noqa: PTH108 - hot, as above

    def _write_temporary(self, temporary: str, data: bytes) -> None:
        self._directories.make(self._temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            if self._permissions.shared:
                os.fchmod(descriptor, self._permissions.file_mode)
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            if self._fsync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _link(self, source: str, target: str) -> None:
        """Give the file of ``source`` the name of ``target``, too. Raises ``FileExistsError``, ``_NoLink``."""
        origin = self._path(source)
        try:
            with open_parent(self._base, source) as (directory, source_name):
                if not stat.S_ISREG(os.stat(source_name, dir_fd=directory, follow_symlinks=False).st_mode):
                    raise ObjectMissing(source)

                def give_name(name: str, parent: int) -> None:
                    try:
                        os.link(source_name, name, src_dir_fd=directory, dst_dir_fd=parent, follow_symlinks=False)
                    except FileNotFoundError:
                        if not Path(origin).exists():
                            raise ObjectMissing(source) from None
                        raise
                    except OSError as error:
                        if error.errno in _NO_LINK:
                            raise _NoLink from error
                        raise

                self._publish(target, origin, give_name)
        except FileExistsError:
            raise
        except OSError as error:
            raise reading_failed(source, error) from error

    def _publish(self, key: str, origin: str, give_name: Callable[[str, int], None]) -> None:
        """Give the file at ``origin`` its name in the object's directory, durably. ``give_name``: takes the name and the
        directory's descriptor. Raises ``FileExistsError``, ``StoreUnavailable``."""
        above = _above(self._path(key))
        try:
            parent = self._named(key, origin, above, give_name)
        except FileExistsError:
            raise
        except OSError as error:
            raise failed(key, error, may_have_happened=error.errno in OUTCOME_UNKNOWN) from error
        try:
            self._directories.sync(above, parent)
        except OSError as error:
            raise failed(key, error, may_have_happened=True) from error
        finally:
            os.close(parent)

    def _named(self, key: str, origin: str, above: str, give_name: Callable[[str, int], None]) -> int:
        """Give the file its name; return its directory's descriptor, which the caller must close. Raises ``OSError``."""
        directory, _, name = key.rpartition("/")
        for attempt in range(DIRECTORY_ATTEMPTS_MAX):
            try:
                parent = self._durable(directory, above)
                try:
                    give_name(name, parent)
                except BaseException:
                    os.close(parent)
                    raise
            except FileNotFoundError:  # a concurrent delete removed the directory
                if attempt + 1 == DIRECTORY_ATTEMPTS_MAX or not Path(origin).exists():
                    raise
            else:
                return parent
        raise AssertionError("the last attempt returns or raises")

    def _durable(self, directory: str, path: str) -> int:
        """Return a descriptor of the directory, created if necessary, which survives a crash. Raises ``OSError``."""
        with suppress(FileNotFoundError):
            parent = open_beneath(self._base, directory, to_sync=self._fsync)
            if self._directories.is_made(path, parent):
                return parent
            os.close(parent)
        self._directories.make(path)
        return open_beneath(self._base, directory, to_sync=self._fsync)

    def _taken(self, key: str, path: str) -> ObjectExists | StoreUnavailable:
        """Return the error for a name that is taken, by an object or by something that is none."""
        if Path(path).is_symlink():
            return refused(key, link_error(path))
        if Path(path).is_dir():
            return refused(key, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        return self._exists(key, path)

    def _exists(self, key: str, path: str) -> ObjectExists | StoreUnavailable:
        try:
            self._directories.settle(_above(path))
        except OSError as error:
            return failed(key, error, may_have_happened=True)
        return ObjectExists(key)

    def _remove_stale(self) -> None:
        oldest = time.time() - TEMPORARY_FILE_AGE_MAX_MS / 1000
        with suppress(OSError), open_parent(self._base, f"{TEMPORARY}/any") as (descriptor, _):
            for name in os.listdir(self._temporary):  # noqa: PTH208 - names alone
                with suppress(OSError):
                    if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mtime < oldest:
                        os.unlink(name, dir_fd=descriptor)


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _read_range(descriptor: int, start: int, end: int) -> bytes:
    """Read the bytes ``[start, end)``; ``end`` is not beyond the end of the file."""
    pieces = []
    while start < end and (piece := os.pread(descriptor, end - start, start)):
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
