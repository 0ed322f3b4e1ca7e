"""When a peer is sent requests, and when the breaker opens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import LOOK_MS, PeerConnections
from log_format.clock import SystemClock
from tests.support.listening_peer import listening_peer

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"


class Gateway:
    """A peer: ``answers`` has an answer for each path; without one it says nothing. ``asked`` notes every request."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.peers = Peers(SystemClock())
        self.connections = PeerConnections(1)
        self.breaker = Breaker(self.peers, self.connections, SystemClock(), probe_ms_max=200, stall_ms_max=200)
        self.peer = Peer("b", "", "b1")

    @property
    def is_candidate(self) -> bool:
        return "b" in self.peers.candidates()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split()[1].decode()
                self.asked.append(path)
                if path in self.answers:
                    writer.write(self.answers[path])
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with listening_peer(self.peers, self.connections, self.serve) as self.peer:
            yield


async def quick() -> None:
    """This gateway's store."""


async def slow() -> None:
    """A store that is slow for this gateway, too."""
    await asyncio.sleep(10)


def returned_at_once(call: Coroutine[Any, Any, bool]) -> bool | None:
    """What the call returned; None if it waits for something."""
    try:
        call.send(None)
    except StopIteration as end:
        return bool(end.value)
    call.close()
    return None


async def test_requests_share_a_probe_and_those_that_follow_need_none() -> None:
    """A peer that was heard of just now is not probed."""
    gateway = Gateway({"/healthz": OK})
    async with gateway.running():
        assert all(await asyncio.gather(*(gateway.breaker.admits(gateway.peer) for _ in range(20))))
        assert await gateway.breaker.admits(gateway.peer)
        assert gateway.asked == ["/healthz"]


async def test_a_silent_peer_rests_and_is_asked_again_behind_the_requests() -> None:
    """Closed again only when it answers: no later request waits for a probe."""
    gateway = Gateway({})
    async with gateway.running():
        assert not await gateway.breaker.admits(gateway.peer)
        assert not gateway.is_candidate
        assert returned_at_once(gateway.breaker.admits(gateway.peer)) is False
        assert returned_at_once(gateway.breaker.is_alive(gateway.peer, LOOK_MS)) is False
        gateway.answers = {"/healthz": OK, "/readyz": OK}
        async with asyncio.timeout(5):
            while not await gateway.breaker.admits(gateway.peer):  # noqa: ASYNC110 - each asking starts a probe
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("ready", "own", "stalls"),
    [
        (b"", quick, True),
        (UNAVAILABLE, quick, True),
        (OK, quick, False),
        (b"", slow, False),
        (UNAVAILABLE, slow, False),
    ],
)
async def test_a_store_that_is_slow_for_the_peer_alone(
    ready: bytes, own: Callable[[], Awaitable[None]], stalls: bool
) -> None:
    """Not one that is slow for all: then no gateway would do better."""
    gateway = Gateway({"/healthz": OK} | ({"/readyz": ready} if ready else {}))
    async with gateway.running():
        assert await gateway.breaker.stalls(gateway.peer, own) is stalls
        assert gateway.is_candidate is not stalls
        # Waits for records go on, and so does everything where the store is slow for all.
        assert await gateway.breaker.is_alive(gateway.peer, LOOK_MS)
        assert await gateway.breaker.admits(gateway.peer) is not stalls


async def test_a_peer_whose_loop_turns_may_be_slow_with_its_probe() -> None:
    """Whatever comes from it on another connection is a sign of life."""
    gateway = Gateway({})
    async with gateway.running():
        probe = asyncio.ensure_future(gateway.breaker.admits(gateway.peer))
        await asyncio.sleep(0.1)
        gateway.connections._hear(gateway.peer.url)
        assert await probe
