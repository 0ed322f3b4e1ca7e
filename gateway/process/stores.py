"""The store as a gateway's process opens it: for what it writes and looks at, and for old records."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry

from gateway.counted_store import CountedStore, StoreRequests
from gateway.hedged_store import HedgedStore
from log_format.clock import Clock
from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.stores.hedged import requests_at_once

CONNECT_TIMEOUT_MS: Final = 2_000
READ_TIMEOUT_MS: Final = 8_000
RETRY_MS_MAX: Final = 3_000
"""Clients repeat refused requests, and wait for that: the gateway gives up early and says so, rather than late."""


def open_counted(uri: str, requests: StoreRequests, *, threads: int) -> ObjectStore:
    """For ``threads`` that ask at once. Raises ``ValueError`` and ``OSError`` for a store that can't be opened."""
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
    """As ``open_counted``; a slow read of a store behind a network is asked a second time."""
    if not uri.startswith("s3:"):
        return open_counted(uri, requests, threads=threads)
    store = open_counted(uri, requests, threads=requests_at_once(threads))
    return HedgedStore(store, threads=threads, clock=clock, registry=registry)
