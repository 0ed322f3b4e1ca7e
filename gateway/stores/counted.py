"""A store that counts the requests to it, by kind of request and by what the object is: what S3 will charge for.

A listing counts once for each 1,000 objects, and once if there is none, as S3 charges it. A request that a store repeats by
itself counts once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.stores.wrapped import WrappedStore
from log_format.layout import COMPACTED, GATEWAYS, ICEBERG_BELOW, JOURNALS, SEGMENTS
from log_format.store import ObjectInfo, ObjectStore, copy_all_if_absent

Counted = tuple[str, str, int, int]
"""Kind of request, kind of object, number of requests, bytes."""
LISTED_PER_REQUEST: Final = 1_000
_LOG: Final = "_delta_log/"


class StoreRequests(Collector):
    """Counts by kind of request and kind of object. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], int] = {}
        self._bytes: dict[tuple[str, str], int] = {}

    def count(self, kind: str, key: str, size_bytes: int = 0, *, requests: int = 1) -> None:
        """Count a request, or bytes that a counted request brought (``requests`` 0)."""
        of = (kind, kind_of_object(key))
        with self._lock:
            self._counts[of] = self._counts.get(of, 0) + requests
            self._bytes[of] = self._bytes.get(of, 0) + size_bytes

    def taken(self) -> tuple[Counted, ...]:
        """Return all counts, and reset them to 0."""
        with self._lock:
            counted = tuple((kind, of, count, self._bytes[kind, of]) for (kind, of), count in self._counts.items())
            self._counts.clear()
            self._bytes.clear()
        return counted

    def add(self, counted: Iterable[Counted]) -> None:
        """Add the counts of another process."""
        with self._lock:
            for kind, of, count, size_bytes in counted:
                self._counts[kind, of] = self._counts.get((kind, of), 0) + count
                self._bytes[kind, of] = self._bytes.get((kind, of), 0) + size_bytes

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        with self._lock:
            counts, sizes = dict(self._counts), dict(self._bytes)
        requests = CounterMetricFamily(
            "tidelog_store_requests", "Requests to the store, by kind and object.", labels=("kind", "of")
        )
        moved = CounterMetricFamily(
            "tidelog_store_bytes",
            "Bytes of objects read from and written to the store, by kind and object.",
            labels=("kind", "of"),
        )
        for (kind, of), count in sorted(counts.items()):
            requests.add_metric((kind, of), count)
            moved.add_metric((kind, of), sizes[kind, of])
        yield requests
        yield moved


class CountedStore(WrappedStore):
    """``store``, with each call counted in ``requests``."""

    def __init__(self, store: ObjectStore, requests: StoreRequests) -> None:
        super().__init__(store)
        self._requests = requests

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Get an object, counted (``ObjectStore.get``)."""
        self._requests.count("GET", key)
        return self._got(key, self._store.get(key, bytes_max=bytes_max))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Get a range, counted (``ObjectStore.get_range``)."""
        self._requests.count("GET", key)
        return self._got(key, self._store.get_range(key, start, end))

    def put(self, key: str, data: bytes) -> None:
        """Put an object, counted (``ObjectStore.put``)."""
        self._requests.count("PUT", key, len(data))
        self._store.put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Put an object if it is absent, counted (``ObjectStore.put_if_absent``)."""
        self._requests.count("PUT", key, len(data))
        self._store.put_if_absent(key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy an object if the target is absent, counted as one PUT (``ObjectStore.copy_if_absent``)."""
        self._requests.count("PUT", target)
        self._store.copy_if_absent(source, target)

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Copy many objects, each counted as one PUT (``CopiesMany``)."""
        for _, target in copies:
            self._requests.count("PUT", target)
        copy_all_if_absent(self._store, copies)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """List objects, counted (``ObjectStore.list``)."""
        self._requests.count("LIST", prefix)
        for number, info in enumerate(self._store.list(prefix, start_after=start_after)):
            if number and number % LISTED_PER_REQUEST == 0:
                self._requests.count("LIST", prefix)
            yield info

    def list_directories(self, prefix: str) -> Iterator[str]:
        """List directories, counted (``ObjectStore.list_directories``)."""
        self._requests.count("LIST", prefix)
        return self._store.list_directories(prefix)

    def delete(self, key: str) -> None:
        """Delete an object, counted (``ObjectStore.delete``)."""
        self._requests.count("DELETE", key)
        self._store.delete(key)

    def head(self, key: str) -> ObjectInfo:
        """Return an object's info, counted (``ObjectStore.head``)."""
        self._requests.count("HEAD", key)
        return self._store.head(key)

    def _got(self, key: str, data: bytes) -> bytes:
        self._requests.count("GET", key, len(data), requests=0)
        return data


def kind_of_object(key: str) -> str:
    """Return the kind of the object under a key, one of a few words."""
    if key.startswith(GATEWAYS):
        return "heartbeat"
    if _LOG in key:
        return "commit" if key.endswith((".json", _LOG)) else "checkpoint"
    if f"/{SEGMENTS}" in key or f"/{COMPACTED}" in key:
        return "segment"
    if f"/{ICEBERG_BELOW}" in key:
        return "iceberg"
    return "journal" if key.startswith(JOURNALS) else "other"
