"""A store that remembers the commits which this gateway put, until they are read: a checkpoint reads each of them once.

A commit never changes, and its key is never used again: the log of a deleted topic goes on. So what was put is what a GET would
bring. Only commits whose put succeeded are remembered, the newest up to a bound; of others the store is asked.
"""

from __future__ import annotations

import threading
from typing import Final

from gateway.wrapped_store import WrappedStore
from log_format.store import ObjectStore

OWN_COMMITS_BYTES_MAX: Final = 512 * 1024
"""Commits between two checkpoints of a few busy topics. With many topics some are read again: a GET is a twelfth of a PUT."""
ENTRY_BYTES: Final = 300
"""Of a commit in memory beside its bytes: its key, and where both are kept."""
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
        """See ``ObjectStore.get``."""
        with self._lock:
            found = self._commits.pop(key, None)
            if found is not None:
                self._bytes -= len(found) + ENTRY_BYTES
        return self._store.get(key, bytes_max=bytes_max) if found is None else found

    def put_if_absent(self, key: str, data: bytes) -> None:
        """See ``ObjectStore.put_if_absent``."""
        self._store.put_if_absent(key, data)
        if _LOG in key and key.endswith(".json"):
            with self._lock:
                self._commits[key] = bytes(data)
                self._bytes += len(data) + ENTRY_BYTES
                while self._bytes > self._bytes_max:
                    self._bytes -= len(self._commits.pop(next(iter(self._commits)))) + ENTRY_BYTES
