"""Cache of indexes of objects of delayed records, bounded in bytes. Used by threads of one pool."""

from __future__ import annotations

import threading
from collections import OrderedDict

from log_format.scheduled.scheduled_object import ScheduledObject, open_object
from log_format.store import ObjectStore


class ObjectCache:
    """Indexes by key. ``bytes_max``: bytes of all indexes and what was read with them."""

    def __init__(self, store: ObjectStore, *, bytes_max: int) -> None:
        self._store = store
        self._bytes_max = bytes_max
        self._bytes = 0
        self._lock = threading.Lock()
        self._objects: OrderedDict[str, ScheduledObject] = OrderedDict()

    def get(self, key: str) -> ScheduledObject | None:
        """Return the object, None if it does not exist. Blocks. Raises ``CorruptData``, ``StoreUnavailable``."""
        with self._lock:
            known = self._objects.get(key)
            if known is not None:
                self._objects.move_to_end(key)
                return known
        found = open_object(self._store, key)
        if found is not None and found.memory_bytes <= self._bytes_max:
            with self._lock:
                if key not in self._objects:
                    self._objects[key] = found
                    self._bytes += found.memory_bytes
                while self._bytes > self._bytes_max:
                    _, oldest = self._objects.popitem(last=False)
                    self._bytes -= oldest.memory_bytes
        return found

    def forget(self, key: str) -> None:
        """Drop the index of an object that was deleted."""
        with self._lock:
            known = self._objects.pop(key, None)
            self._bytes -= 0 if known is None else known.memory_bytes
