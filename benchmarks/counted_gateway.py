"""``python -m benchmarks.counted_gateway COUNTS [option …]``: a gateway that counts its requests to the store for topics.

``COUNTS`` is a file of eight bytes, one integer, for the measuring process (``requests_so_far``). A listing counts once for each
thousand keys, as S3 bills it. Requests for objects that gateways write for each other are not counted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

from gateway.__main__ import main as gateway_main
from log_format import layout
from log_format.store import ObjectInfo, ObjectStore
from log_format.stores import open_store

KEYS_PER_LISTING: Final = 1_000


def requests_so_far(counts: Path) -> int:
    """The number of requests so far."""
    return int(np.memmap(counts, np.int64, "r", shape=(1,))[0])


class CountedStore:
    """Another store whose requests are counted in ``counts[0]``."""

    def __init__(self, store: ObjectStore, counts: Any) -> None:
        self._store = store
        self._counts = counts
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def lists_from_key(self) -> bool:
        return self._store.lists_from_key

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        self._count(key)
        return self._store.get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._count(key)
        return self._store.get_range(key, start, end)

    def head(self, key: str) -> ObjectInfo:
        self._count(key)
        return self._store.head(key)

    def put(self, key: str, data: bytes) -> None:
        self._count(key)
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._count(key)
        self._store.put_if_absent(key, data)

    def delete(self, key: str) -> None:
        self._count(key)
        self._store.delete(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self._count(prefix)
        for number, info in enumerate(self._store.list(prefix, start_after=start_after), 1):
            if number % KEYS_PER_LISTING == 0:
                self._count(prefix)
            yield info

    def list_directories(self, prefix: str) -> Iterator[str]:
        self._count(prefix)
        return self._store.list_directories(prefix)

    def _count(self, key: str) -> None:
        if key.startswith(layout.TOPICS):
            with self._lock:
                self._counts[0] += 1


def main() -> int:
    """Run the gateway."""
    counts = np.memmap(Path(sys.argv[1]), np.int64, "w+", shape=(1,))

    def opened(uri: str, **options: Any) -> CountedStore:
        return CountedStore(open_store(uri, **options), counts)

    with mock.patch("gateway.process.assembly.open_store", opened):
        return gateway_main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
