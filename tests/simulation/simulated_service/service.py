"""A whole gateway on a simulated machine: the real ASGI application and engine, from its start to its crash.

Requests come in by ``arrive``, as a server would hand them over, and leave by ``on_answer``. Only what touches the real world is
replaced: the store, the clock, the loop, the threads, ids and chance.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from gateway.app import GatewayApplication, create_app
from gateway.cluster.ownership import Ownership
from gateway.engine.bounds import EngineBounds
from gateway.engine_parts import EngineParts, EngineSettings
from gateway.forwarding.breaker import Breaker
from gateway.forwarding.connections import PeerConnections
from gateway.forwarding.hop import Hops
from gateway.groups.bounds import GroupBounds
from gateway.kafka.listening.listener import KafkaListener
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from gateway.process.assembly import GatewayParts, assemble_from_parts
from gateway.queues.bounds import QueueBounds
from gateway.settings.settings import Settings
from gateway.telemetry.metrics import Metrics
from log_format.ids import NewId
from log_format.store import ObjectStore
from tests.simulation.simulated.faults import SECOND_MS
from tests.simulation.simulated.scheduler import Machine, MachineClock, Scheduler
from tests.simulation.simulated.store import Client
from tests.simulation.simulated_service.event_loop import SimulatedExecutor, SimulatedLoop
from tests.simulation.simulated_service.peers import Cluster, Connections, alone, owners_of

_Message = MutableMapping[str, Any]

EVENTFUL: Final = EngineBounds(
    checkpoint_interval_min=3, checkpoint_interval_max=5, table_files_min=10, due_notices_max=3
)
EVENTFUL_GROUPS: Final = GroupBounds(compaction_ms=5 * SECOND_MS)
EVENTFUL_QUEUES: Final = QueueBounds(compaction_ms=5 * SECOND_MS)
"""Bounds that a history of a minute meets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code under test. Planted faults replace it, by ``module.attribute``."""

    planted: tuple[tuple[str, Any], ...] = ()

    def patches(self) -> list[Any]:
        """What to enter around a whole history."""
        return [mock.patch(target, replacement) for target, replacement in self.planted]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(slots=True)
class HttpAnswer:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class Exchange:
    """A request that has arrived."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.gone = asyncio.Event()
        self._loop = loop

    def hang_up(self) -> None:
        """Tell the application that the client is gone; one that stands still hears it behind the request."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.gone.set)


class Service:
    """One gateway process. ``with_groups``, ``with_queues``, ``with_publishing`` (of delayed records): also its work beside
    requests, which never comes to rest. ``with_kafka``: ``connect`` takes connections by Kafka's protocol.

    ``bootstrap_file``: with it rights are enforced, and the token in it has all; the watch of
    rights never comes to rest.

    ``cluster``: with it, it passes requests on to others; and at its start it looks after transactions, once. ``ownership``: what
    it believes to own, without ``cluster``; else everything.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        client: Client,
        machine: Machine,
        *,
        new_id: NewId,
        chance: random.Random,
        bounds: EngineBounds = EVENTFUL,
        group_bounds: GroupBounds = EVENTFUL_GROUPS,
        with_groups: bool = False,
        with_queues: bool = False,
        with_publishing: bool = False,
        with_kafka: bool = False,
        cluster: Cluster | None = None,
        ownership: Ownership | None = None,
        bootstrap_file: str | None = None,
    ) -> None:
        self.machine, self._cluster = machine, cluster
        self._with_groups, self._with_queues, self._with_publishing = with_groups, with_queues, with_publishing
        self.loop = SimulatedLoop(scheduler)
        self._scheduler = scheduler
        self._ready = False
        self._waiting: list[Callable[[], None]] = []
        clock = MachineClock(scheduler, machine)

        def make_executor(_threads: int, name: str) -> SimulatedExecutor:
            return SimulatedExecutor(scheduler, machine, name)

        self.loop.use_threads(make_executor(1, "threads"))
        settings = _settings(client.uri, machine.name, with_kafka=with_kafka, bootstrap_file=bootstrap_file)
        metrics, super_users = Metrics(), None if bootstrap_file is None else ()
        request_memory = MemoryBudget(settings.in_flight_bytes_max, "request bodies")
        ownership, connections = self._among(cluster, ownership or alone(machine.name, clock), clock, chance)
        self.hops = Hops(ownership.peers, clock, instance=new_id())
        self.engine = LogEngine(
            EngineParts(
                store=_as_store(client),
                cold_store=_as_store(client),
                ownership=ownership,
                clock=clock,
                registry=metrics.registry,
                request_memory=request_memory,
                new_id=new_id,
                jitter=chance.random,
                make_executor=make_executor,
            ),
            EngineSettings(bounds=bounds, groups=group_bounds, queues=EVENTFUL_QUEUES, super_users=super_users),
        )
        parts = GatewayParts(
            store=_as_store(client),
            engine=self.engine,
            ownership=ownership,
            connections=connections,
            breaker=Breaker(ownership.peers, connections, clock),
            hops=self.hops,
            clock=clock,
            metrics=metrics,
            request_memory=request_memory,
            codec_pool=make_executor(settings.codec_threads, "codec"),
            compression_pool=make_executor(1, "compression"),
        )
        whole = assemble_from_parts(settings, parts)
        self.app: GatewayApplication = create_app(whole)
        self.kafka = KafkaListener(whole) if with_kafka else None
        scheduler.start(f"{machine.name} loop", machine, self.loop.live)
        self.loop.call_soon_threadsafe(self._start)

    def _among(
        self, cluster: Cluster | None, ownership: Ownership, clock: MachineClock, chance: random.Random
    ) -> tuple[Ownership, Any]:
        """What it believes to own, and its connections to others."""
        if cluster is None:
            return ownership, PeerConnections(1)
        if cluster.mode != "off":
            cluster.services[cluster.url(self.machine.name)] = self
        return owners_of(cluster, self.machine.name, clock, chance), Connections(cluster, self)

    def _start(self) -> None:
        async def start() -> None:
            await self.engine.warm_up()
            if self.engine.rights.enforced:
                await self.engine.access_watch.start()
            if self._cluster is not None:
                self._sweeping = self.loop.create_task(self.engine.sweeping.sweep_once(left_alone_ms=0))
                self._sweeping.add_done_callback(_seen)
            if self._with_groups:
                self.engine.groups.start()
            if self._with_queues:
                self.engine.queues.start()
            if self._with_publishing:
                self.engine.delayed.publishing.start()
            self._ready = True
            for begin in self._waiting:
                begin()
            self._waiting.clear()

        self._starting = self.loop.create_task(start())

    def sweep(self) -> None:
        """Look after transactions that another gateway left behind."""

        def begin() -> None:
            self._sweeping = self.loop.create_task(self.engine.sweeping.sweep_once(left_alone_ms=0))
            self._sweeping.add_done_callback(_seen)

        self.loop.call_soon_threadsafe(begin)

    def do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have its loop do this, as work beside requests. What it raises is lost."""

        def begin() -> None:
            if self._ready:
                self.loop.create_task(work()).add_done_callback(_seen)

        if self.machine.alive:
            self.loop.call_soon_threadsafe(begin)

    def crash(self) -> None:
        """End it where it stands."""
        self._scheduler.crash(self.machine)

    def arrive(self, request: HttpRequest, on_answer: Callable[[HttpAnswer], None]) -> Exchange:
        """Hand a request over. ``on_answer`` is called when the whole answer has left, if ever."""
        exchange = Exchange(self.loop)

        def begin() -> None:
            if self._ready:
                self.loop.create_task(self._serve(request, exchange, on_answer)).add_done_callback(_seen)
            else:
                self._waiting.append(begin)

        self.loop.call_soon_threadsafe(begin)
        return exchange

    def connect(self, transport: asyncio.Transport) -> None:
        """A connection by Kafka's protocol stands; its bytes come behind this by the loop's ``call_soon_threadsafe``."""

        def begin() -> None:
            assert self.kafka is not None
            if self._ready:
                self.kafka.protocol().connection_made(transport)
            else:
                transport.abort()  # it does not listen yet

        self.loop.call_soon_threadsafe(begin)

    async def _serve(self, request: HttpRequest, exchange: Exchange, on_answer: Callable[[HttpAnswer], None]) -> None:
        answer = HttpAnswer(0, {}, b"")
        body = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def receive() -> _Message:
            if body:
                return body.pop()
            await exchange.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: _Message) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            elif message["type"] == "http.response.body":
                answer.body += bytes(message.get("body", b""))
                if not message.get("more_body", False):
                    on_answer(answer)

        await self._call_app(request, receive, send)

    async def _call_app(
        self,
        request: HttpRequest,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        path, _, query = request.path.partition("?")
        headers = [(b"host", b"gateway"), (b"content-length", str(len(request.body)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in request.headers]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
            "root_path": "",
            "state": {},
        }
        await self.app(scope, receive, send)


def _settings(store: str, gateway_id: str, *, with_kafka: bool, bootstrap_file: str | None) -> Settings:
    return Settings(
        store=store,
        gateway_id=gateway_id,
        log_level="error",
        kafka_listen="127.0.0.1:9092" if with_kafka else None,
        auth="off" if bootstrap_file is None else "on",
        bootstrap_token_file=bootstrap_file,
        audit="off",
    )


def _seen(task: Any) -> None:
    if not task.cancelled():
        task.exception()


def _as_store(client: Client) -> ObjectStore:
    return client
