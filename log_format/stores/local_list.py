"""Listing the objects below a directory in the order of their keys.

A directory sorts among its siblings as its name with a slash, since the keys in it begin with that: ``a-b`` comes before ``a/b``.
Directories are read one at a time, when the walk reaches them. Directories entirely outside the prefix or before the start are
never opened. Files that disappear during the walk are skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from log_format.store import ObjectInfo
from log_format.stores.beneath import check_way
from log_format.stores.keys import check_key
from log_format.stores.local_errors import refused


def list_objects(root: Path, prefix: str, start_after: str, visit: Callable[[Path], None]) -> Iterator[ObjectInfo]:
    """Yield the objects whose key starts with ``prefix`` and is greater than ``start_after``.

    ``visit`` is called with each directory before it is read, and may raise ``OSError``. Raises ``StoreUnavailable``.
    """
    wanted, after = prefix.encode(), start_after.encode()
    directory = prefix.rpartition("/")[0]
    _check_way(root, directory)
    stack = [_entries(root, f"{directory}/" if directory else "", wanted, after, visit)]
    while stack:
        found = next(stack[-1], None)
        if found is None:
            stack.pop()
            continue
        key, entry = found
        if key.endswith("/"):
            stack.append(_entries(root, key, wanted, after, visit))
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise refused(key, error) from error
        yield ObjectInfo(key=key, size_bytes=status.st_size, modified_at_ms=status.st_mtime_ns // 1_000_000)


def list_directories(root: Path, prefix: str) -> Iterator[str]:
    """Yield the directories right below ``prefix`` that have an object at any depth. Raises ``StoreUnavailable``."""
    _check_way(root, prefix)
    for key, _ in _entries(root, prefix, prefix.encode(), b"", _nothing):
        if key.endswith("/") and _holds_object(root, key):
            yield key[len(prefix) : -1]


def _check_way(root: Path, directory: str) -> None:
    """Raise ``StoreUnavailable`` if a symbolic link is on the way to the directory. A missing directory just has no entries."""
    try:
        check_way(root, directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refused(directory, error) from error


def _entries(
    root: Path, directory: str, wanted: bytes, after: bytes, visit: Callable[[Path], None]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield keys and entries right below ``directory``, in key order; the key of a directory ends with a slash."""
    found: list[tuple[bytes, str, os.DirEntry[str]]] = []
    for key, entry in _unordered(root, directory, after.decode(), visit):
        if _is_wanted(raw := key.encode(), wanted, after):
            found.append((raw, key, entry))
    found.sort()
    for _, key, entry in found:
        yield key, entry


def _holds_object(root: Path, directory: str) -> bool:
    """Return whether there is an object below ``directory``, at any depth. Stops at the first one."""
    below = []
    for key, _ in _unordered(root, directory, "", _nothing):
        if not key.endswith("/"):
            return True
        below.append(key)
    return any(_holds_object(root, key) for key in below)


def _unordered(
    root: Path, directory: str, start: str, visit: Callable[[Path], None]
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield keys and entries right below ``directory`` that may come after ``start``, unordered. Raises ``StoreUnavailable``."""
    path = root / directory
    first = start[len(directory) :] if start.startswith(directory) else ""
    try:
        visit(path)
        with os.scandir(path) as entries:
            for entry in entries:
                name = entry.name
                if name < first and not first.startswith(name):
                    continue  # the first check, since it skips most of a long log
                if (key := _key(directory, entry)) is not None:
                    yield key, entry
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise refused(directory or "/", error) from error


def _key(directory: str, entry: os.DirEntry[str]) -> str | None:
    """Return a file's key, a directory's key with a slash, None for anything else."""
    try:
        key = check_key(directory + entry.name)
        if entry.is_dir(follow_symlinks=False):
            return f"{key}/"
        return key if entry.is_file(follow_symlinks=False) else None
    except (ValueError, FileNotFoundError):
        return None


def _is_wanted(raw: bytes, wanted: bytes, after: bytes) -> bool:
    """Return whether the object, or one below the directory, can start with ``wanted`` and be above ``after``."""
    if not raw.endswith(b"/"):
        return raw.startswith(wanted) and raw > after
    return (raw.startswith(wanted) or wanted.startswith(raw)) and (raw > after or after.startswith(raw))


def _nothing(_path: Path) -> None:
    """Visit a directory without doing anything."""
