"""What is said of a request that was passed on, got no answer, and was then tried here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from gateway.access.rights import OPEN
from gateway.cluster.keys import ClusterKeys
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peer, Peers
from gateway.engine.open_topics import OpenTopics
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerConnections
from gateway.forwarding.forwarder import Forwarder, _Outcome
from gateway.forwarding.hop import Hops
from gateway.memory_budget import MemoryBudget
from log_format.clock import SystemClock
from log_format.errors import BackOff, OutcomeUnknown, TidelogError, UnknownTopic
from tests.support.awaited import Sent


class LivePeers(Peers):
    """Alive, all of them."""

    def is_live(self, gateway_id: str) -> bool:
        return True


def _forwarding() -> Forwarder:
    clock, topics = SystemClock(), cast("OpenTopics", None)
    peers = LivePeers(clock)
    peers.keys = ClusterKeys("c", (b"k" * 32,))
    connections = PeerConnections(5)

    async def store_answers() -> None:
        return

    return Forwarder(
        Ownership("a", peers, "preferred"),
        connections,
        Breaker(peers, connections, clock),
        topics,
        Hops(peers, clock, instance="a1"),
        store_answers=store_answers,
        rights=OPEN,
        request_bytes_max=1_000,
        request_memory=MemoryBudget(1_000, "tests"),
        clock=clock,
        registry=CollectorRegistry(),
    )


def _asked(monkeypatch: pytest.MonkeyPatch, outcome: _Outcome, refusal: TidelogError | None, method: str) -> None:
    """Handle a request whose peer gave ``outcome``, and which is refused here."""

    async def scenario() -> None:
        absent: Any = None
        forwarding = _forwarding()

        async def peer(*_: Any) -> Any:
            return Peer("b", "http://b", "b1")

        async def passed_on(*_: Any) -> _Outcome:
            return outcome

        async def app(*_: Any) -> None:
            if refusal is not None:
                raise refusal

        monkeypatch.setattr(forwarding, "_peer_for", peer)
        monkeypatch.setattr(forwarding, "_passed_on", passed_on)
        await forwarding._here_or_there(app, {"type": "http", "method": method}, absent, absent)

    asyncio.run(scenario())


@pytest.mark.parametrize("refusal", [BackOff("the store is away"), UnknownTopic("t")])
def test_what_was_lost_on_the_way_may_have_happened(monkeypatch: pytest.MonkeyPatch, refusal: TidelogError) -> None:
    """The peer may have done it, whatever the refusal here: no client is told that nothing happened (G8)."""
    with pytest.raises(OutcomeUnknown):
        _asked(monkeypatch, _Outcome.LOST, refusal, "POST")


def test_what_is_known_not_to_have_happened_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a request that did not reach the peer, and of one that changes nothing, the refusal here is the answer."""
    with pytest.raises(BackOff):
        _asked(monkeypatch, _Outcome.UNTOUCHED, BackOff("the store is away"), "POST")
    with pytest.raises(UnknownTopic):
        _asked(monkeypatch, _Outcome.LOST, UnknownTopic("t"), "GET")
    _asked(monkeypatch, _Outcome.LOST, None, "POST")


async def _pass_on(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    app: Any,
    method: str,
    headers: Sequence[tuple[bytes, bytes]],
    sent: Sent,
) -> None:
    """Pass a request without a body on to a peer that answers so; what the client gets is added to ``sent``."""
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    forwarding = _forwarding()
    forwarding._connections._hear(url)
    bodies = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def peer(_: Any) -> Any:
        return Peer("b", url, "b1")

    async def receive() -> Any:
        message = next(bodies, None)
        return message if message is not None else await asyncio.Event().wait()

    forwarding._peer_for = peer  # type: ignore[assignment,method-assign]
    scope = {"type": "http", "method": method, "raw_path": b"/v1/x", "query_string": b"", "headers": headers}
    try:
        await forwarding._here_or_there(app, {**scope, "tidelog.request_id": "r", "path": "/v1/x"}, receive, sent.add)
    finally:
        forwarding.close()
        server.close()


@pytest.mark.parametrize(("method", "may_repeat"), [("POST", False), ("GET", True)])
def test_an_answer_that_breaks_off_is_a_lost_one(method: str, may_repeat: bool) -> None:
    """A peer that dies between an acknowledgement's head and its body: nothing was sent on yet, so the client gets a whole
    answer, 504 or what was done here."""
    sent = Sent()
    served: list[str] = []

    async def breaks_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    async def app(*_: Any) -> None:
        served.append("here")

    passing_on = _pass_on(breaks_off, app, method, [], sent)
    if may_repeat:
        asyncio.run(passing_on)
    else:
        with pytest.raises(OutcomeUnknown):
            asyncio.run(passing_on)
    assert sent == []
    assert served == (["here"] if may_repeat else [])


def test_only_headers_of_the_contract_cross() -> None:
    """Credentials and whatever else a client sends stay here; what a peer says beyond the contract does not reach the client."""
    heads: list[bytes] = []
    sent = Sent()

    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\nTidelog-Next-Offset: 7\r\n"
            b"Retry-After: 1\r\nVary: Accept-Encoding\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\n"
            b"Location: http://evil\r\nDate: now\r\nX-Request-Id: theirs\r\n\r\n{}"
        )
        await writer.drain()
        writer.close()

    crossing = [(b"accept", b"*/*"), (b"content-type", b"application/json"), (b"content-encoding", b"gzip"),
                (b"tidelog-producer-id", b"p"), (b"tidelog-expected-offset", b"7")]  # fmt: skip
    staying = [(b"authorization", b"Bearer secret"), (b"cookie", b"secret"), (b"x-api-key", b"secret"),
               (b"proxy-authorization", b"secret"), (b"x-amz-security-token", b"secret"), (b"origin", b"http://x"),
               (b"forwarded", b"for=secret"), (b"expect", b"100-continue"), (b"connection", b"close"),
               (b"tidelog-hop", b"secret")]  # fmt: skip

    absent: Any = None
    asyncio.run(_pass_on(answers, absent, "GET", crossing + staying, sent))
    lines = dict(line.split(b": ", 1) for line in heads[0].split(b"\r\n")[1:-2])
    own = {b"host": lines[b"host"], b"x-request-id": b"r", b"tidelog-hop": lines[b"tidelog-hop"]}
    assert lines == dict(crossing) | own
    assert dict(sent[0]["headers"]) == {
        b"content-length": b"2", b"content-type": b"application/json", b"tidelog-next-offset": b"7", b"retry-after": b"1",
        b"vary": b"Accept-Encoding",
    }  # fmt: skip
