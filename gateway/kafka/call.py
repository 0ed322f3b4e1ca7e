"""One request of a connection and what its handler works with: the gateway's parts, the caller, and the answer's type."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, NamedTuple

from kio.schema.index import api_key_map

from gateway.access.admission_check import AdmissionCheck
from gateway.access.authentication import Unauthenticated
from gateway.access.caller import Caller
from gateway.access.rights import Unauthorized
from gateway.audit.event import AuditEvent, Kind
from gateway.gateway import Gateway
from gateway.kafka.brokers import Advertised
from gateway.kafka.described_topics import EncodedTopics
from gateway.kafka.encoded_batches import EncodedBatches
from gateway.kafka.fetch_sessions import FetchSessions
from gateway.kafka.known_topics import KnownTopics
from gateway.kafka.rates import Rates
from gateway.kafka.sasl import Login
from gateway.kafka.shares.groups import ShareGroups
from gateway.kafka.shares.sessions import ShareSessions
from gateway.kafka.wire.entities import make_entity
from gateway.kafka.wire.messages import Head, response_type
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, Reservation
from gateway.quotas.quotas import Connection as CountedConnection
from gateway.quotas.quotas import Throttled
from log_format.access.acls import Operation, ResourceType
from log_format.cluster.proof import NOBODY
from log_format.errors import TidelogError
from log_format.groups.row import Reader


class CloseConnection(Exception):
    """Raised to close the connection. The text is for the log."""


@dataclass(eq=False, slots=True, kw_only=True)
class Session:
    """State of a connection's client. While ``caller`` is None the client has not authenticated, and may only do so."""

    address: str
    caller: Caller | None
    check_connected: Callable[[], Awaitable[None]]
    """Check that raises if the client has disconnected: it may already be asking elsewhere."""
    software: str = ""
    """Name of the client's library (KIP-511); empty if the client does not send one."""
    quota_connection: CountedConnection = field(default_factory=CountedConnection)
    """The connection as the quota of connections counts it."""
    rates: Rates = field(default_factory=lambda: Rates(None))
    login: Login = field(default_factory=Login)
    shares: ShareSessions
    state: dict[str, Any] = field(default_factory=dict)
    """State of exchanges that take several requests."""

    def enter(self, caller: Caller) -> None:
        """Set the authenticated caller. Raise ``CloseConnection`` if the caller has too many connections."""
        if self.rates.quotas is not None:
            try:
                self.quota_connection.used_by(caller.principal, self.rates.quotas)
            except Throttled as problem:
                raise CloseConnection(problem.detail) from problem
        self.caller = caller


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer body that is already encoded, in parts."""

    parts: tuple[bytes | memoryview, ...]


Answer = Any
"""Answer of a handler: an entity from ``call.answer``, ``Encoded``, or None if the client wants no answer."""


@dataclass(frozen=True, slots=True)
class PendingAnswer:
    """An answer that is not ready yet. The connection's next request begins meanwhile; answers still go out in the order of
    requests."""

    answer: Awaitable[Answer]


Handler = Callable[["KafkaCall", Any], Awaitable[Answer | PendingAnswer]]
"""Function that serves a request, given kio's entity in the request's version. It has to turn each ``TidelogError`` into an
answer: an exception that it raises closes the connection."""


def answer_concurrently(handle: Callable[[KafkaCall, Any], Awaitable[Answer]]) -> Handler:
    """Wrap a handler so that it returns ``PendingAnswer`` immediately."""

    @wraps(handle)
    async def begin(call: KafkaCall, request: Any) -> Answer | PendingAnswer:
        return PendingAnswer(handle(call, request))

    return begin


class ApiHandler(NamedTuple):
    """The versions of an API key that are served, and their handler. ``listed_version_min``: smallest version that ApiVersions
    lists, for a client that needs it to be smaller than ``version_min``."""

    version_min: int
    version_max: int
    handle: Handler
    listed_version_min: int | None = None


ApiHandlers = Mapping[int, ApiHandler]
"""Served requests by API key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerCaches:
    """State that a listener shares among all its connections."""

    known_topics: KnownTopics
    encoded_topics: EncodedTopics
    encoded_batches: EncodedBatches
    fetch_sessions: FetchSessions
    shares: ShareGroups
    prepared: set[tuple[int, int]] = field(default_factory=set)
    """API keys and versions whose schemas are already imported."""


@dataclass(eq=False, slots=True, kw_only=True)
class KafkaCall:
    """One request in progress. Used on the event loop only."""

    head: Head
    client_id: str | None
    gateway: Gateway
    advertised: Advertised
    session: Session
    calls: ApiHandlers
    caches: ListenerCaches
    arrived_at_ms: int
    """Time of day at which the request arrived."""
    revision: int
    """Revision of the rights by which the request was admitted."""
    frame: Reservation
    """Memory of the request's frame; released once the answer is sent."""
    reservations: list[Reservation] = field(default_factory=list)
    """Other reservations that are released once the answer is sent."""
    noted_denials: set[tuple[str, ...]] = field(default_factory=set)
    """Missing rights that were already noted in the audit trail for this request."""

    @property
    def known_topics(self) -> KnownTopics:
        """The listener's cache of topics by id."""
        return self.caches.known_topics

    @property
    def shares(self) -> ShareGroups:
        """Share groups with their members and queues."""
        return self.caches.shares

    @property
    def name(self) -> str:
        """Name of the request in Kafka's documents."""
        return api_key_map[self.head.key].title().replace("_", "")

    @property
    def version(self) -> int:
        """API version of the request."""
        return self.head.version

    @property
    def engine(self) -> LogEngine:
        """The gateway's log engine."""
        return self.gateway.engine

    @property
    def caller(self) -> Caller:
        """The authenticated caller."""
        assert self.session.caller is not None
        return self.session.caller

    @property
    def owner(self) -> str:
        """Principal that owns the request's members, producers and transactions; ``NOBODY`` if rights are not enforced."""
        return self.caller.principal if self.gateway.rights.enforced else NOBODY

    @property
    def reader(self) -> Reader | None:
        """Caller for whom a group member reads; None if rights are not enforced."""
        return Reader(self.caller.principal, self.caller.groups) if self.gateway.rights.enforced else None

    @property
    def answer_memory(self) -> Memory:
        """Memory from which the answer's data is reserved."""
        enforced = self.gateway.rights.enforced
        return self.gateway.answer_memory.of(self.caller.principal if enforced else self.session.address)

    def records_memory(self, size_bytes: int) -> Reservation:
        """Split a reservation for records off the frame's memory; the commit releases it. Raise ``BackOff`` (``OVERLOADED``)."""
        return self.frame.split(size_bytes)

    @property
    def pause_ms(self) -> int:
        """Milliseconds of the caller's quota debt: the connection is muted for so long after the answer."""
        caller = self.session.caller
        return 0 if caller is None else self.session.rates.pause_ms(caller.principal)

    def spend(self, quota: str, amount: int) -> None:
        """Charge an amount to the caller's quota."""
        self.session.rates.spend(self.caller.principal, quota, amount)

    def allows(self, operation: Operation, resource_type: ResourceType, resource: str) -> bool:
        """Return whether the caller has the right. Raise ``BackOff`` if the rights are not known."""
        return self.gateway.rights.allows(self.caller, operation, resource_type, resource)

    def require(self, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        """Raise ``Unauthorized``, and note the denial in the audit trail, unless the caller has the right. Raise ``BackOff``
        if the rights are not known."""
        try:
            self.gateway.rights.require(self.caller, operation, resource_type, resource)
        except Unauthorized:
            self._note_denial(operation, resource_type, resource)
            raise

    async def find_unreadable(self, topics: Collection[str], group: str | None = None) -> Mapping[str, TidelogError]:
        """Check the caller's rights again after a wait; note each denial in the audit trail.

        Args:
            topics: Topics whose records the answer would contain.
            group: Group on whose behalf the request reads, if any.

        Returns:
            The topics that the caller may no longer read, each with the reason.

        Raises:
            BackOff: The rights are not known.
            Refused: The credential has ended.
        """
        gateway = self.gateway
        standing = AdmissionCheck(self.caller, gateway.rights, gateway.authentication, gateway.clock)
        await gateway.rights.refresh_if_old()
        try:
            standing.check()
        except Unauthenticated:
            raise CloseConnection("the client's credential has ended while a request waited") from None
        if gateway.rights.revision == self.revision:
            return {}
        lost = await standing.unreadable(topics, group)
        for error in lost.values():
            if isinstance(error, Unauthorized):
                self._note_denial(error.fields["operation"], error.fields["resource_type"], error.fields["resource"])
        return lost

    def _note_denial(self, *right: str) -> None:
        if (
            self.gateway.recording is not None
            and right not in self.noted_denials
            and len(self.noted_denials) < DENIALS_MAX
        ):
            self.noted_denials.add(right)
            self.gateway.recording.note(self.event("denial", *right))

    def event(
        self,
        kind: Kind,
        operation: str | None = None,
        resource_type: str | None = None,
        resource: str | None = None,
    ) -> AuditEvent:
        """Return an audit event for the call."""
        caller = self.session.caller
        return AuditEvent(
            time=self.gateway.clock.now_ms(),
            kind=kind,
            principal=None if caller is None else caller.principal,
            operation=operation,
            resource_type=resource_type,
            resource=resource,
            method=METHOD,
            route=self.name,
            request_id=f"{self.session.address}/{self.head.correlation_id}",
            source=self.session.address,
        )

    def answer(self, **values: Any) -> Any:
        """Return the answer's entity in the request's version. ``values`` use the newest version's names, with nested entities
        as mappings; a field that the version lacks is left out (``gateway.kafka.wire.entities``). ``throttle_time`` defaults to
        the caller's quota debt, for which the connection is then muted."""
        answer_type = response_type(self.head.key, self.head.version)
        if "throttle_time" in answer_type.__dataclass_fields__:
            values.setdefault("throttle_time", self.pause_ms)
        return make_entity(answer_type, values)


async def yield_to_loop(number: int) -> None:
    """Yield to the event loop after every ``PARTS_PER_YIELD`` parts of a request that has many."""
    if number % PARTS_PER_YIELD == 0:
        await asyncio.sleep(0)


PARTS_PER_YIELD: Final = 100
METHOD: Final = "KAFKA"
"""Method of Kafka's requests in the audit trail, where HTTP requests have theirs."""
DENIALS_MAX: Final = 20
"""Most denials that one request adds to the audit trail: it may name ten thousand partitions."""
UNAUTHENTICATED_KEYS: Final = frozenset({17, 18, 36})
"""Requests served before the client has authenticated: SaslHandshake, ApiVersions, SaslAuthenticate."""
