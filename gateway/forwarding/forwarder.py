"""Forwarding of requests to their owner, bodies byte for byte, and the meaning of a failure on the way.

1. ``Ownership`` says which gateway owns what. With ``preferred`` a produce request for one partition goes to the partition's
   owner. One for the topic as a whole, or with producer headers (whose sequence is the topic's), goes to the topic's owner. A
   request about a group or a queue goes to its owner, which coordinates it. All others are served where they arrive, and so
   are those to a topic that is known here to be at a journal, by its own state or by name from a journal in use: the journal's
   writer tells other gateways only the names of its objects. The owner's answer says whether a topic is at a journal
   (``AT_JOURNAL``). With ``random`` only requests about groups and queues go on from the chosen gateway.
2. A request that was passed on often enough is served where it arrives, whichever gateway is preferred there.
3. The body is read whole before it is sent, within the budget of request bodies. The owner does nothing before it has all of
   it, and the body is still here when the owner refuses. A body that is too long or too slow to forward is refused here.
4. If nothing was sent, or the owner drains, the request is served here. The exception is a busy coordinator: taking the group
   from it would not help. If the answer is lost, a request that is safe to repeat (it only reads, or has the producer headers)
   is served here. Others end in ``OUTCOME_UNKNOWN``. So does a repeat that is refused here: the refusal speaks of the second
   try only. An answer that breaks off breaks off for the client, too.
5. Records are passed on with the id of the topic that they are for (``Hop.topic_id``): a copy that waits at a suspended
   gateway, while the request is served here, never comes into a topic made anew under the name. If the peer finds another
   topic, it did nothing, and the request is served here. A topic that does not exist is looked for here.
6. The contract's headers cross both ways, and no others (``forwarded_headers``). A hop goes along, which proves the request
   (``hop``). If the peer refuses the hop it did nothing: the peer rests, and the request is served here.
7. ``Breaker`` tells which peers answer. Nothing is sent to one that does not; waiting for it ends within seconds. If the store
   is slow for the peer alone, the answers to changes that wait there are lost, too.
8. When the client goes away the connection to the owner is cut: the owner, too, sees its client go away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access.caller import CALLER, Caller
from gateway.access.rights import Rights
from gateway.asgi.auditing import client_address
from gateway.asgi.compression import NO_COMPRESSION
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.engine.open_topics import OpenTopics
from gateway.forwarding.arrival import hop_of, is_refusal, sealed
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import (
    LOOK_MS,
    KeepsWaiting,
    PeerAnswerLost,
    PeerBusy,
    PeerConnection,
    PeerConnections,
    PeerUnreachable,
)
from gateway.forwarding.forwarded_headers import forwarded_answer_headers
from gateway.forwarding.hop import Hops
from gateway.forwarding.kept_body import KeptBody
from gateway.forwarding.peer_affinity import affinity_of
from gateway.forwarding.peer_answer import beginning, is_short, untouched
from gateway.http.disconnect import cancel_on_disconnect
from gateway.http.parameters import ENCODED_SLASH
from gateway.memory_budget import MemoryBudget
from gateway.problem import overloaded
from gateway.quotas.spending import SPENT_HEADER, charge_reported, spending_of
from log_format.clock import Clock
from log_format.errors import OutcomeUnknown, StoreError, TidelogError
from log_format.topic_name import is_topic_name

_log = logging.getLogger("gateway.forwarding")

AT_JOURNAL: Final = b"x-tidelog-at-journal"
"""Header of an answer to another gateway: the topic is at a journal."""
_PRODUCE: Final = frozenset({"/v1/topics/{topic}/records", "/v1/topics/{topic}/partitions/{partition}/records"})
_COMMIT: Final = "/v1/groups/{group}/offsets"
STALL_LOOK_MS: Final = 1_000
"""Time after which the peer of a waiting change is asked for its store."""
_COORDINATED: Final = {"/v1/groups/{group}": "group", "/v1/queues/{queue}": "queue"}
"""Beginnings of paths about what one gateway coordinates, and the parameter that names it."""
_CLUSTER: Final = "/v1/cluster"
_STAMPED: Final = b"tidelog-producer-id"
_MISSING: Final = ""
"""Value in place of a topic id: there is no topic of the name."""


class _Outcome(Enum):
    """Outcome of a request at a peer."""

    ANSWERED = "answered"
    UNTOUCHED = "untouched"
    """The peer did nothing."""
    LOST = "lost"
    """The peer may have done it, or still may; repeating it does no harm."""


class Forwarder:
    """Forwarding of this gateway. ``topics`` tells a topic's ``owners``. Used on the event loop only."""

    def __init__(
        self,
        ownership: Ownership,
        connections: PeerConnections,
        breaker: Breaker,
        topics: OpenTopics,
        hops: Hops,
        *,
        store_answers: Callable[[], Awaitable[None]],
        rights: Rights,
        request_bytes_max: int,
        request_memory: MemoryBudget,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._ownership = ownership
        self._peers = ownership.peers
        self._connections = connections
        self._breaker = breaker
        self._store_answers = store_answers
        self._topics = topics
        self._hops = hops
        self._rights = rights
        self._request_bytes_max = request_bytes_max
        self._request_memory = request_memory
        self._clock = clock
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._forwarded = Counter(
            "tidelog_forwarded_requests",
            "Requests forwarded to another gateway, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self._bytes = Counter(
            "tidelog_forwarded_bytes",
            "Bytes of forwarded request bodies and their answers, by zone of the other gateway: same, other or unknown.",
            ("zone",),
            registry=registry,
        )

    def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle a request whose route is ``app``. Raises what ``app`` raises; ``OutcomeUnknown``, ``BackOff``,
        ``ClientDisconnect``."""
        if self._ownership.mode == "off" or not self._peers.count:
            return app(scope, receive, self._telling(scope, send))
        return self._here_or_there(app, scope, receive, send)

    async def _here_or_there(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        peer = await self._peer_for(scope)
        topic_id = await self._meant(scope) if peer is not None and _template(scope) in _PRODUCE else None
        if peer is None or topic_id == _MISSING:
            affinity_of(scope).reset()
            await app(scope, receive, self._telling(scope, send))
            return
        caller: Caller | None = scope.get(CALLER)
        with self._request_memory.reserve(0, None if caller is None else caller.principal) as reservation:
            body = KeptBody(receive, reservation)
            outcome = await self._passed_on(peer, scope, body, send, topic_id)
        if outcome is _Outcome.UNTOUCHED:
            await app(scope, body.again, send)
        elif outcome is _Outcome.LOST:
            try:
                await app(scope, body.again, send)
            except TidelogError as error:
                if scope["method"] == "GET" or error.may_have_happened:
                    raise
                raise OutcomeUnknown(
                    f"Another gateway may have done it, and did not answer; this one refused it: {error.detail}"
                ) from error

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    # Choice of the gateway

    async def _peer_for(self, scope: Scope) -> Peer | None:
        mode = self._ownership.mode
        passed = _passed(scope)
        coordinated = _coordinated(scope)
        passed_max = 2 if mode == "random" and coordinated is not None else 1
        if scope["method"] == "HEAD" or passed >= passed_max:
            return None
        if _announced_bytes(scope) > self._request_bytes_max:
            return None
        if mode == "random" and passed == 0:
            if not scope["path"].startswith("/v1/") or scope["path"] == _CLUSTER:
                return None
            chosen = self._ownership.at_random()
            if chosen is not None or coordinated is None:
                return chosen
        if coordinated is not None:
            name = scope["path_params"][coordinated].replace(ENCODED_SLASH, "/")
            return self._ownership.of_group(name) if coordinated == "group" else self._ownership.of_queue(name)
        return await self._committer(scope)

    async def _committer(self, scope: Scope) -> Peer | None:
        if _template(scope) not in _PRODUCE or scope["method"] != "POST":
            return None
        topic, partition = scope["path_params"]["topic"], scope["path_params"].get("partition", "")
        if not is_topic_name(topic) or self._topics.is_at_journal(topic):
            return None
        if not (partition.isascii() and partition.isdigit() and len(partition) < 10) or _header(scope, _STAMPED):
            return self._ownership.of_topic(topic)
        return self._ownership.of_partition(topic, int(partition), await self._owners(topic))

    async def _meant(self, scope: Scope) -> str | None:
        """Return the id of the topic that the records are for; ``_MISSING`` if there is no topic, None if it can't be looked
        at."""
        try:
            known = await self._topics.loaded(scope["path_params"]["topic"], self._clock.monotonic_ms())
        except (TidelogError, StoreError):
            return None
        return known.log.state.topic_id or _MISSING

    def _telling(self, scope: Scope, send: Send) -> Send:
        """Return ``send``; for a request of another gateway one that adds ``AT_JOURNAL`` for a topic at a journal."""
        if hop_of(scope) is None or _template(scope) not in _PRODUCE:
            return send

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and self._topics.is_at_journal(scope["path_params"]["topic"]):
                message["headers"] = [*message["headers"], (AT_JOURNAL, b"1")]
            await send(message)

        return tell

    def _learn(self, scope: Scope) -> None:
        """Look at a topic that the owner says to be at a journal, so that the next request is served here."""
        topic = scope["path_params"]["topic"]
        if topic not in self._learning:
            task = asyncio.create_task(self._look(topic))
            self._learning[topic] = task
            task.add_done_callback(lambda _: self._learning.pop(topic, None))

    async def _look(self, topic: str) -> None:
        with suppress(TidelogError, StoreError):
            await self._topics.fresh(topic, self._clock.monotonic_ms())

    async def _owners(self, topic: str) -> int:
        try:
            known = await self._topics.loaded(topic, self._clock.monotonic_ms())
        except (TidelogError, StoreError):
            return 1
        return known.state.config.integer("owners") if known.state.exists else 1

    # Exchange with the peer

    async def _passed_on(
        self, peer: Peer, scope: Scope, body: KeptBody, send: Send, topic_id: str | None = None
    ) -> _Outcome:
        """Pass the request on; return the outcome. Unless it is ``ANSWERED``, the request can be served here without harm."""
        data = await body.read(self._request_bytes_max)
        if data is None:
            return _Outcome.UNTOUCHED
        self._connections.sweep()
        if not await self._breaker.admits(peer):
            self._count("silent")
            return _Outcome.UNTOUCHED
        try:
            connection = await self._connections.take(peer.url)
        except PeerBusy:
            self._count("busy")
            if (coordinated := _coordinated(scope)) is not None:
                raise overloaded(
                    f"The gateway that coordinates the {coordinated} has reached its limit of requests."
                ) from None
            return _Outcome.UNTOUCHED
        except PeerUnreachable:
            self._peers.rest(peer.id)
            self._count("unreachable")
            return _Outcome.UNTOUCHED
        try:
            head = self._hops.head(
                peer,
                sealed(scope),
                data,
                passed=_passed(scope) + 1,
                caller=scope.get(CALLER),
                revision=self._rights.revision,
                source=client_address(scope),
                topic_id=topic_id,
            )
            if head is None:
                return _Outcome.UNTOUCHED
            connection.begin(head, data)
            self._bytes_with(peer).inc(len(data))
            exchange = self._exchange(connection, peer, scope, send)
            # The body is at its end: from here on only the client's going away can be received.
            return await cancel_on_disconnect(Request(scope, body.rest), exchange)
        finally:
            self._connections.give_back(peer.url, connection)

    async def _exchange(self, connection: PeerConnection, peer: Peer, scope: Scope, send: Send) -> _Outcome:
        goes_on = self._goes_on(peer, scope)
        try:
            await connection.read_head(goes_on)
            first = await beginning(connection, goes_on) if is_short(connection) else b""
        except PeerAnswerLost as lost:
            self._peers.rest(peer.id)
            self._count("lost")
            if _is_repeatable(scope):
                return _Outcome.LOST
            raise OutcomeUnknown(
                "The gateway that this request was forwarded to did not answer: whether it was carried out is unknown."
            ) from lost
        if connection.status == 503 and (why := untouched(first)) is not None:
            if why == "draining":
                self._peers.rest(peer.id)
            self._count(why)
            return _Outcome.UNTOUCHED
        if is_refusal(connection.status, connection.headers, first):
            _log.warning("gateway %s refuses what this one passes on: %s", peer.id, first.decode(errors="replace"))
            self._peers.rest(peer.id)
            self._count("refused")
            return _Outcome.UNTOUCHED
        self._count("answered")
        affinity_of(scope).count_forwarded(peer.url)
        spending = spending_of(scope)
        for name, value in connection.headers:
            if name == SPENT_HEADER and spending is not None:
                charge_reported(spending, value)
        if any(name == AT_JOURNAL for name, _ in connection.headers) and _template(scope) in _PRODUCE:
            self._learn(scope)
        headers = forwarded_answer_headers(connection.headers)
        await send(
            {"type": "http.response.start", "status": connection.status, "headers": headers, NO_COMPRESSION: True}
        )
        received = self._bytes_with(peer)
        received.inc(len(first))
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        try:
            while piece := await connection.read_chunk(goes_on):
                received.inc(len(piece))
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except PeerAnswerLost as lost:
            raise OutcomeUnknown("The answer of the gateway that this request was forwarded to was cut off.") from lost
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return _Outcome.ANSWERED

    def _goes_on(self, peer: Peer, scope: Scope) -> KeepsWaiting:
        """Return a function that tells whether a wait for the peer's answer goes on."""
        is_change = scope["method"] in ("POST", "PUT") and _template(scope) in (*_PRODUCE, _COMMIT)
        looks_at_ms = self._clock.monotonic_ms() + STALL_LOOK_MS

        async def goes_on() -> bool:
            if not self._peers.is_live(peer.id) or not await self._breaker.is_alive(peer, LOOK_MS):
                return False
            if not is_change or self._clock.monotonic_ms() < looks_at_ms:
                return True
            return not await self._breaker.stalls(peer, self._store_answers)

        return goes_on

    def _bytes_with(self, peer: Peer) -> Counter:
        if self._peers.zone is None or peer.zone is None:
            return self._bytes.labels("unknown")
        return self._bytes.labels("same" if peer.zone == self._peers.zone else "other")

    def _count(self, outcome: str) -> None:
        self._forwarded.labels(outcome).inc()


def _is_repeatable(scope: Scope) -> bool:
    """Return whether doing it twice does no harm."""
    return scope["method"] == "GET" or _header(scope, _STAMPED) is not None


def _passed(scope: Scope) -> int:
    """Return how many gateways have passed the request on."""
    hop = hop_of(scope)
    return 0 if hop is None else hop.passed


def _template(scope: Scope) -> str:
    """Return the path of the request's route, with its parameters' names."""
    template: str = getattr(scope.get("route"), "path_format", "")
    return template


def _coordinated(scope: Scope) -> str | None:
    """Return the path's parameter that names a group or a queue; None if the request is about neither."""
    template = _template(scope)
    return next((name for beginning, name in _COORDINATED.items() if template.startswith(beginning)), None)


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    found: bytes | None = next((value for name, value in scope["headers"] if name == wanted), None)
    return found


def _announced_bytes(scope: Scope) -> int:
    text = _header(scope, b"content-length") or b""
    return int(text) if text.isdigit() and len(text) < 19 else 0
