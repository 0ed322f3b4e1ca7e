"""A store that remembers the commits that this gateway put, until they are read: a checkpoint reads each of them once.

A commit never changes, and its key is never used again: the log of a deleted topic goes on. So the bytes that were put are the
bytes that a GET would bring. Only commits whose put succeeded are remembered, the newest up to a bound; for others the store
is asked.
"""

from __future__ import annotations

import threading
from typing import Final

from gateway.stores.wrapped import WrappedStore
from log_format.store import ObjectStore

OWN_COMMITS_BYTES_MAX: Final = 512 * 1024
"""Bytes of commits between two checkpoints of a few busy topics. With many topics some are read again: a GET is a twelfth of a
PUT."""
ENTRY_BYTES: Final = 300
"""Bytes of memory of a commit besides its data: its key, and the dictionary's entry."""
_LOG: Final = "/_delta_log/"


class OwnCommits(WrappedStore):
    """``store``, whose own commits cost no GET. Safe from any thread."""

    def __init__(self, store: ObjectStore, *, bytes_max: int = OWN_COMMITS_BYTES_MAX) -> None:
        super().__init__(store)
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._commits: dict[str, bytes] = {}
        self._bytes = 0

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Get an object, a remembered commit from memory, once (``ObjectStore.get``)."""
        with self._lock:
            found = self._commits.pop(key, None)
            if found is not None:
                self._bytes -= len(found) + ENTRY_BYTES
        return self._store.get(key, bytes_max=bytes_max) if found is None else found

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Put an object, and remember it if it is a commit (``ObjectStore.put_if_absent``)."""
        self._store.put_if_absent(key, data)
        if _LOG in key and key.endswith(".json"):
            with self._lock:
                self._commits[key] = bytes(data)
                self._bytes += len(data) + ENTRY_BYTES
                while self._bytes > self._bytes_max:
                    self._bytes -= len(self._commits.pop(next(iter(self._commits)))) + ENTRY_BYTES
