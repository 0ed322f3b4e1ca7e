"""The store as a gateway's process opens it: for writes and looks at logs, and for old records."""

from __future__ import annotations

import logging
from typing import Final

from prometheus_client import CollectorRegistry

from gateway.settings.settings import SettingsError
from gateway.stores.counted import CountedStore, StoreRequests
from gateway.stores.hedged import HedgedStore
from gateway.stores.proven import ProvenStore
from log_format.clock import Clock
from log_format.errors import StoreUnavailable
from log_format.layout import TOPICS
from log_format.store import ObjectStore
from log_format.stores import open_store
from log_format.stores.hedged import requests_at_once

_log = logging.getLogger("gateway.process.assembly")

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


def prove(store: ProvenStore) -> None:
    """Check the store. Raise ``SettingsError``, ``UnsafeStore``; for a store that is down or read-only, only warn."""
    # Each failure is logged once, here, with the store's name.
    stores_log = logging.getLogger("log_format.stores")
    stores_log.disabled = True
    try:
        store.prove()
    except StoreUnavailable as problem:
        said = f"the store {store.uri} takes no objects: {_in_full(problem)}"
        if problem.may_pass:
            _log.warning("%s; waiting for it", said)
        elif _holds_topics(store):
            _log.warning("%s; what it holds can be read, and nothing can be written", said)
        else:
            raise SettingsError(f"TIDELOG_STORE: {said}") from problem
    finally:
        stores_log.disabled = False


def _holds_topics(store: ObjectStore) -> bool:
    try:
        return next(iter(store.list_directories(TOPICS)), None) is not None
    except StoreUnavailable:
        return False


def _in_full(problem: StoreUnavailable) -> str:
    """Return the problem with the message of the store's own library, for the operator but not for clients."""
    cause = getattr(problem.__cause__, "__cause__", None)
    return problem.detail if cause is None or isinstance(problem.__cause__, OSError) else f"{problem.detail} ({cause})"
