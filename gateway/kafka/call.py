"""One request of a connection, and what its handler has: the gateway's parts, its caller, and the answer's class."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, NamedTuple

from kio.schema.index import api_key_map

from gateway.access.authentication import Unauthenticated
from gateway.access.caller import Caller
from gateway.access.rights import Unauthorized
from gateway.access.standing import Standing
from gateway.audit.event import AuditEvent, Kind
from gateway.gateway import Gateway
from gateway.kafka.brokers import Advertised
from gateway.kafka.described_topics import EncodedTopics
from gateway.kafka.encoded_batches import EncodedBatches
from gateway.kafka.fetch_sessions import FetchSessions
from gateway.kafka.known_topics import KnownTopics
from gateway.kafka.login import Login
from gateway.kafka.rates import Rates
from gateway.kafka.shares.sessions import ShareSessions
from gateway.kafka.shares.shares import Shares
from gateway.kafka.wire.made import made
from gateway.kafka.wire.messages import Head, response_type
from gateway.log_engine import LogEngine
from gateway.memory_budget import Memory, Reservation
from gateway.quotas.quotas import Connection as CountedConnection
from gateway.quotas.quotas import Throttled
from log_format.access.acls import Operation, ResourceType
from log_format.cluster.proof import NOBODY
from log_format.errors import TidelogError
from log_format.groups.row import Reader


class Refused(Exception):
    """The connection is closed. The text is for the log."""


@dataclass(eq=False, slots=True, kw_only=True)
class Session:
    """What is known of a connection's client. ``caller`` None: the client has yet to prove its identity, and may only do that."""

    address: str
    caller: Caller | None
    still_there: Callable[[], Awaitable[None]]
    """Raises where the client has gone: it may be asking elsewhere."""
    software: str = ""
    """What the client's library calls itself (KIP-511); empty where it does not say."""
    counted: CountedConnection = field(default_factory=CountedConnection)
    """For the quota of connections."""
    rates: Rates = field(default_factory=lambda: Rates(None))
    login: Login = field(default_factory=Login)
    shares: ShareSessions
    state: dict[str, Any] = field(default_factory=dict)
    """Of calls that take several requests."""

    def enter(self, caller: Caller) -> None:
        """The client has proved its identity. Raises ``Refused`` where it has too many connections."""
        if self.rates.quotas is not None:
            try:
                self.counted.used_by(caller.principal, self.rates.quotas)
            except Throttled as problem:
                raise Refused(problem.detail) from problem
        self.caller = caller


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer's body whose bytes were made already, in parts."""

    parts: tuple[bytes | memoryview, ...]


Answer = Any
"""An entity of ``call.answer``, ``Encoded``, or None: the client wants no answer."""


@dataclass(frozen=True, slots=True)
class Later:
    """An answer to come. The connection's next request begins meanwhile; answers go out in the order of requests."""

    answer: Awaitable[Answer]


Handler = Callable[["KafkaCall", Any], Awaitable[Answer | Later]]
"""Gets kio's entity of the request's version. What it raises as ``TidelogError`` must be in its answer: only ``refused`` of its
``Served`` makes an answer of an error."""


def later(handle: Callable[[KafkaCall, Any], Awaitable[Answer]]) -> Handler:
    """The handler whose answers come later."""

    @wraps(handle)
    async def begin(call: KafkaCall, request: Any) -> Answer | Later:
        return Later(handle(call, request))

    return begin


class Served(NamedTuple):
    """The versions of a key that are served, and by what. ``listed_from``: the least version that ApiVersions tells, where a
    client needs it to be less."""

    least: int
    most: int
    handle: Handler
    listed_from: int | None = None


Calls = Mapping[int, Served]
"""By API key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What a listener remembers for all its connections."""

    known_topics: KnownTopics
    encoded_topics: EncodedTopics
    encoded_batches: EncodedBatches
    fetch_sessions: FetchSessions
    shares: Shares
    prepared: set[tuple[int, int]] = field(default_factory=set)
    """Keys and versions whose schemas are imported."""


@dataclass(eq=False, slots=True, kw_only=True)
class KafkaCall:
    """Belongs to the event loop."""

    head: Head
    client_id: str | None
    gateway: Gateway
    advertised: Advertised
    session: Session
    calls: Calls
    remembered: Remembered
    arrived_at_ms: int
    """Time of day."""
    revision: int
    """Of the rights by which the request was let in."""
    frame: Reservation
    """The memory of the request's frame; released once the answer is sent."""
    held: list[Reservation] = field(default_factory=list)
    """Released once the answer is sent."""
    denied: set[tuple[str, ...]] = field(default_factory=set)
    """Rights that were missing, as far as the audit trail was told."""

    @property
    def known_topics(self) -> KnownTopics:
        """The listener's."""
        return self.remembered.known_topics

    @property
    def shares(self) -> Shares:
        """Share groups, their members and queues."""
        return self.remembered.shares

    @property
    def name(self) -> str:
        """Of the request, as in Kafka's documents."""
        return api_key_map[self.head.key].title().replace("_", "")

    @property
    def version(self) -> int:
        """Of the request."""
        return self.head.version

    @property
    def engine(self) -> LogEngine:
        """The gateway's."""
        return self.gateway.engine

    @property
    def caller(self) -> Caller:
        """The caller that the client has proved to be."""
        assert self.session.caller is not None
        return self.session.caller

    @property
    def owner(self) -> str:
        """The owner of the ids that the call gets."""
        return self.caller.principal if self.gateway.rights.enforced else NOBODY

    @property
    def reader(self) -> Reader | None:
        """Whose members are the caller's; None: rights are not enforced."""
        return Reader(self.caller.principal, self.caller.groups) if self.gateway.rights.enforced else None

    @property
    def answer_memory(self) -> Memory:
        """For what the answer holds."""
        enforced = self.gateway.rights.enforced
        return self.gateway.answer_memory.of(self.caller.principal if enforced else self.session.address)

    def records_memory(self, size_bytes: int) -> Reservation:
        """Of the frame's memory, for records that go on to a commit, which releases it. Raises ``BackOff`` (``OVERLOADED``)."""
        return self.frame.split(size_bytes)

    @property
    def pause_ms(self) -> int:
        """The caller's debt, for which the connection is mute after the answer."""
        caller = self.session.caller
        return 0 if caller is None else self.session.rates.pause_ms(caller.principal)

    def spend(self, quota: str, amount: int) -> None:
        """The request used so much of its caller's quota."""
        self.session.rates.spend(self.caller.principal, quota, amount)

    def allows(self, operation: Operation, resource_type: ResourceType, resource: str) -> bool:
        """Whether the caller may. Raises ``BackOff`` where that is not known."""
        return self.gateway.rights.allows(self.caller, operation, resource_type, resource)

    def require(self, operation: Operation, resource_type: ResourceType, resource: str) -> None:
        """Raise ``Unauthorized`` unless the caller may, and have it in the audit trail; ``BackOff`` where that is not known."""
        try:
            self.gateway.rights.require(self.caller, operation, resource_type, resource)
        except Unauthorized:
            self._denied(operation, resource_type, resource)
            raise

    async def unreadable(self, topics: Collection[str], group: str | None = None) -> Mapping[str, TidelogError]:
        """Those of these topics whose records a request that has waited may not bring any more, each with the reason, which is in
        the audit trail. ``group``: by which it reads. Raises ``BackOff``; ``Refused`` where the credential has ended."""
        gateway = self.gateway
        standing = Standing(self.caller, gateway.rights, gateway.authentication, gateway.clock)
        await gateway.rights.renew()
        try:
            standing.check()
        except Unauthenticated:
            raise Refused("the client's credential has ended while a request waited") from None
        if gateway.rights.revision == self.revision:
            return {}
        lost = await standing.unreadable(topics, group)
        for error in lost.values():
            if isinstance(error, Unauthorized):
                self._denied(error.fields["operation"], error.fields["resource_type"], error.fields["resource"])
        return lost

    def _denied(self, *right: str) -> None:
        if self.gateway.recording is not None and right not in self.denied and len(self.denied) < DENIALS_MAX:
            self.denied.add(right)
            self.gateway.recording.note(self.event("denial", *right))

    def event(
        self,
        kind: Kind,
        operation: str | None = None,
        resource_type: str | None = None,
        resource: str | None = None,
    ) -> AuditEvent:
        """What the call did, for the audit trail."""
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
        """The answer's entity in the request's version: values by the newest version's names, nested ones as mappings. What the
        version lacks is left out (``gateway.kafka.wire.made``). Where ``throttle_time`` is not given it is the caller's
        debt, for which the connection is then mute."""
        answer_type = response_type(self.head.key, self.head.version)
        if "throttle_time" in answer_type.__dataclass_fields__:
            values.setdefault("throttle_time", self.pause_ms)
        return made(answer_type, values)


async def let_others_in(number: int) -> None:
    """Give others the event loop after each ``STEP`` of the many parts of a request."""
    if number % STEP == 0:
        await asyncio.sleep(0)


STEP: Final = 100
METHOD: Final = "KAFKA"
"""Of events in the audit trail, beside HTTP's methods."""
DENIALS_MAX: Final = 20
"""Told of one request: it may name ten thousand partitions."""
UNAUTHENTICATED_KEYS: Final = frozenset({17, 18, 36})
"""SaslHandshake, ApiVersions, SaslAuthenticate: served before the client has proved its identity."""
