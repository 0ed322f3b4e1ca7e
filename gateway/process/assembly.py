"""Puts a gateway together from its settings: the only module that names stores. It starts nothing.

A store that ignores put-if-absent is refused here. So is one that waiting won't mend: a missing bucket, credentials that are
missing or refused, a directory that can't be made. A store that is down is accepted: the gateway waits for it (``/readyz``), and
the proof is made before the first commit (``proven_store``). So is a read-only store that holds topics.

The store is opened twice: old records are read over connections of their own, so that a reader that catches up and a writer never
wait for each other.
"""

from __future__ import annotations

import logging
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

import pyarrow as pa

from gateway.certificate import Certificate
from gateway.cluster.keys import read_key_file
from gateway.cluster.membership import Membership
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import LOAD_THREADS, LOOK_THREADS, EngineBounds
from gateway.forwarding.connections import PeerConnections, PeerTrust
from gateway.forwarding.forwarding import Forwarding
from gateway.forwarding.journal_peers import JournalPeering
from gateway.gateway import Gateway
from gateway.http.body import BodyLimits
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.metrics import Metrics
from gateway.process.allocator import give_memory_back
from gateway.proven_store import ProvenStore
from gateway.settings import Settings, SettingsError
from log_format.clock import Clock, SystemClock
from log_format.errors import StoreUnavailable
from log_format.layout import TOPICS
from log_format.store import ObjectStore
from log_format.stores import open_store

STORE_CONNECT_TIMEOUT_MS: Final = 2_000
STORE_READ_TIMEOUT_MS: Final = 8_000
HEARTBEAT_THREADS: Final = 1
ANSWER_SHARE: Final = 1 / 3
"""Part of the memory for answers, kept for clients that hold less than it. Half of it fits a small read of old records."""
STORE_RETRY_MS_MAX: Final = 3_000
"""Clients repeat refused requests, and wait for that: the gateway gives up early and says so, rather than late."""

_log = logging.getLogger("gateway.process.assembly")


def assemble(settings: Settings) -> Gateway:
    """The gateway that the settings describe. The store is asked only for the proof that it can keep a log.

    Raises ``SettingsError`` for an unusable store, ``UnsafeStore`` for a store that ignores put-if-absent.
    """
    # Arrow's own allocators keep the memory of a burst, and the bound is on the whole process.
    give_memory_back()
    pa.set_memory_pool(pa.system_memory_pool())
    clock = SystemClock()
    metrics = Metrics()
    store = ProvenStore(_open(settings.store, settings.write_threads + LOOK_THREADS + LOAD_THREADS + HEARTBEAT_THREADS))
    _prove(store)
    ownership = Ownership(settings.gateway_id, Peers(clock), settings.forwarding)
    request_memory = MemoryBudget(settings.in_flight_bytes_max, "request bodies")
    # A peer accepts as many connections as this gateway, and half of those are for its own clients.
    connections = PeerConnections(max(1, settings.connections_max // 2), _trust(settings))
    engine = LogEngine(
        store,
        _open(settings.store, settings.read_threads),
        bounds=_bounds(settings),
        ownership=ownership,
        clock=clock,
        registry=metrics.registry,
        request_memory=request_memory,
        journal_peers=JournalPeering(ownership, connections),
    )
    return put_together(
        settings,
        store,
        engine,
        ownership,
        connections,
        clock=clock,
        metrics=metrics,
        request_memory=request_memory,
        codec_pool=ThreadPoolExecutor(settings.codec_threads, thread_name_prefix="codec"),
        key_file=_key_file(settings.cluster_key_file),
    )


def put_together(
    settings: Settings,
    store: ObjectStore,
    engine: LogEngine,
    ownership: Ownership,
    connections: PeerConnections,
    *,
    clock: Clock,
    metrics: Metrics,
    request_memory: MemoryBudget,
    codec_pool: Executor,
    key_file: tuple[bytes, ...] | None = None,
) -> Gateway:
    """The gateway around its engine. Raises ``SettingsError`` for a certificate that can't be used."""
    membership = Membership(
        store,
        ownership.peers,
        own_id=settings.gateway_id,
        url=settings.url,
        started_at_ms=clock.now_ms(),
        owned_topic_count=lambda: engine.owned_topic_count,
        clock=clock,
        beat_ms=settings.heartbeat_ms,
        registry=metrics.registry,
        journals=settings.journals == "on",
        key_file=key_file,
    )
    forwarding = Forwarding(
        ownership,
        connections,
        engine.topics,
        own_id=settings.gateway_id,
        request_bytes_max=settings.request_bytes_max,
        request_memory=request_memory,
        clock=clock,
        registry=metrics.registry,
    )
    answer_memory = MemoryBudget(
        settings.answer_bytes_max, "answers", kept_bytes=int(settings.answer_bytes_max * ANSWER_SHARE)
    )
    return Gateway(
        settings=settings,
        store_uri=store.uri,
        clock=clock,
        metrics=metrics,
        request_memory=request_memory,
        answer_memory=answer_memory,
        body_limits=BodyLimits(bytes_max=settings.request_bytes_max, total_ms=settings.body_total_ms),
        codec_pool=codec_pool,
        engine=engine,
        membership=membership,
        peers=ownership.peers,
        forwarding=forwarding,
        certificate=_certificate(settings),
    )


def _bounds(settings: Settings) -> EngineBounds:
    return EngineBounds(
        write_threads=settings.write_threads,
        read_threads=settings.read_threads,
        tail_cache_bytes_max=settings.tail_cache_bytes_max,
        footer_cache_bytes_max=settings.footer_cache_bytes_max,
        manifest_bytes_max=settings.manifest_bytes_max,
        groups_bytes_max=settings.groups_bytes_max,
        waiting_polls_max=settings.waiting_polls_max,
        request_bytes_max=settings.request_bytes_max,
        journals=settings.journals == "on",
        # The rest is for small requests, which get through beside any number of large ones.
        large_bodies_bytes_max=max(settings.request_bytes_max, settings.in_flight_bytes_max * 3 // 4),
    )


def _prove(store: ProvenStore) -> None:
    """Raises ``SettingsError``, ``UnsafeStore``. For a store that is down or read-only it only warns."""
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
    """With the words of the store's own library: this is for the operator, and for no client."""
    cause = getattr(problem.__cause__, "__cause__", None)
    return problem.detail if cause is None or isinstance(problem.__cause__, OSError) else f"{problem.detail} ({cause})"


def _key_file(path: str | None) -> tuple[bytes, ...] | None:
    try:
        return None if path is None else read_key_file(path)
    except ValueError as error:
        raise SettingsError(f"TIDELOG_CLUSTER_KEY_FILE: {error}") from error


def _certificate(settings: Settings) -> Certificate | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        return Certificate(settings.tls_cert, settings.tls_key)
    except ValueError as error:
        raise SettingsError(str(error)) from error


def _trust(settings: Settings) -> PeerTrust:
    try:
        return PeerTrust.of(settings.tls_ca, settings.tls_peer_name)
    except ValueError as error:
        raise SettingsError(f"TIDELOG_TLS_CA: {error}") from error


def _open(uri: str, connections: int) -> ObjectStore:
    try:
        return open_store(
            uri,
            max_pool_connections=connections,
            connect_timeout_ms=STORE_CONNECT_TIMEOUT_MS,
            read_timeout_ms=STORE_READ_TIMEOUT_MS,
            retry_ms_max=STORE_RETRY_MS_MAX,
        )
    except (ValueError, OSError) as error:
        raise SettingsError(f"TIDELOG_STORE: {error}") from error
