"""Passes requests on to their owner, bodies byte for byte, and decides what a failure on the way means.

1. ``Ownership`` says which gateway owns what. With ``preferred`` a produce request for one partition goes to the partition's
   owner. One for the topic as a whole, or with producer headers (whose sequence is the topic's), goes to the topic's owner. A
   request about a group goes to the group's owner, which coordinates it. All others are served where they arrive, and so are
   those to a topic that is known here to be at a journal: only what its objects are called goes to another gateway. The owner's
   answer says of a topic that it is (``AT_JOURNAL``). With ``random`` only requests about groups go on from the randomly chosen
   gateway.
2. A request that was passed on often enough is served where it arrives, whichever gateway is preferred there.
3. The body is read whole before it is sent, within the budget of request bodies. The owner does nothing before it has all of it,
   and the body is still here when the owner refuses. A body that is too long or too slow to forward is refused here.
4. Where nothing was sent, or the owner drains, the request is served here. The exception is a busy coordinator: taking the group
   from it would not help. Where the answer is lost, a request that is safe to repeat (it only reads, or has the producer headers)
   is served here. Others end in ``OUTCOME_UNKNOWN``. So does a repeat that is refused here: the refusal speaks of the second try
   only. An answer that breaks off breaks off for the client, too.
5. The contract's headers cross both ways, and no others (``crossing``).
6. When the client goes away the connection to the owner is cut: the owner, too, sees its client go away.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.asgi.compression import AS_IT_IS
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.forwarding.connections import Headers, PeerBusy, PeerConnection, PeerConnections, PeerLost, PeerUnreachable
from gateway.forwarding.crossing import answer_headers, request_headers
from gateway.http.disconnect import unless_disconnected
from gateway.http.parameters import ENCODED_SLASH
from gateway.memory_budget import MemoryBudget, Reservation
from gateway.problem import overloaded
from log_format.clock import Clock
from log_format.errors import ErrorCode, OutcomeUnknown, StoreError, TidelogError

FORWARDED: Final = b"x-tidelog-forwarded"
"""Marks a request as passed on: the ids of the gateways that did so, comma-separated."""
AT_JOURNAL: Final = b"x-tidelog-at-journal"
"""In an answer to another gateway: the topic is at a journal."""
WHOLE_ANSWER_BYTES_MAX: Final = 64 * 1024
"""So short an answer is read to its end before its head is passed on: if it breaks off, it counts as lost."""
_PRODUCE: Final = frozenset({"/v1/topics/{topic}/records", "/v1/topics/{topic}/partitions/{partition}/records"})
_GROUP: Final = "/v1/groups/{group}"
_CLUSTER: Final = "/v1/cluster"
_STAMPED: Final = b"tidelog-producer-id"


class _Outcome(Enum):
    """The outcome of a request at a peer."""

    ANSWERED = "answered"
    UNTOUCHED = "untouched"
    """The peer did nothing."""
    LOST = "lost"
    """The peer may have done it, or still may; repeating it does no harm."""


class _Body:
    """A request's messages, kept for a second reading."""

    def __init__(self, receive: Receive, reservation: Reservation) -> None:
        self.rest = receive
        self._kept: deque[Message] = deque()
        self.reservation = reservation

    async def read(self, bytes_max: int) -> bytes | None:
        """The whole body; None when it is longer than ``bytes_max``. Raises ``ClientDisconnect``, ``BackOff``."""
        pieces: list[bytes] = []
        more = True
        while more:
            message = await self.rest()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self._kept.append(message)
            piece: bytes = message.get("body", b"")
            more = message.get("more_body", False)
            if self.reservation.size_bytes + len(piece) > bytes_max:
                return None
            self.reservation.grow(len(piece))
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def again(self) -> Message:
        """ASGI's ``receive``, from the beginning."""
        return self._kept.popleft() if self._kept else await self.rest()


class Forwarding:
    """Belongs to the event loop. ``topics`` tells a topic's ``owners``."""

    def __init__(
        self,
        ownership: Ownership,
        connections: PeerConnections,
        topics: TopicRegistry,
        *,
        own_id: str,
        request_bytes_max: int,
        request_memory: MemoryBudget,
        clock: Clock,
        registry: CollectorRegistry,
    ) -> None:
        self._ownership = ownership
        self._peers = ownership.peers
        self._connections = connections
        self._topics = topics
        self._own_id = own_id
        self._request_bytes_max = request_bytes_max
        self._request_memory = request_memory
        self._clock = clock
        self._learning: dict[str, asyncio.Task[None]] = {}
        self._forwarded = Counter(
            "tidelog_forwarded_requests",
            "Requests for another gateway: answered by it, or unreachable, busy, draining, lost.",
            ("outcome",),
            registry=registry,
        )

    async def __call__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request whose route is ``app``. Raises as ``app``; ``OutcomeUnknown``, ``BackOff``, ``ClientDisconnect``."""
        peer = await self._peer_for(scope)
        if peer is None:
            await app(scope, receive, self._telling(scope, send))
            return
        with self._request_memory.reserve() as reservation:
            body = _Body(receive, reservation)
            outcome = await self._passed_on(peer, scope, body, send)
        if outcome is _Outcome.UNTOUCHED:
            await app(scope, body.again, send)
        elif outcome is _Outcome.LOST:
            try:
                await app(scope, body.again, send)
            except TidelogError as error:
                if scope["method"] == "GET" or error.may_have_happened:
                    raise
                raise OutcomeUnknown(
                    f"It may have happened at a gateway that did not answer; here it was refused: {error.detail}"
                ) from error

    def close(self) -> None:
        """Close idle connections."""
        self._connections.close()

    # Where to

    async def _peer_for(self, scope: Scope) -> Peer | None:
        mode = self._ownership.mode
        hops = (_header(scope, FORWARDED) or b"").count(b",") + (_header(scope, FORWARDED) is not None)
        about_group = _template(scope).startswith(_GROUP)
        hops_max = 2 if mode == "random" and about_group else 1
        if mode == "off" or scope["method"] == "HEAD" or hops >= hops_max:
            return None
        if not self._peers.count or _announced_bytes(scope) > self._request_bytes_max:
            return None
        if mode == "random" and hops == 0:
            if not scope["path"].startswith("/v1/") or scope["path"] == _CLUSTER:
                return None
            chosen = self._ownership.at_random()
            if chosen is not None or not about_group:
                return chosen
        if about_group:
            return self._ownership.of_group(_group(scope))
        return await self._committer(scope)

    async def _committer(self, scope: Scope) -> Peer | None:
        if _template(scope) not in _PRODUCE or scope["method"] != "POST":
            return None
        topic, partition = scope["path_params"]["topic"], scope["path_params"].get("partition", "")
        if not is_topic_name(topic) or self._is_at_journal(topic):
            return None
        if not (partition.isascii() and partition.isdigit() and len(partition) < 10) or _header(scope, _STAMPED):
            return self._ownership.of_topic(topic)
        return self._ownership.of_partition(topic, int(partition), await self._owners(topic))

    def _is_at_journal(self, topic: str) -> bool:
        known = self._topics.known(topic)
        return known is not None and known.log.state.attachment is not None

    def _telling(self, scope: Scope, send: Send) -> Send:
        """``send``; for another gateway it says of a topic that it is at a journal."""
        if _header(scope, FORWARDED) is None or _template(scope) not in _PRODUCE:
            return send

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and self._is_at_journal(scope["path_params"]["topic"]):
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

    # There and back

    async def _passed_on(self, peer: Peer, scope: Scope, body: _Body, send: Send) -> _Outcome:
        """The outcome at the peer; unless the request was answered it can be served here without harm."""
        data = await body.read(self._request_bytes_max)
        if data is None:
            return _Outcome.UNTOUCHED
        self._connections.sweep()
        try:
            connection = await self._connections.take(peer.url)
        except PeerBusy:
            self._count("busy")
            if _template(scope).startswith(_GROUP):
                raise overloaded(
                    "The gateway that coordinates the group has as many requests as it may have."
                ) from None
            return _Outcome.UNTOUCHED
        except PeerUnreachable:
            self._peers.rest(peer.id)
            self._count("unreachable")
            return _Outcome.UNTOUCHED
        try:
            connection.begin(_request_head(scope, peer, self._own_id, len(data)), data)
            exchange = self._exchange(connection, peer, scope, send)
            # The body is at its end: from here on only the client's going away can be received.
            return await unless_disconnected(Request(scope, body.rest), exchange)
        finally:
            self._connections.give_back(peer.url, connection)

    async def _exchange(self, connection: PeerConnection, peer: Peer, scope: Scope, send: Send) -> _Outcome:
        def is_live() -> bool:
            return self._peers.is_live(peer.id)

        try:
            await connection.head(is_live)
            first = await _whole(connection, is_live) if _is_short(connection) else b""
        except PeerLost as lost:
            self._peers.rest(peer.id)
            self._count("lost")
            if scope["method"] == "GET" or _header(scope, _STAMPED) is not None:
                return _Outcome.LOST
            raise OutcomeUnknown(
                "The gateway that this was passed on to did not answer: whether it happened is not known."
            ) from lost
        if connection.status == 503 and _is_draining(first):
            self._peers.rest(peer.id)
            self._count("draining")
            return _Outcome.UNTOUCHED
        self._count("answered")
        if any(name == AT_JOURNAL for name, _ in connection.headers) and _template(scope) in _PRODUCE:
            self._learn(scope)
        headers = answer_headers(connection.headers)
        await send({"type": "http.response.start", "status": connection.status, "headers": headers, AS_IT_IS: True})
        if first:
            await send({"type": "http.response.body", "body": first, "more_body": True})
        try:
            while piece := await connection.chunk(is_live):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except PeerLost as lost:
            raise OutcomeUnknown("The answer of the gateway that this was passed on to broke off.") from lost
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return _Outcome.ANSWERED

    def _count(self, outcome: str) -> None:
        self._forwarded.labels(outcome).inc()


def _is_short(connection: PeerConnection) -> bool:
    """Whether the answer says so; a problem is short in any case."""
    lengths = [int(value) for name, value in connection.headers if name == b"content-length" and value.isdigit()]
    return connection.status == 503 or (bool(lengths) and lengths[0] <= WHOLE_ANSWER_BYTES_MAX)


async def _whole(connection: PeerConnection, is_live: Callable[[], bool]) -> bytes:
    """The body, or the beginning of a longer one. Raises ``PeerLost``."""
    pieces = b""
    while len(pieces) < WHOLE_ANSWER_BYTES_MAX and (piece := await connection.chunk(is_live)):
        pieces += piece
    return pieces


def _is_draining(body: bytes) -> bool:
    try:
        problem = json.loads(body)
    except ValueError:
        return False
    return isinstance(problem, dict) and problem.get("error_code") == ErrorCode.DRAINING


def _request_head(scope: Scope, peer: Peer, own_id: str, body_bytes: int) -> bytes:
    target: bytes = scope["raw_path"]
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    headers: Headers = [
        (b"host", peer.url.partition("://")[2].encode("ascii")),
        *request_headers(scope["headers"]),
        (b"x-request-id", scope["tidelog.request_id"].encode("ascii")),
        (FORWARDED, b",".join(filter(None, (_header(scope, FORWARDED), own_id.encode("ascii"))))),
    ]
    if body_bytes or scope["method"] in ("POST", "PUT", "PATCH"):
        headers.append((b"content-length", b"%d" % body_bytes))
    lines = [scope["method"].encode("ascii") + b" " + target + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _template(scope: Scope) -> str:
    """The path of the request's route, with its parameters' names."""
    template: str = getattr(scope.get("route"), "path_format", "")
    return template


def _group(scope: Scope) -> str:
    """The group that the path names."""
    name: str = scope["path_params"]["group"]
    return name.replace(ENCODED_SLASH, "/")


def _header(scope: Scope, wanted: bytes) -> bytes | None:
    for name, value in scope["headers"]:
        if name == wanted:
            found: bytes = value
            return found
    return None


def _announced_bytes(scope: Scope) -> int:
    text = _header(scope, b"content-length") or b""
    return int(text) if text.isdigit() and len(text) < 19 else 0
