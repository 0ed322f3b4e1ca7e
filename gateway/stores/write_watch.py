"""A store that notes whether writes to it fail: a gateway that can read and can't write serves readers, and must say so.

Every write counts, heartbeats too, so an idle gateway knows within ``heartbeat_ms``. The first write that succeeds ends it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from gateway.stores.wrapped import WrappedStore
from log_format.clock import Clock
from log_format.errors import StoreReason, StoreUnavailable
from log_format.store import ObjectStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FailingWrites:
    """Writes have failed since ``since_ms`` (milliseconds since the epoch), and none has succeeded; ``reason``: of the last."""

    since_ms: int
    reason: StoreReason


class WriteWatch(WrappedStore):
    """``store``, whose failing writes are noted. Safe from any thread."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        super().__init__(store)
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: FailingWrites | None = None

    def failing(self) -> FailingWrites | None:
        """Return since when and why writes fail; None if the last one succeeded, or there was none."""
        return self._failing

    def tell_in(self, registry: CollectorRegistry) -> None:
        """Register the metric that says whether, and why, writes fail."""
        failing = Gauge(
            "tidelog_store_writes_failing",
            "1 for the reason of the last write to the store if that failed, and none has succeeded since.",
            ("reason",),
            registry=registry,
        )
        for reason in StoreReason:
            failing.labels(str(reason)).set_function(partial(self._is_failing, reason))

    def _is_failing(self, reason: StoreReason) -> bool:
        failing = self._failing
        return failing is not None and failing.reason is reason

    def put(self, key: str, data: bytes) -> None:
        """Put an object (``ObjectStore.put``)."""
        self._noted(lambda: self._store.put(key, data))

    def put_if_absent(self, key: str, data: bytes) -> None:
        """Put an object if it is absent (``ObjectStore.put_if_absent``)."""
        self._noted(lambda: self._store.put_if_absent(key, data))

    def copy_if_absent(self, source: str, target: str) -> None:
        """Copy an object if the target is absent (``ObjectStore.copy_if_absent``)."""
        self._noted(lambda: self._store.copy_if_absent(source, target))

    def copy_all_if_absent(self, copies: Sequence[tuple[str, str]]) -> None:
        """Copy many objects (``CopiesMany``)."""
        self._noted(lambda: super(WriteWatch, self).copy_all_if_absent(copies))

    def _noted(self, write: Callable[[], None]) -> None:
        """Write, and note the outcome. An object that exists, or is missing, says nothing of whether others could be written."""
        try:
            write()
        except StoreUnavailable as problem:
            with self._lock:
                since_ms = self._clock.now_ms() if self._failing is None else self._failing.since_ms
                self._failing = FailingWrites(since_ms=since_ms, reason=problem.reason)
            raise
        if self._failing is not None:
            with self._lock:
                self._failing = None
