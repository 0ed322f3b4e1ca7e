"""A store in this process's memory, for tests and simulations.

Every operation is one step under one lock. So promises 1 to 3 of ``log_format.store`` hold among threads; promise 4 (durable)
holds while the process lives. A listing takes the lock page by page, as S3 does, so it sees some of the concurrent changes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from log_format.clock import Clock, SystemClock
from log_format.errors import ObjectExists, ObjectMissing, ObjectTooLarge
from log_format.store import ObjectInfo
from log_format.stores.keys import check_directory, check_key, check_prefix, check_range

PAGE_KEYS = 1000
"""Number of keys read under one lock: S3's page."""


class MemoryStore:
    """A store in a dictionary, with its keys in a sorted list of their UTF-8 bytes."""

    def __init__(self, name: str = "memory", *, clock: Clock | None = None, lists_from_key: bool = True) -> None:
        self._uri = f"memory://{name}"
        self._lists_from_key = lists_from_key
        self._clock = clock if clock is not None else SystemClock()
        self._lock = threading.Lock()
        self._objects: dict[bytes, tuple[bytes, int]] = {}
        self._keys: list[bytes] = []

    @property
    def uri(self) -> str:
        """Address of the store: ``memory://name``."""
        return self._uri

    @property
    def lists_from_key(self) -> bool:
        """Whether a listing from a key is cheap, as given; with False this store behaves like a directory."""
        return self._lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Return the object, as ``ObjectStore.get`` specifies."""
        data = self._find(key)[0]
        if bytes_max is not None and len(data) > bytes_max:
            raise ObjectTooLarge(key, len(data), bytes_max)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return the bytes, as ``ObjectStore.get_range`` specifies."""
        check_range(start, end)
        return self._find(key)[0][start:end]

    def head(self, key: str) -> ObjectInfo:
        """Return size and time, as ``ObjectStore.head`` specifies."""
        data, modified_at_ms = self._find(key)
        return ObjectInfo(key=key, size_bytes=len(data), modified_at_ms=modified_at_ms)

    def put(self, key: str, data: bytes) -> None:
        """Write the object, as ``ObjectStore.put`` specifies."""
        raw = check_key(key).encode()
        with self._lock:
            self._write(raw, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Write the object unless it exists, as ``ObjectStore.put_if_absent`` specifies."""
        raw = check_key(key).encode()
        with self._lock:
            if raw in self._objects:
                raise ObjectExists(key)
            self._write(raw, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy the object, as ``ObjectStore.copy_if_absent`` specifies; both share their bytes."""
        check_key(target)
        self.put_if_absent(target, self._find(source)[0])

    def delete(self, key: str) -> None:
        """Delete the object, as ``ObjectStore.delete`` specifies."""
        raw = check_key(key).encode()
        with self._lock:
            if self._objects.pop(raw, None) is not None:
                del self._keys[bisect_left(self._keys, raw)]

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects, as ``ObjectStore.list`` specifies."""
        return self._pages(check_prefix(prefix).encode(), start_after.encode())

    def list_directories(self, prefix: str) -> Iterator[str]:
        """Yield directories, as ``ObjectStore.list_directories`` specifies."""
        return self._directories(check_directory(prefix).encode())

    def _find(self, key: str) -> tuple[bytes, int]:
        raw = check_key(key).encode()
        with self._lock:
            found = self._objects.get(raw)
        if found is None:
            raise ObjectMissing(key)
        return found

    def _write(self, raw: bytes, data: bytes) -> None:
        if raw not in self._objects:
            self._keys.insert(bisect_left(self._keys, raw), raw)
        self._objects[raw] = (bytes(data), self._clock.now_ms())

    def _pages(self, prefix: bytes, start_after: bytes) -> Iterator[ObjectInfo]:
        while True:
            with self._lock:
                first = max(bisect_right(self._keys, start_after), bisect_left(self._keys, prefix))
                page = [(key, *self._objects[key]) for key in self._keys[first : first + PAGE_KEYS]]
            for key, data, modified_at_ms in page:
                if not key.startswith(prefix):
                    return
                yield ObjectInfo(key=key.decode(), size_bytes=len(data), modified_at_ms=modified_at_ms)
            if len(page) < PAGE_KEYS:
                return
            start_after = page[-1][0]

    def _directories(self, prefix: bytes) -> Iterator[str]:
        position = prefix
        while True:
            with self._lock:
                index = bisect_left(self._keys, position)
                key = self._keys[index] if index < len(self._keys) else None
            if key is None or not key.startswith(prefix):
                return
            name, slash, _ = key[len(prefix) :].partition(b"/")
            if slash:
                yield name.decode()
                position = prefix + name + b"0"  # the first byte string after all that start with name + "/"
            else:
                position = key + b"\0"
