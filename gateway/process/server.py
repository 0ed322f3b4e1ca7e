"""The process's server: uvicorn with the gateway's own protocol, signals and order of shutdown.

On SIGTERM or SIGINT readiness fails and new work gets 503 ``DRAINING``, while the socket still listens. The engine drains: waits
end, and buffered records are flushed and acknowledged. Requests under way get their answers. Only then the socket is closed. A
second signal ends the process at once.
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

import uvicorn
from uvicorn.config import STARTUP_FAILURE

from gateway.app import GatewayApplication
from gateway.certificate import LOOK_SECONDS, Certificate
from gateway.gateway import Gateway
from gateway.process.allocator import resident_bytes, trim
from gateway.process.connection_limits import ClientAddresses, ConnectionLimits
from gateway.process.descriptors import accepted_max
from gateway.process.listener_config import listener_config
from gateway.process.operations_listener import OperationsListener, listening_url
from gateway.process.protocol import GatewayProtocol
from gateway.process.tls_protocol import TlsProtocol
from gateway.structured_log import WRITER
from gateway.supervised import supervised

SWEEP_SECONDS = 1.0
MEMORY_SHORT_MS = 500
"""A longer wait for an answer's memory is a wait for slow clients, not for reads."""
LAST_CONNECTIONS_SECONDS = 2
"""How long connections may take to end once all requests are answered."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BACKLOG = 1024

_log = logging.getLogger("gateway.process.server")


def server_config(app: GatewayApplication, gateway: Gateway) -> uvicorn.Config:
    """uvicorn's configuration for the gateway."""
    settings, certificate = gateway.settings, gateway.certificate
    share = settings.connections_per_address_max
    limits = ConnectionLimits(
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
    protocol = (
        functools.partial(GatewayProtocol, limits=limits)
        if certificate is None
        else functools.partial(TlsProtocol, limits=limits, certificate=certificate)
    )
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


class GatewayServer(uvicorn.Server):
    """Serves the gateway's application, and the operators' part on the operations listener if there is one.

    ``announce`` gets the URL once it listens, and that of the operations listener.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        gateway: Gateway,
        announce: Callable[[str, str | None], None],
        *,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        super().__init__(config)
        port = gateway.settings.operations_port
        assert isinstance(config.app, GatewayApplication)
        self._operations = None if port is None else OperationsListener(config.app.operations, gateway.settings, port)
        self.drained_whole = True
        self._told_to_stop = False
        self._gateway = gateway
        self._announce = announce
        self._sweep_seconds = sweep_seconds
        self._trim_above_bytes = gateway.settings.process_bytes() * 2 // 3
        self._background: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the engine, listen, say so."""
        operations_url = None
        if self._operations is not None:
            try:
                operations_url = await self._operations.bind()
            except OSError as error:
                _log.error("the operations listener (ops_host, ops_port) can't be had: %s", error)
                sys.exit(STARTUP_FAILURE)
        await super().startup(sockets)
        if self._operations is not None:
            await self._operations.serve()
        url = listening_url(self.servers[0], self._gateway.settings.scheme)
        self._gateway.membership.start(self._gateway.settings.advertised_url or url)
        self._keep(supervised(self._sweep, "the sweep of connections"))
        if self._gateway.certificate is not None:
            look = functools.partial(_look_at, self._gateway.certificate)
            self._keep(supervised(look, "the look at the certificate"))
        # Objects made by start-up stay: the collector need not look at them with each full collection.
        gc.collect()
        gc.freeze()
        self._announce(url, operations_url)

    async def on_tick(self, counter: int) -> bool:
        """Runs ten times a second; both listeners' answers share one date."""
        ends = await super().on_tick(counter)
        if self._operations is not None:
            self._operations.state.default_headers = self.server_state.default_headers
        return ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listeners, the operations one last: until then it says that the gateway is going."""
        await super().shutdown(sockets)
        if self._operations is not None:
            self._operations.close()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle the signals while serving."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
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
        self._gateway.engine.refuse_work()
        self._keep(self._drain())

    async def _drain(self) -> None:
        settings = self._gateway.settings
        loop = asyncio.get_running_loop()
        begun = loop.time()
        _log.info("draining")
        try:
            async with asyncio.timeout(settings.drain_timeout_ms / 1000):
                # From here on other gateways shall send nothing here.
                await asyncio.gather(self._gateway.membership.leave(), self._gateway.engine.drain())
                while self.server_state.tasks:
                    await asyncio.wait(set(self.server_state.tasks))
        except TimeoutError:
            self.drained_whole = False
            _log.error(
                "draining took longer than %d ms; what was not acknowledged may be lost", settings.drain_timeout_ms
            )
        except Exception as error:  # noqa: BLE001 - the top of the process: it must end all the same
            self.drained_whole = False
            _log.error("draining failed", exc_info=error)
        # The lifespan's end must not wait a second time for what could not be drained.
        self.force_exit = not self.drained_whole
        await asyncio.sleep(max(0.0, begun + settings.drain_notice_ms / 1000 - loop.time()))
        self.should_exit = True

    async def _sweep(self) -> None:
        await asyncio.sleep(self._sweep_seconds)
        now_ms = time.monotonic_ns() // 1_000_000
        connections = list(self.server_state.connections)
        self._gateway.metrics.connections.set(len(connections))
        is_memory_short = self._gateway.answer_memory.longest_wait_ms() >= MEMORY_SHORT_MS
        for connection in connections:
            if isinstance(connection, GatewayProtocol):
                connection.sweep(now_ms, is_memory_short=is_memory_short)
        if self._operations is not None:
            self._operations.sweep(now_ms)
        if resident_bytes() > self._trim_above_bytes:
            await asyncio.to_thread(trim)

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _look_at(certificate: Certificate) -> None:
    await asyncio.sleep(LOOK_SECONDS)
    await asyncio.to_thread(certificate.look)
