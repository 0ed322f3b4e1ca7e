"""A peer that is heard of and listens: what answers for it is the test's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from gateway.cluster.heartbeat import Heartbeat
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.connections import PeerConnections

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening_peer(peers: Peers, connections: PeerConnections, serve: Serve) -> AsyncIterator[Peer]:
    """Gateway ``b``, as ``peers`` know it; at the end the connections to it are closed."""
    writers: list[asyncio.StreamWriter] = []

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await serve(reader, writer)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    beat = Heartbeat(
        id="b", instance="b1", beat=1, url=url, started_at=0, version="1", owned_topics=0, issued_at=0, hops=True
    )
    peers.take_in([beat])
    try:
        yield Peer("b", url, "b1")
    finally:
        connections.close()
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
