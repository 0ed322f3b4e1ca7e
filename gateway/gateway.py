"""One gateway, whole: the parts that routes and the server use. ``gateway.process.assembly`` makes it last."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from gateway.access.admission_check import AdmissionCheck
from gateway.access.authentication import Authentication
from gateway.access.caller import caller_of
from gateway.access.rights import Rights
from gateway.audit.recorder import AuditRecorder
from gateway.catch_up_reads.lane import HistoryLane
from gateway.cluster.membership import Membership
from gateway.cluster.peers import Peers
from gateway.forwarding.forwarder import Forwarder
from gateway.forwarding.hop import Hops
from gateway.forwarding.peer_queues import PeerQueues
from gateway.http.body import BodyLimits
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, MemoryBudget
from gateway.metrics_history.reading import MetricsHistory
from gateway.monitoring.activity import Activity
from gateway.monitoring.alarm_watch import AlarmWatch
from gateway.monitoring.maintenance_watch import MaintenanceWatch
from gateway.network.certificate import Certificate, PeerTrust
from gateway.quotas.quotas import Quotas
from gateway.settings.settings import Settings
from gateway.sql.statements import Statements
from gateway.stores.write_watch import WriteWatch
from gateway.telemetry.metrics import Metrics
from gateway.vending.vending import CredentialVending
from log_format.access.acls import CLUSTER, Operation, ResourceType
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """The parts of one gateway.

    ``request_memory``: budget for bodies; ``answer_memory``: for what fetches hold. ``codec_pool``: for large bodies and
    answers; ``compression_pool``: for compressing answers.
    """

    settings: Settings
    store_uri: str
    writes: WriteWatch | None
    """Outcome of writes to the store; None if nobody watches it."""
    clock: Clock
    metrics: Metrics
    request_memory: MemoryBudget
    answer_memory: MemoryBudget
    body_limits: BodyLimits
    codec_pool: Executor
    compression_pool: Executor
    engine: LogEngine
    activity: Activity
    alarms: AlarmWatch
    history: MetricsHistory
    maintenance: MaintenanceWatch
    membership: Membership
    peers: Peers
    forwarding: Forwarder
    queue_peers: PeerQueues
    hops: Hops
    rights: Rights
    quotas: Quotas | None
    """Quotas; None with ``auth=off``."""
    recording: AuditRecorder | None
    """Recording of audit events; None with ``audit=off``."""
    authentication: Authentication | None
    """Authentication of clients; None with ``auth=off``."""
    vending: CredentialVending
    lane: HistoryLane | None
    """Lane of readers of old records; None with ``readers=0``."""
    sql: Statements | None
    """Answers to SQL; None if the gateway answers no SQL."""
    certificate: Certificate | None
    """Certificate for TLS; None if HTTP is plain."""
    peer_trust: PeerTrust


def gateway_of(request: Request) -> Gateway:
    """Return the gateway that serves the request."""
    gateway: Gateway = request.scope["app"].gateway
    return gateway


def engine_of(request: Request) -> LogEngine:
    """Return the engine of the gateway that serves the request."""
    return gateway_of(request).engine


JUDGED: Final = "tidelog.judged"
"""Key in a request's scope of the last right judged by its body: operation, resource type, resource."""


def require(request: Request, operation: Operation, resource_type: ResourceType, *resources: str) -> None:
    """Raise ``Unauthorized`` for the first of the resources for which the request's caller lacks the operation's right."""
    rights = gateway_of(request).rights
    if rights.enforced:
        caller = caller_of(request)
        for resource in resources:
            rights.require(caller, operation, resource_type, resource)
            request.scope[JUDGED] = (operation, resource_type, resource)


def allowing(request: Request, operation: Operation, resource_type: ResourceType) -> Callable[[str], bool]:
    """Return a function that tells whether the request's caller has the right to the operation on a resource."""
    return gateway_of(request).rights.allowed_filter(caller_of(request), operation, resource_type)


def standing_of(request: Request) -> AdmissionCheck:
    """Return the rights and credential by which the request was let in, to be judged again while the request lasts."""
    gateway = gateway_of(request)
    return AdmissionCheck(caller_of(request), gateway.rights, gateway.authentication, gateway.clock)


def owner_of(request: Request) -> str:
    """Return the owner of the ids that the request gets and may use."""
    return caller_of(request).principal if gateway_of(request).rights.enforced else NOBODY


async def check_transaction(request: Request, transaction_id: str) -> None:
    """Raise ``RequestRefused`` (404) for another owner's transaction."""
    await engine_of(request).transactions.check_owner(transaction_id, owner_of(request))


async def check_member(request: Request, group: str, member_id: str | None) -> None:
    """Raise ``RequestRefused`` (404) for another owner's member."""
    if member_id is not None:
        await engine_of(request).groups.member_ids.check(group, member_id, owner_of(request))


def may_alter_cluster(request: Request) -> bool:
    """Return whether the caller may alter the cluster: such a caller may end others' transactions and memberships."""
    return gateway_of(request).rights.allows(caller_of(request), "Alter", "cluster", CLUSTER)


def answer_memory(request: Request) -> Memory:
    """Return the memory for answers in the view of the caller: its principal, or without authentication its address."""
    gateway, client = gateway_of(request), request.client
    if gateway.rights.enforced:
        return gateway.answer_memory.of(caller_of(request).principal)
    return gateway.answer_memory.of("" if client is None else client.host)


def request_memory(request: Request) -> Memory:
    """Return the memory for request bodies in the view of the caller."""
    gateway = gateway_of(request)
    if gateway.rights.enforced:
        return gateway.request_memory.of(caller_of(request).principal)
    return gateway.request_memory
