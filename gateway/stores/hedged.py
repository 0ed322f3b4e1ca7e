"""A store whose slow reads of old segments are sent a second time, and counted."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from gateway.stores.wrapped import WrappedStore
from log_format.clock import Clock
from log_format.store import ObjectStore
from log_format.stores.hedged import HedgedReads


class HedgedStore(WrappedStore):
    """``store``, used by ``threads`` threads in parallel. Safe from any thread."""

    def __init__(self, store: ObjectStore, *, threads: int, clock: Clock, registry: CollectorRegistry) -> None:
        super().__init__(store)
        hedged = Counter(
            "tidelog_store_hedged_reads",
            "Reads of old segments sent a second time, by the attempt that answered first.",
            ("first",),
            registry=registry,
        )
        self._reads = HedgedReads(store, threads=threads, clock=clock, on_pair=lambda first: hedged.labels(first).inc())

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        """Get an object, with a second request if the first is slow (``ObjectStore.get``)."""
        return self._reads.get(key, bytes_max=bytes_max)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Get a range, with a second request if the first is slow (``ObjectStore.get_range``)."""
        return self._reads.get_range(key, start, end)
