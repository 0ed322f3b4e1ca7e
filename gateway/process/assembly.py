"""Assembly of a gateway from its settings: the only module that names stores. Nothing is started here.

A store that ignores put-if-absent is refused here. So is one that will not recover by itself: a missing bucket, missing or
refused credentials, a directory that can't be created. A store that is down is accepted: the gateway waits for it (``/readyz``),
and the proof is made before the first commit (``gateway.stores.proven``). A read-only store that holds topics is accepted, too.

The store is opened twice: old records are read over connections of their own, so that a reader that catches up and a writer never
wait for each other.
"""

from __future__ import annotations

import logging
import math
import secrets
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from prometheus_client import Gauge

from gateway.access.authentication import Authentication
from gateway.access.token import read_bootstrap_token
from gateway.audit.event import foreign_commit_event
from gateway.audit.recorder import AuditRecorder
from gateway.audit.trail import AuditTrail
from gateway.catch_up_reads.lane import HistoryLane
from gateway.catch_up_reads.readers import Readers, reader_command
from gateway.cluster.keys import read_key_file
from gateway.cluster.membership import HeartbeatSettings, Identity, Membership
from gateway.cluster.ownership import Mode, Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import FLUSH_REQUESTS_MIN, LOAD_THREADS, LOOK_THREADS, EngineBounds
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerConnections
from gateway.forwarding.forwarder import Forwarder
from gateway.forwarding.hop import Hops
from gateway.forwarding.peer_journals import PeerJournals
from gateway.forwarding.peer_message import PeerMessages
from gateway.forwarding.peer_queues import PeerQueues
from gateway.gateway import Gateway
from gateway.http.body import BodyLimits
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.monitoring.activity import Activity
from gateway.monitoring.maintenance_watch import MaintenanceWatch
from gateway.network.certificate import Certificate, PeerTrust
from gateway.process.allocator import configure_allocator
from gateway.process.metrics_history import make_alarms, make_history
from gateway.process.sql_offer import make_statements
from gateway.process.stores import open_counted, open_for_old_records, prove
from gateway.queues.dropped import audit_event
from gateway.quotas.limits import PrincipalLimits
from gateway.quotas.quotas import Quotas
from gateway.quotas.sharing import BEATS_UNTIL_STALE, QuotaSharing
from gateway.settings.settings import Settings, SettingsError
from gateway.stores.counted import StoreRequests
from gateway.stores.missing_hints import MissingHints
from gateway.stores.own_commits import OwnCommits
from gateway.stores.proven import ProvenStore
from gateway.stores.write_watch import WriteWatch
from gateway.telemetry.metrics import Metrics
from gateway.vending.vending import CredentialVending
from log_format.clock import Clock, SystemClock
from log_format.store import ObjectStore

if TYPE_CHECKING:
    from gateway.access.jwt_callers import JwtCallers

HEARTBEAT_THREADS: Final = 1
PRINCIPALS_SHARE: Final = 4
"""Divisor of each memory budget: a principal gets at most a quarter."""
JWT_THREADS: Final = 2
"""Number of threads for JWTs: one may fetch the issuer's keys while the other verifies."""
ANSWER_SHARE: Final = 1 / 3
"""Share of the answers' memory reserved for clients that hold less than it. Half of it suffices for a small read of old
records."""

_log = logging.getLogger("gateway.process.assembly")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayParts:
    """What a gateway is put together from. Simulations and tests replace parts of it."""

    store: ObjectStore
    engine: LogEngine
    ownership: Ownership
    connections: PeerConnections
    breaker: Breaker
    hops: Hops
    clock: Clock
    metrics: Metrics
    request_memory: MemoryBudget
    codec_pool: Executor
    compression_pool: Executor
    key_file: tuple[bytes, ...] | None = None
    """Keys of the setting ``cluster_key_file``."""
    lane: HistoryLane | None = None
    """Readers of history in processes of their own."""
    writes: WriteWatch | None = None
    """Outcome of writes to the store."""


def assemble(settings: Settings) -> Gateway:
    """Return the gateway that the settings describe. The store is accessed only to prove that it can keep a log.

    Raises ``SettingsError`` for an unusable store, ``UnsafeStore`` for a store that ignores put-if-absent.
    """
    # Arrow's own allocators keep the memory of a burst, but the bound is on the whole process.
    configure_allocator()
    pa.set_memory_pool(pa.system_memory_pool())
    clock = SystemClock()
    metrics = Metrics()
    requests = StoreRequests()
    metrics.registry.register(requests)
    writers = settings.write_threads + LOOK_THREADS + LOAD_THREADS + HEARTBEAT_THREADS
    try:
        writes = WriteWatch(open_counted(settings.store, requests, threads=writers), clock)
        cold_store = open_for_old_records(
            settings.store, requests, threads=settings.read_threads, clock=clock, registry=metrics.registry
        )
    except (ValueError, OSError) as error:
        raise SettingsError(f"TIDELOG_STORE: {error}") from error
    writes.tell_in(metrics.registry)
    proven = ProvenStore(writes)
    prove(proven)
    store = MissingHints(OwnCommits(proven), clock)
    ownership = Ownership(settings.gateway_id, Peers(clock, settings.zone), _forwarding(settings))
    hops = Hops(ownership.peers, clock, instance=secrets.token_hex(8), needs_key_file=settings.auth == "on")
    in_flight_max = settings.in_flight_bytes_max
    request_memory = MemoryBudget(
        in_flight_max, "request bodies", of_client_max=_of_principal_max(settings, in_flight_max)
    )
    # A peer accepts as many connections as this gateway, and half of them are for its own clients.
    connections = PeerConnections(max(1, settings.connections_max // 2), _trust(settings))
    breaker = Breaker(ownership.peers, connections, clock)
    engine = LogEngine(
        EngineParts(
            store=store,
            cold_store=cold_store,
            ownership=ownership,
            clock=clock,
            registry=metrics.registry,
            request_memory=request_memory,
            journal_peers=PeerJournals(ownership, connections, breaker, hops),
        ),
        EngineSettings(bounds=_bounds(settings), super_users=_super_users(settings)),
    )
    parts = GatewayParts(
        store=store,
        engine=engine,
        ownership=ownership,
        connections=connections,
        breaker=breaker,
        hops=hops,
        clock=clock,
        metrics=metrics,
        request_memory=request_memory,
        codec_pool=ThreadPoolExecutor(settings.codec_threads, thread_name_prefix="codec"),
        compression_pool=ThreadPoolExecutor(1, thread_name_prefix="compression"),
        key_file=_key_file(settings.cluster_key_file),
        lane=_lane(settings, requests, metrics),
        writes=writes,
    )
    return assemble_from_parts(settings, parts)


def assemble_from_parts(settings: Settings, parts: GatewayParts) -> Gateway:
    """Return the gateway with the given parts. Raise ``SettingsError`` for a certificate that can't be used."""
    store, engine, ownership, connections = parts.store, parts.engine, parts.ownership, parts.connections
    clock, metrics, hops = parts.clock, parts.metrics, parts.hops
    quotas = None if settings.auth == "off" else _quotas(settings, engine, clock)
    membership = Membership(
        store,
        ownership.peers,
        Identity(settings.gateway_id, settings.url, hops.instance, clock.now_ms()),
        HeartbeatSettings(settings.heartbeat_ms, journals=settings.journals == "on", key_file=parts.key_file),
        owned_topic_count=lambda: engine.owned_topic_count,
        clock=clock,
        registry=metrics.registry,
        quotas=quotas,
    )
    forwarding = Forwarder(
        *(ownership, connections, parts.breaker, engine.topics, hops),
        store_answers=engine.store_answers,
        rights=engine.rights,
        request_bytes_max=settings.request_bytes_max,
        request_memory=parts.request_memory,
        clock=clock,
        registry=metrics.registry,
    )
    maintenance = MaintenanceWatch(store, clock, metrics.registry)
    return Gateway(
        rights=engine.rights,
        vending=CredentialVending(store.uri, settings),
        lane=parts.lane,
        sql=make_statements(settings),
        recording=None if settings.audit_mode == "off" else _recording(settings, engine, clock, metrics),
        quotas=quotas,
        authentication=_authentication(settings, engine, clock),
        settings=settings,
        store_uri=store.uri,
        writes=parts.writes,
        clock=clock,
        metrics=metrics,
        request_memory=parts.request_memory,
        answer_memory=_answer_memory(settings),
        body_limits=BodyLimits(bytes_max=settings.request_bytes_max, total_ms=settings.body_total_ms),
        codec_pool=parts.codec_pool,
        compression_pool=parts.compression_pool,
        engine=engine,
        activity=Activity(metrics.registry, clock),
        maintenance=maintenance,
        alarms=make_alarms(settings, metrics, engine, maintenance),
        history=make_history(settings, engine, ownership, metrics, parts.codec_pool),
        membership=membership,
        peers=ownership.peers,
        forwarding=forwarding,
        queue_peers=PeerQueues(ownership, PeerMessages(ownership.peers, connections, parts.breaker, hops)),
        hops=hops,
        certificate=_certificate(settings, metrics),
        peer_trust=connections.trust,
    )


def _lane(settings: Settings, requests: StoreRequests, metrics: Metrics) -> HistoryLane | None:
    if settings.readers == 0 or settings.store.startswith("memory:"):  # no other process has it
        return None
    arguments = (settings.store, settings.log_level, settings.log_format)
    readers = Readers(settings.readers, reader_command(), arguments)
    return HistoryLane(
        readers,
        settings.readers,
        requests=requests,
        registry=metrics.registry,
        has_principals=settings.auth == "on",
    )


def _super_users(settings: Settings) -> tuple[str, ...] | None:
    """Return the principals with all rights; None with ``auth=off``."""
    if settings.auth == "off":
        return None
    return tuple(name.strip() for name in settings.super_users.split(",") if name.strip())


def _quotas(settings: Settings, engine: LogEngine, clock: Clock) -> Quotas:
    limits_of = PrincipalLimits(lambda: engine.access_table.state.quotas)
    return Quotas(limits_of, QuotaSharing(old_after_ms=BEATS_UNTIL_STALE * settings.heartbeat_ms), clock=clock)


def _recording(settings: Settings, engine: LogEngine, clock: Clock, metrics: Metrics) -> AuditRecorder:
    recording = AuditRecorder(
        AuditTrail(clock=clock, registry=metrics.registry),
        engine.topics,
        engine.administration,
        engine.producer_ids,
        clock=clock,
        is_required=settings.audit_mode == "required",
    )
    engine.foreign.tell = lambda topic, commit: recording.note(foreign_commit_event(topic, commit, clock.now_ms()))
    engine.queues.drop_reports.tell = lambda queue, lost: recording.note(audit_event(queue, lost, clock.now_ms()))
    return recording


def _answer_memory(settings: Settings) -> MemoryBudget:
    size = settings.answer_bytes_max
    of_principal = _of_principal_max(settings, size)
    return MemoryBudget(size, "answers", kept_bytes=int(size * ANSWER_SHARE), of_client_max=of_principal)


def _of_principal_max(settings: Settings, bytes_max: int) -> int | None:
    """Return how much of a memory budget one principal may use; None if principals are not known."""
    return None if settings.auth == "off" else bytes_max // PRINCIPALS_SHARE


def _authentication(settings: Settings, engine: LogEngine, clock: Clock) -> Authentication | None:
    """Return the authentication; None with ``auth=off``. Raise ``SettingsError``."""
    if settings.auth == "off":
        return None
    try:
        path = settings.bootstrap_token_file
        bootstrap = None if path is None else read_bootstrap_token(path)
    except ValueError as error:
        raise SettingsError(f"TIDELOG_BOOTSTRAP_TOKEN_FILE: {error}") from error
    return Authentication(
        engine.access_table, engine.rights, bootstrap=bootstrap, jwts=_jwt_callers(settings, clock), clock=clock
    )


def _jwt_callers(settings: Settings, clock: Clock) -> JwtCallers | None:
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return None
    # Imported here, since these libraries take 10 MiB, which a gateway without an issuer does not need.
    from gateway.access.issuer_keys import fetch_keys  # noqa: PLC0415
    from gateway.access.json_web_token import JwtRules  # noqa: PLC0415
    from gateway.access.jwt_callers import JwtCallers  # noqa: PLC0415

    rules = JwtRules(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        algorithms=frozenset(name.strip() for name in settings.oidc_algorithms.split(",")),
        principal_claim=settings.oidc_principal_claim,
        groups_claim=settings.oidc_groups_claim,
    )
    executor = ThreadPoolExecutor(JWT_THREADS, thread_name_prefix="jwt")
    return JwtCallers(rules, fetch_keys=partial(fetch_keys, settings.oidc_issuer), executor=executor, clock=clock)


def _bounds(settings: Settings) -> EngineBounds:
    return EngineBounds(
        write_threads=settings.write_threads,
        read_threads=settings.read_threads,
        tail_cache_bytes_max=settings.tail_cache_bytes_max,
        footer_cache_bytes_max=settings.footer_cache_bytes_max,
        manifest_bytes_max=settings.manifest_bytes_max,
        groups_bytes_max=settings.groups_bytes_max,
        queues_bytes_max=settings.queues_bytes_max,
        access_bytes_max=settings.access_bytes_max,
        schemas_bytes_max=settings.schemas_bytes_max,
        waiting_polls_max=settings.waiting_polls_max,
        request_bytes_max=settings.request_bytes_max,
        flush_requests=max(FLUSH_REQUESTS_MIN, settings.connections_max // 2),
        flush_savings_first_ms=settings.flush_savings_first_ms,
        flush_savings_max_ms=settings.flush_savings_max_ms,
        journals=settings.journals == "on",
        # The rest is for small requests, which are served however many large ones wait.
        large_bodies_bytes_max=max(settings.request_bytes_max, settings.in_flight_bytes_max * 3 // 4),
    )


def _key_file(path: str | None) -> tuple[bytes, ...] | None:
    try:
        return None if path is None else read_key_file(path)
    except ValueError as error:
        raise SettingsError(f"TIDELOG_CLUSTER_KEY_FILE: {error}") from error


def _forwarding(settings: Settings) -> Mode:
    """Return the forwarding mode. With ``auth=on`` gateways pass callers on, which takes a key that no reader of the store
    knows."""
    if settings.auth == "on" and settings.cluster_key_file is None and settings.forwarding != "off":
        _log.warning(
            "auth is on and there is no cluster_key_file: this gateway passes no request on to others, and takes none"
        )
        return "off"
    return settings.forwarding


def _certificate(settings: Settings, metrics: Metrics) -> Certificate | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        certificate = Certificate(
            settings.tls_cert,
            settings.tls_key,
            settings.tls_client_ca,
            # With auth=off nothing else proves a client's identity.
            is_needed_of_clients=settings.auth == "off",
        )
    except ValueError as error:
        raise SettingsError(str(error)) from error
    expiry = Gauge(
        "tidelog_certificate_expiry_timestamp_seconds",
        "When the certificate that clients are shown, or one of its chain, expires.",
        registry=metrics.registry,
    )
    expiry.set_function(lambda: math.inf if certificate.expires_at_s is None else certificate.expires_at_s)
    return certificate


def _trust(settings: Settings) -> PeerTrust:
    # Peers demand a certificate exactly if this gateway demands one of its clients: all have the same settings.
    pair = None
    if settings.tls_client_ca is not None and settings.tls_cert is not None and settings.tls_key is not None:
        pair = (settings.tls_cert, settings.tls_key)
    try:
        return PeerTrust(settings.tls_ca, settings.tls_peer_name, pair=pair)
    except ValueError as error:
        raise SettingsError(str(error)) from error
