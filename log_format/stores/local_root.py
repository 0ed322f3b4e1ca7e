"""The directory of a local store stays the one that it was.

A directory that is moved away, deleted or unmounted while a store is open leaves its path to another one, or to none. What is put
there is lost to the log, and what is not found there may be in it. So each operation looks at the directory again: a write before
it begins and before it returns, a read before it returns or says that there is nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from log_format.errors import StoreReason, StoreUnavailable

_GONE: Final = (
    "the store's directory is not the one that it was: it was moved, deleted or unmounted. Put it back, or restart"
    " this program"
)


class LocalRoot:
    """The directory at a path; one that does not exist yet may be created."""

    __slots__ = ("_identity", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._identity = self._seen()

    @contextmanager
    def kept(self, key: str, *, writes: bool = False) -> Iterator[None]:
        """Run one operation. Raises ``StoreUnavailable`` if the directory is another one, or none, meanwhile."""
        if writes:
            self.check(key)
        try:
            yield
        except StoreUnavailable:
            raise
        except Exception:
            self.check(key)
            raise
        self.check(key, may_have_happened=writes)

    def check(self, key: str, *, may_have_happened: bool = False) -> None:
        """Raise ``StoreUnavailable`` if the directory is another one than before, or none."""
        known, seen = self._identity, self._seen()  # in this order: another thread may make the directory
        if known is None:
            self._identity = seen
        elif seen != known:
            raise StoreUnavailable(
                key, _GONE, may_have_happened=may_have_happened, may_pass=False, reason=StoreReason.UNREACHABLE
            )

    def _seen(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - hot
        except OSError:
            return None
        return status.st_dev, status.st_ino
