"""Gateways that pass requests on to each other: the real forwarding, over connections that break as the clients' do.

``Members`` tells each gateway which others it believes alive. What a real gateway learns late, by heartbeats, it learns at once
here, or is wrong about until a connection is refused.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.cluster.keys import ClusterKeys
from gateway.cluster.ownership import Mode, Ownership
from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.connections import PeerAnswerLost, PeerUnreachable
from gateway.network.certificate import PeerTrust
from log_format.clock import Clock
from tests.simulation.simulated.faults import Faults
from tests.simulation.simulated.scheduler import Scheduler

if TYPE_CHECKING:
    from tests.simulation.simulated_service.service import Exchange, HttpAnswer, HttpRequest, Service

GoesOn = Callable[[], Awaitable[bool]]
LOOK_MS = 1_000


@dataclass(slots=True, kw_only=True)
class Cluster:
    """All gateways of a history, by URL, and what lies between them."""

    scheduler: Scheduler
    rng: random.Random
    faults: Faults
    mode: Mode
    """Of forwarding: ``off``, ``preferred``, ``random``."""
    services: dict[str, Service] = field(default_factory=dict)
    forwarded: int = 0

    def url(self, name: str) -> str:
        """Where a gateway is reached."""
        return f"http://{name}"


class Members(Peers):
    """What one gateway believes of the others."""

    def __init__(self, cluster: Cluster, own_name: str, clock: Clock) -> None:
        super().__init__(clock)
        self.keys = ClusterKeys("simulated", (b"k" * 32,))
        self._cluster = cluster
        self._own_name = own_name

    @property
    def count(self) -> int:
        """Of ``candidates``."""
        return len(self.candidates())

    def candidates(self) -> dict[str, Peer]:
        """The others, also some that have crashed."""
        others = [one for one in self._cluster.services.values() if one.machine.name != self._own_name]
        return {
            one.machine.name: Peer(one.machine.name, self._cluster.url(one.machine.name), one.hops.instance)
            for one in others
        }

    def is_live(self, gateway_id: str) -> bool:
        """Whether it has not crashed."""
        return self._cluster.services[self._cluster.url(gateway_id)].machine.alive

    def rest(self, gateway_id: str) -> None:
        """One that could not be reached is asked again all the same."""


def alone(name: str, clock: Clock) -> Ownership:
    """Of a gateway that knows no other: it owns everything."""
    return Ownership(name, Peers(clock), "preferred")


def owners_of(cluster: Cluster, name: str, clock: Clock, chance: random.Random) -> Ownership:
    """As a gateway of the cluster sees it."""
    return Ownership(name, Members(cluster, name, clock), cluster.mode, choose=chance.choice)


class Connection:
    """One exchange with another gateway (``PeerConnection``)."""

    def __init__(self, cluster: Cluster, caller: Service, peer: Service) -> None:
        self._cluster = cluster
        self._caller = caller
        self._peer = peer
        self._answered = asyncio.Event()
        self._answer: HttpAnswer | None = None
        self._exchange: Exchange | None = None
        self._is_read = self._is_closed = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []

    def begin(self, request: bytes, body: bytes) -> None:
        """Send a whole request, which may never arrive."""
        faults, rng = self._cluster.faults, self._cluster.rng
        share = faults.profile.fault / 4 if faults.active else 0.0
        never_arrives, answer_is_lost = rng.random() < share, rng.random() < share
        sent = _decoded(request, body)

        def arrive() -> None:
            if self._peer.machine.alive and not never_arrives:
                self._exchange = self._peer.arrive(sent, leave)
                if self._is_closed:
                    self._exchange.hang_up()
            else:
                self._receive(None)

        def leave(answer: HttpAnswer) -> None:
            found = None if answer_is_lost else answer
            self._cluster.scheduler.at(faults.travel_ms(), lambda: self._receive(found))

        self._cluster.scheduler.at(faults.travel_ms(), arrive)

    async def read_head(self, goes_on: GoesOn) -> None:
        """Wait for ``status`` and ``headers``. Raises ``PeerAnswerLost``."""
        while not self._answered.is_set():
            try:
                async with asyncio.timeout(LOOK_MS / 1000):
                    await self._answered.wait()
            except TimeoutError:
                if not await goes_on():
                    raise PeerAnswerLost("it crashed") from None
        if self._answer is None:
            raise PeerAnswerLost("the connection broke")
        self.status = self._answer.status
        self.headers = [(name.encode(), value.encode()) for name, value in self._answer.headers.items()]

    async def read_chunk(self, _goes_on: GoesOn) -> bytes:
        """The body, and then nothing."""
        assert self._answer is not None
        if self._is_read:
            return b""
        self._is_read = True
        return self._answer.body

    def close(self) -> None:
        """The peer sees its client go away, behind the request."""
        self._is_closed = True
        if self._exchange is not None and not self._is_read:
            self._exchange.hang_up()

    def _receive(self, answer: HttpAnswer | None) -> None:
        self._answer = answer
        if self._caller.machine.alive:
            self._caller.loop.call_soon_threadsafe(self._answered.set)


class Connections:
    """Of one gateway to all others (``PeerConnections``)."""

    def __init__(self, cluster: Cluster, caller: Service) -> None:
        self.trust = PeerTrust()
        self._cluster = cluster
        self._caller = caller

    def silent_ms(self, _url: str) -> int:
        """None is silent: what a crash leaves is found out by asking."""
        return 0

    async def take(self, url: str, *, is_probe: bool = False) -> Connection:
        """Raises ``PeerUnreachable``."""
        del is_probe
        peer = self._cluster.services[url]
        if not peer.machine.alive:
            raise PeerUnreachable(url)
        self._cluster.forwarded += 1
        return Connection(self._cluster, self._caller, peer)

    def give_back(self, _url: str, connection: Connection) -> None:
        """The exchange is over, or given up."""
        connection.close()

    def sweep(self) -> None:
        """None is kept."""

    def close(self) -> None:
        """None is kept."""


def _decoded(request: bytes, body: bytes) -> HttpRequest:
    from tests.simulation.simulated_service.service import HttpRequest

    first, *lines = request.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines) if name]
    own = ("host", "content-length")
    return HttpRequest(
        method=method, path=path, headers=tuple(pair for pair in headers if pair[0] not in own), body=body
    )
