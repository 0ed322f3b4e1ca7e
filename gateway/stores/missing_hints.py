"""A store that does not ask again for hints that were missing recently: ``_last_checkpoint`` of a table without a checkpoint.

A gateway looks at its system tables also while they do not exist, and each look would begin with a GET of a hint that is
missing. Missing a hint costs a listing of more of the log, and nothing else: the log is right without it. Hints that this
gateway puts count immediately, those of other gateways after ``MISSING_MS``.
"""

from __future__ import annotations

import threading
from typing import Final

from gateway.stores.wrapped import WrappedStore
from log_format.clock import Clock
from log_format.errors import ObjectMissing
from log_format.store import ObjectStore

MISSING_MS: Final = 600_000
HINTS_MAX: Final = 256
"""Number of tables whose missing hint is remembered, the newest: the system tables are looked at most."""
_HINT: Final = "/_delta_log/_last_checkpoint"


class MissingHints(WrappedStore):
    """``store``, whose missing hints cost no GET. Safe from any thread."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._lock = threading.Lock()
        self._missing: dict[str, int] = {}
        """Monotonic time until which the hint counts as missing, by key."""

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Get an object, without a request for a hint known to be missing (``ObjectStore.get``)."""
        if not key.endswith(_HINT):
            return self._store.get(key, bytes_max=bytes_max)
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            if now_ms < self._missing.get(key, now_ms):
                raise ObjectMissing(key)
            self._missing.pop(key, None)
        try:
            return self._store.get(key, bytes_max=bytes_max)
        except ObjectMissing:
            with self._lock:
                self._missing[key] = now_ms + MISSING_MS
                if len(self._missing) > HINTS_MAX:
                    del self._missing[next(iter(self._missing))]
            raise

    def put(self, key: str, data: bytes) -> None:
        """Put an object, and forget that it was missing (``ObjectStore.put``)."""
        self._store.put(key, data)
        if key.endswith(_HINT):
            with self._lock:
                self._missing.pop(key, None)
