"""The process's server: uvicorn with the gateway's own protocol, signals and order of shutdown.

On SIGTERM or SIGINT readiness fails and new work gets 503 ``DRAINING``, while the socket still listens. The engine drains: waits
end, and buffered records are flushed and acknowledged. Requests in flight get their answers. Only then the socket is closed. A
second signal ends the process immediately.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from gateway.app import GatewayApplication
from gateway.gateway import Gateway
from gateway.network.certificate import LOOK_SECONDS
from gateway.network.client_addresses import ClientAddresses
from gateway.process.allocator import resident_bytes, trim
from gateway.process.connection_limits import ConnectionLimits
from gateway.process.connection_mover import ConnectionMover
from gateway.process.descriptors import accepted_max
from gateway.process.listener_config import listener_config
from gateway.process.movable_protocol import MovableProtocol
from gateway.process.operations_listener import OperationsListener, listening_url
from gateway.process.protocol import GatewayProtocol
from gateway.process.registry_listener import AtTheRoot, RegistryListener
from gateway.process.tls_protocol import TlsProtocol
from gateway.process.worker import Worker
from gateway.settings.settings import Settings
from gateway.tasks.supervised import run_supervised
from gateway.telemetry.structured_log import WRITER
from gateway.telemetry.workers_page import WorkersPage

if TYPE_CHECKING:
    from gateway.kafka.listening.listener import KafkaListener

SWEEP_SECONDS = 1.0
DATE_SECONDS = 1.0
"""Largest age of an answer's ``Date``."""
GC_ALLOCATIONS = 100_000
"""New objects between two garbage collections. With Python's default of 700, every few requests would pay for a scan of all
other requests' objects. Each request has a hundred objects, and leaves no cycle."""
SWITCH_SECONDS = 0.001
"""Time that a thread waits for the interpreter's lock, held by a busy event loop: several times as long as a put."""
MEMORY_SHORT_MS = 500
"""Wait for an answer's memory above which slow clients, rather than reads, are assumed to hold it."""
LAST_CONNECTIONS_SECONDS = 2
"""Time that connections have to end once all requests are answered."""
HAND_OVER_LOOK_SECONDS = 0.1
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BACKLOG = 1024

_log = logging.getLogger("gateway.process.server")


def make_connection_mover(gateway: Gateway, worker: Worker | None) -> ConnectionMover | None:
    """Return what moves connections to other workers of the port; None if there are none, or TLS ties connections to this
    process."""
    settings = gateway.settings
    if worker is None or gateway.certificate is not None:
        return None
    share = settings.connections_per_address_max or settings.connections_max
    return ConnectionMover(worker, min(settings.connections_max, share) // 2, gateway.metrics.registry)


def server_config(app: GatewayApplication, gateway: Gateway, moving: ConnectionMover | None = None) -> uvicorn.Config:
    """Return uvicorn's configuration for the gateway. ``moving``: moves connections to other workers, if there are any."""
    settings, limits = gateway.settings, _limits(gateway.settings)
    protocol: Callable[..., GatewayProtocol] = _protocol(gateway, limits)
    if moving is not None:
        protocol = functools.partial(MovableProtocol, limits=limits, hand_over=moving.hand_over)
    return listener_config(
        app,
        settings,
        host=settings.host,
        port=settings.port,
        http=protocol,
        lifespan="on",
        workers=1,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=LAST_CONNECTIONS_SECONDS,
    )


def _limits(settings: Settings) -> ConnectionLimits:
    share = settings.connections_per_address_max
    return ConnectionLimits(
        connections_max=settings.connections_max,
        accepted_max=accepted_max(settings.connections_max),
        addresses=ClientAddresses(
            share or max(1, settings.connections_max * 3 // 4), loopback_counts=share is not None
        ),
        head_ms=min(settings.head_ms, settings.header_idle_ms),
        idle_ms=settings.header_idle_ms,
        body_idle_ms=settings.body_idle_ms,
        write_stall_ms=settings.write_stall_ms,
    )


def _protocol(gateway: Gateway, limits: ConnectionLimits) -> Callable[..., GatewayProtocol]:
    if gateway.certificate is None:
        return functools.partial(GatewayProtocol, limits=limits)
    return functools.partial(TlsProtocol, limits=limits, certificate=gateway.certificate)


class GatewayServer(uvicorn.Server):
    """Server of the gateway's application, and of the operators' part on the operations listener if there is one.

    ``announce`` gets the URL once the server listens, and that of the operations listener.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        gateway: Gateway,
        announce: Callable[[str, str | None], None],
        *,
        worker: Worker | None = None,
        moving: ConnectionMover | None = None,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        """Create the server. ``worker``: what the supervisor handed over; None: there is no supervisor."""
        super().__init__(config)
        self._worker = worker
        self._moving = moving
        port = gateway.settings.operations_port
        assert isinstance(config.app, GatewayApplication)
        if worker is not None:
            config.app.state.workers_page = WorkersPage(worker.page_url)
        self._operations = None if port is None else OperationsListener(config.app.operations, gateway.settings, port)
        self._kafka = _kafka_listener(gateway, worker)
        self._registry = self._registry_listener(gateway)
        self.drained_whole = True
        self._told_to_stop = False
        self._ended = asyncio.Event()
        self._gateway = gateway
        self._announce = announce
        self._sweep_seconds = sweep_seconds
        self._trim_above_bytes = gateway.settings.process_bytes() * 2 // 3
        self._background: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the engine, listen, and announce the URLs."""
        operations_url = None
        if self._operations is not None:
            try:
                operations_url = await self._operations.bind()
            except OSError as error:
                _log.error(
                    "the operations listener can't be had: %s. --ops-port names another port, 0 any that is free",
                    error.strerror,
                )
                sys.exit(STARTUP_FAILURE)
        if self._kafka is not None:
            try:
                await self._kafka.bind(is_shared=self._worker is not None)
            except OSError as error:
                _log.error(
                    "the listener for Kafka's clients can't be had: %s. --kafka-listen HOST:PORT names another port",
                    error.strerror,
                )
                sys.exit(STARTUP_FAILURE)
        if self._registry is not None:
            try:
                bound = await self._registry.bind(is_shared=self._worker is not None)
            except OSError as error:
                _log.error(
                    "the listener for the schema registry can't be had: %s. --registry HOST:PORT names another port",
                    error.strerror,
                )
                sys.exit(STARTUP_FAILURE)
            _log.info("the schema registry is at %s", listening_url(bound, self._gateway.settings.scheme))
        try:
            await super().startup(sockets)
        except SystemExit:  # uvicorn has said why
            _log.error("the gateway's own address (host, port) can't be had: --port names another, 0 any that is free")
            raise
        if self._operations is not None:
            await self._operations.serve()
        if self._kafka is not None:
            await self._kafka.serve()
        if self._registry is not None:
            await self._registry.serve()
        url = listening_url(self.servers[0], self._gateway.settings.scheme)
        kafka = None if self._kafka is None else str(self._kafka.advertised)
        if kafka is not None:
            _log.info("Kafka's clients reach this gateway at %s", kafka)
        self._gateway.membership.start(self._reached_at(url), kafka)
        if self._moving is not None:
            self._moving.begin(self._reached_at(url), self._protocol, lambda: len(self.server_state.connections))
        self._keep(run_supervised(self._sweep, "the sweep of connections"))
        self._keep(run_supervised(functools.partial(_look_at_files, self._gateway), "the look at the certificates"))
        # Objects made by start-up stay: full collections need not scan them.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_ALLOCATIONS)
        sys.setswitchinterval(SWITCH_SECONDS)
        if self._worker is None:
            self._announce(url, operations_url)
        else:
            asyncio.get_running_loop().add_reader(self._worker.life, self._on_orphaned)
            self._worker.tell_ready(operations_url)

    async def main_loop(self) -> None:
        """Renew the date of both listeners' answers each second, until shutdown. uvicorn's own loop checks for shutdown every
        0.1 s."""
        while not await self.on_tick(0):
            if self._operations is not None:
                self._operations.state.default_headers = self.server_state.default_headers
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), DATE_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, the operations listener last: until then it reports that the gateway is shutting down."""
        if self._kafka is not None:
            await self._kafka.close()
        if self._registry is not None:
            self._registry.stop_listening()
        await super().shutdown(sockets)
        if self._operations is not None:
            self._operations.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle the signals while serving."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        if self._worker is not None:
            loop.add_signal_handler(signal.SIGUSR1, lambda: self._keep(self._hand_over()))
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self._told_to_stop:
            _log.warning("second signal: ending at once")
            WRITER.flush(0.5)
            os._exit(1)
        self._told_to_stop = True
        self._stop_moving()
        self._gateway.engine.refuse_work()
        self._keep(self._drain())

    def _on_orphaned(self) -> None:
        assert self._worker is not None
        asyncio.get_running_loop().remove_reader(self._worker.life)
        _log.warning("the supervisor is gone")
        if not self._told_to_stop:
            self._on_signal()

    def _stop_moving(self) -> None:
        if self._moving is not None:
            self._moving.end()

    def _registry_listener(self, gateway: Gateway) -> RegistryListener | None:
        """Return the listener for the schema registry, if there is one; of several workers the first has it."""
        address = gateway.settings.registry
        if address is None or (self._worker is not None and self._worker.number > 0):
            return None
        app = self.config.app
        assert isinstance(app, GatewayApplication)
        protocol = _protocol(gateway, _limits(gateway.settings))
        config = listener_config(AtTheRoot(app), gateway.settings, http=protocol, lifespan="off")
        config.load()
        return RegistryListener(
            address,
            lambda: protocol(config=config, server_state=self.server_state, app_state=self.lifespan.state),
        )

    def _protocol(self) -> MovableProtocol:
        """Return the protocol for a connection that another worker hands over."""
        protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        assert isinstance(protocol, MovableProtocol)
        return protocol

    def _reached_at(self, url: str) -> str:
        """Return the URL at which other gateways reach this one. ``url``: the address at which it listens for clients."""
        settings = self._gateway.settings
        if self._worker is None:
            return settings.advertised_url or url
        own = listening_url(self.servers[1], settings.scheme)
        if settings.advertised_url is None:
            return own
        return urlsplit(settings.advertised_url)._replace(netloc=_with_port(settings.advertised_url, own)).geturl()

    async def _hand_over(self) -> None:
        """Leave the connections to the successor, which already listens: no request is refused for that."""
        _log.info("handing over")
        self._stop_moving()
        self.servers[0].close()
        if self._kafka is not None:
            self._kafka.stop_listening()
        if self._registry is not None:
            self._registry.stop_listening()
        self._part_with_connections()
        until = time.monotonic() + self._gateway.settings.header_idle_ms / 1000
        while self.server_state.connections and time.monotonic() < until:  # noqa: ASYNC110 - uvicorn tells no end
            await asyncio.sleep(HAND_OVER_LOOK_SECONDS)
        if not self._told_to_stop:
            self._on_signal()

    def _part_with_connections(self) -> None:
        """Every answer is its connection's last from here on: behind one address the next one leads to another gateway."""
        close = (b"connection", b"close")
        self.config.encoded_headers.append(close)
        self.server_state.default_headers = [*self.server_state.default_headers, close]

    async def _drain(self) -> None:
        settings = self._gateway.settings
        loop = asyncio.get_running_loop()
        begun = loop.time()
        _log.info("draining")
        self._part_with_connections()
        try:
            async with asyncio.timeout(settings.drain_timeout_ms / 1000):
                # From now on other gateways must not send requests here.
                await asyncio.gather(self._gateway.membership.leave(), self._gateway.engine.drain())
                while self.server_state.tasks:
                    await asyncio.wait(set(self.server_state.tasks))
        except TimeoutError:
            self.drained_whole = False
            _log.error(
                "draining took longer than %d ms; what was not acknowledged may be lost", settings.drain_timeout_ms
            )
        except Exception as error:  # noqa: BLE001 - top level of the process, which must end anyway
            self.drained_whole = False
            _log.error("draining failed", exc_info=error)
        # The lifespan's end must not wait a second time for what could not be drained.
        self.force_exit = not self.drained_whole
        await asyncio.sleep(max(0.0, begun + settings.drain_notice_ms / 1000 - loop.time()))
        self.should_exit = True
        self._ended.set()

    async def _sweep(self) -> None:
        await asyncio.sleep(self._sweep_seconds)
        now_ms = time.monotonic_ns() // 1_000_000
        connections = list(self.server_state.connections)
        self._gateway.metrics.connections.set(len(connections))
        lane = self._gateway.lane
        budgets = [self._gateway.answer_memory, *([] if lane is None else [lane.memory])]
        is_memory_short = max(budget.longest_wait_ms() for budget in budgets) >= MEMORY_SHORT_MS
        for connection in connections:
            if isinstance(connection, GatewayProtocol):
                connection.sweep(now_ms, is_memory_short=is_memory_short)
        if self._operations is not None:
            self._operations.sweep(now_ms)
        if self._kafka is not None:
            self._kafka.sweep()
        if resident_bytes() > self._trim_above_bytes:
            await asyncio.to_thread(trim)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _kafka_listener(gateway: Gateway, worker: Worker | None) -> KafkaListener | None:
    if gateway.settings.kafka_listen is None:
        return None
    # Imported here, since kio and aiokafka take memory, and come with an extra.
    from gateway.kafka.listening.listener import KafkaListener  # noqa: PLC0415

    return KafkaListener(gateway, number=0 if worker is None else worker.number)


def _with_port(advertised_url: str, own_url: str) -> str:
    """Return the host of one URL with the port of the other."""
    host = urlsplit(advertised_url).hostname or ""
    return f"[{host}]:{urlsplit(own_url).port}" if ":" in host else f"{host}:{urlsplit(own_url).port}"


async def _look_at_files(gateway: Gateway) -> None:
    await asyncio.sleep(LOOK_SECONDS)
    if gateway.certificate is not None:
        await asyncio.to_thread(gateway.certificate.look)
    if gateway.peer_trust.context is not None:
        await asyncio.to_thread(gateway.peer_trust.look)
