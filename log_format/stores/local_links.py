"""Second names for many files of a directory store: each directory is opened once, and synced once after all of its new names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from log_format.stores.beneath import open_beneath
from log_format.stores.local_errors import failed

Names = list[tuple[str, str]]
"""Pairs of a source's name and a target's name, each within its directory."""


@dataclass(frozen=True, slots=True)
class Links:
    """Linking below ``base``, the store's directory.

    ``open_durable``: opens a directory (key, path), which it makes if need be; its descriptor must be closed. ``sync``: makes a
    directory's new names survive a crash. ``copy``: makes a single copy, with its errors.
    """

    base: str
    open_durable: Callable[[str, str], int]
    sync: Callable[[str, int], None]
    copy: Callable[[str, str], None]

    def make(self, copies: Sequence[tuple[str, str]]) -> None:
        """Give the file of each source the name of its target, too. What is not an ordinary link of a file is left to ``copy``.

        Raises what ``copy`` raises; ``StoreUnavailable`` if a directory can't be synced.
        """
        places: dict[tuple[str, str], Names] = {}
        for source, target in copies:
            (above_source, _, source_name), (above, _, name) = source.rpartition("/"), target.rpartition("/")
            places.setdefault((above_source, above), []).append((source_name, name))
        left = [
            (_key(above_source, source_name), _key(above, name))
            for (above_source, above), names in places.items()
            for source_name, name in self._link(above_source, above, names)
        ]
        for source, target in left:
            self.copy(source, target)

    def _link(self, above_source: str, above: str, names: Names) -> Names:
        """Link files of one directory in another; return those that could not be linked."""
        path = _key(self.base, above) if above else self.base
        try:
            source = open_beneath(self.base, above_source, to_sync=False)
        except OSError:
            return names
        try:
            parent = self.open_durable(above, path)
        except OSError:
            os.close(source)
            return names
        try:
            left = [pair for pair in names if not _is_linked(source, parent, *pair)]
            self.sync(path, parent)
        except OSError as error:
            raise failed(path, error, may_have_happened=True) from error
        finally:
            os.close(source)
            os.close(parent)
        return left


def _is_linked(source: int, parent: int, source_name: str, name: str) -> bool:
    """Link a file; return False if that is not possible."""
    try:
        if not stat.S_ISREG(os.stat(source_name, dir_fd=source, follow_symlinks=False).st_mode):
            return False
        os.link(source_name, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
    except OSError:
        return False
    return True


def _key(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
