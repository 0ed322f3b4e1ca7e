"""The store as a gateway's process opens it: for writes and looks at logs, and for old records."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from gateway.stores.counted import CountedStore, StoreRequests
from gateway.stores.hedged import HedgedStore
from log_format.clock import Clock
from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.stores.hedged import requests_at_once

CONNECT_TIMEOUT_MS: Final = 2_000
READ_TIMEOUT_MS: Final = 8_000
RETRY_MS_MAX: Final = 3_000
"""Time after which requests to the store are no longer retried: clients repeat refused requests, so it is better to fail
early."""


def open_counted(uri: str, requests: StoreRequests, *, threads: int) -> ObjectStore:
    """Open the store for ``threads`` concurrent requests, and count these. Raise ``ValueError`` and ``OSError`` if it can't be
    opened."""
    store = open_store(
        uri,
        max_pool_connections=threads,
        connect_timeout_ms=CONNECT_TIMEOUT_MS,
        read_timeout_ms=READ_TIMEOUT_MS,
        retry_ms_max=RETRY_MS_MAX,
    )
    return CountedStore(store, requests)


def open_for_old_records(
    uri: str, requests: StoreRequests, *, threads: int, clock: Clock, registry: CollectorRegistry
) -> ObjectStore:
    """Open the store as ``open_counted`` does; a slow read of a store behind a network is sent a second time."""
    if not uri.startswith("s3:"):
        return open_counted(uri, requests, threads=threads)
    store = open_counted(uri, requests, threads=requests_at_once(threads))
    return HedgedStore(store, threads=threads, clock=clock, registry=registry)
