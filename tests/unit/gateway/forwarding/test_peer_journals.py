"""What gateways send each other about a journal, counted.

An offer is one request, and a gateway that waits for an answer gets no news.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.cluster.keys import ClusterKeys
from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerConnections
from gateway.forwarding.hop import Hops
from gateway.forwarding.peer_journals import PeerJournals
from log_format.clock import SystemClock
from log_format.cluster.preferred import preferred_gateway
from log_format.journal.offer import Offer
from tests.support.listening_peer import listening_peer

NONE = b"HTTP/1.1 204 No Content\r\n\r\n"
OFFER = Offer(
    path="segments/x.parquet", size_bytes=1, footer_start=0, footer_crc32=0, record_count=1, offered_at=0,
    staged_at_ms=0, topics=(),
)  # fmt: skip
JOURNAL = next(number for number in range(16) if preferred_gateway(f"journals/{number}", ["a", "b"]) == "b")


class World:
    """Gateway ``a`` as tested, and ``b``, which answers everything with 204 and notes what it was asked."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.asked: list[str] = []
        self.came = asyncio.Event()
        self.peers = Peers(clock)
        self.peers.keys = ClusterKeys("cluster", (b"n" * 32,), is_from_file=True)
        self.connections = PeerConnections(2)
        breaker, hops = Breaker(self.peers, self.connections, clock), Hops(self.peers, clock, instance="a1")
        self.peering = PeerJournals(Ownership("a", self.peers, "preferred"), self.connections, breaker, hops)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                sizes = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                await reader.readexactly(sum(int(line.split(b":")[1]) for line in sizes))
                self.asked.append(head.split()[1].decode())
                self.came.set()
                writer.write(NONE)
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with listening_peer(self.peers, self.connections, self.serve):
            yield
        await asyncio.sleep(0.05)


async def test_offers_that_follow_each_other_need_no_probe() -> None:
    """The first one is probed for. Between two flushes the owner is silent for longer than other requests would trust it."""
    world = World()
    async with world.running():
        for _ in range(3):
            assert await world.peering.offer(JOURNAL, OFFER) is None
            await asyncio.sleep(0.3)
    assert world.asked == ["/healthz"] + ["/gateways/journal-offers"] * 3


async def test_no_news_go_to_a_gateway_that_waits_for_its_answer() -> None:
    """That one looks by itself. Once it has its answer it hears of later commits."""
    world = World()
    async with world.running(), asyncio.timeout(10):
        with world.peering.answering_offer("b1"), world.peering.answering_offer("b1"):
            world.peering.announce(JOURNAL, 1)
        await asyncio.sleep(0.2)
        assert world.asked == []
        with world.peering.answering_offer("c1"):
            world.peering.announce(JOURNAL, 2)
        await world.came.wait()
        await asyncio.sleep(0.2)  # for its answer
    assert world.asked == ["/gateways/journal-news"]
