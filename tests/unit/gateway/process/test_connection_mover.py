"""Connections between the workers of one port: each is in one hand at any time, and a worker without room gives them back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from gateway.process.connection_mover import ConnectionMover
from gateway.process.worker import Worker

ROOM = 2
PORTS = (9001, 9002)
URLS = tuple(f"http://127.0.0.1:{port}" for port in PORTS)


class Client(asyncio.Protocol):
    """A connection's protocol: it answers with its worker's number."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.may_move: bool | None = None
        self.transport: asyncio.Transport | None = None

    def came(self, *, may_move: bool) -> None:
        self.may_move = may_move

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data + b" at %d" % self.worker)


class Site:
    """Two workers in one event loop, each with the protocols of the connections that it took in."""

    def __init__(self) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in PORTS]
        self.sockets = [one for pair in pairs for one in pair]
        for one in self.sockets:
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # a few messages
        self.taken: list[list[Client]] = [[], []]
        outboxes = tuple(pair[1] for pair in pairs)
        self.workers = [
            ConnectionMover(self._worker(number, pairs[number][0], outboxes), ROOM, CollectorRegistry())
            for number in range(2)
        ]

    def begin(self, number: int) -> None:
        def receiving() -> Any:
            self.taken[number].append(Client(number))
            return self.taken[number][-1]

        self.workers[number].begin(URLS[number], receiving, lambda: len(self.taken[number]))

    def _worker(self, number: int, inbox: socket.socket, outboxes: tuple[socket.socket, ...]) -> Worker:
        return Worker(
            number=number,
            shared=inbox,
            own=inbox,
            ready=-1,
            life=-1,
            page_url="",
            ports=PORTS,
            inbox=inbox,
            outboxes=outboxes,
        )


@pytest.fixture
def site() -> Iterator[Site]:
    """Whose sockets end with the test."""
    made = Site()
    with contextlib.ExitStack() as stack:
        for one in made.sockets:
            stack.enter_context(one)
        yield made


async def asked(client: socket.socket, what: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, what)
    return await asyncio.wait_for(loop.sock_recv(client, 100), 10)


def connection() -> tuple[socket.socket, socket.socket]:
    """A client's end, and the worker's."""
    client, served = socket.socketpair()
    client.setblocking(False)
    return client, served


async def end(site: Site, *clients: socket.socket) -> None:
    """Of all clients, and then of the workers."""
    for client in clients:
        client.close()
    async with asyncio.timeout(10):
        while any(one.transport is not None for taken in site.taken for one in taken):  # noqa: ASYNC110 - a transport tells no end
            await asyncio.sleep(0.01)
    for worker in site.workers:
        worker.end()


async def hand_over(site: Site, served: socket.socket) -> bool:
    with served:
        return site.workers[0].hand_over(URLS[1], served.fileno())


async def test_the_other_worker_answers_on_the_same_connection(site: Site) -> None:
    """Also what the client sent before the other one looked; the first one has let go of it by then."""
    site.begin(0)
    site.begin(1)
    client, served = connection()
    with client:
        await asyncio.get_running_loop().sock_sendall(client, b"early")
        assert await hand_over(site, served)
        assert await asked(client, b"") == b"early at 1"
        assert await asked(client, b"again") == b"again at 1"
        assert site.taken[1][0].may_move
        # The other end closes when the one process that has it closes.
        transport = site.taken[1][0].transport
        assert transport is not None
        transport.close()
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 100), 10) == b""
    await end(site)


async def test_a_worker_without_room_gives_them_back(site: Site) -> None:
    """They are served where they were, and stay there."""
    site.begin(0)
    site.begin(1)
    clients = []
    for number in range(ROOM + 2):
        client, served = connection()
        clients.append(client)
        assert await hand_over(site, served)
        expected = 1 if number < ROOM else 0
        assert await asked(client, b"x") == b"x at %d" % expected
    assert [protocol.may_move for protocol in site.taken[0]] == [False, False]
    await end(site, *clients)


async def test_a_connection_waits_for_the_successor(site: Site) -> None:
    """One that is under way while no process of the place looks; beyond what the place's socket holds they stay."""
    site.begin(0)
    clients, stayed = [], 0
    for _ in range(100):
        client, served = connection()
        with served:
            if site.workers[0].hand_over(URLS[1], served.fileno()):
                clients.append(client)
            else:
                stayed += 1
                client.close()
    assert clients
    assert stayed
    site.begin(1)
    for client in clients[:ROOM]:
        assert await asked(client, b"x") == b"x at 1"
    for client in clients[ROOM:]:
        assert await asked(client, b"x") == b"x at 0"
    await end(site, *clients)


async def test_it_moves_nothing_elsewhere(site: Site) -> None:
    """Not to a gateway of another machine, not to itself, and not once it ends."""
    site.begin(0)
    reading, writing = os.pipe()
    try:
        assert not site.workers[0].hand_over("http://10.0.0.7:9002", reading)
        assert not site.workers[0].hand_over(URLS[0], reading)
        site.workers[0].end()
        site.workers[0].end()
        assert not site.workers[0].hand_over(URLS[1], reading)
    finally:
        os.close(reading)
        os.close(writing)
