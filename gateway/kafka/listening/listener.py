"""The listener for Kafka's clients: accepts connections, limits their number (``admission``), closes them.

With ``tls_cert`` it speaks TLS, with the certificate that is in force when a connection begins.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Final

from gateway.access.caller import ANONYMOUS
from gateway.gateway import Gateway
from gateway.kafka.bounds import MEMORY_SHORT_SHARE
from gateway.kafka.brokers import Advertised
from gateway.kafka.call import CloseConnection, ListenerCaches, Session
from gateway.kafka.calls.table import CALLS
from gateway.kafka.described_topics import EncodedTopics
from gateway.kafka.encoded_batches import EncodedBatches
from gateway.kafka.fetch_sessions import FetchSessions
from gateway.kafka.known_topics import KnownTopics
from gateway.kafka.listening.admission import Admission, AdmittedProtocol
from gateway.kafka.listening.connection import KafkaConnection
from gateway.kafka.metrics import KafkaMetrics
from gateway.kafka.rates import Rates
from gateway.kafka.shares.groups import ShareGroups
from gateway.kafka.wire.frames import Frames
from gateway.memory_budget import MemoryBudget
from gateway.network.certificate import client_certificate
from gateway.network.client_addresses import ClientAddresses
from log_format.errors import TidelogError

_BACKLOG: Final = 1024
CLOSE_SECONDS: Final = 2.0
"""Time that connections have to end once the engine has drained."""
_log = logging.getLogger("gateway.kafka")


class KafkaListener:
    """The listener. ``number``: number of this worker; its port is the setting's port plus ``number``. Used on the event loop
    only."""

    def __init__(self, gateway: Gateway, *, number: int = 0) -> None:
        settings = gateway.settings
        assert settings.kafka_listen is not None
        self._gateway = gateway
        self._number = number
        self._metrics = KafkaMetrics(gateway.metrics.registry)
        self._caches = ListenerCaches(
            known_topics=KnownTopics(gateway.engine),
            encoded_topics=EncodedTopics(),
            encoded_batches=EncodedBatches(),
            fetch_sessions=FetchSessions(gateway.clock, _session_id),
            shares=ShareGroups(gateway.engine, gateway.queue_peers),
        )
        share = settings.kafka_connections_per_address_max
        self._admission = Admission(
            settings.kafka_connections_max,
            ClientAddresses(
                share or max(1, settings.kafka_connections_max * 3 // 4), loopback_counts=share is not None
            ),
            lambda reason: self._metrics.refused.labels(reason).inc(),
        )
        self._listen = _with_port_offset(Advertised.of(settings.kafka_listen), number)
        self.advertised = _with_port_offset(Advertised.of(settings.kafka_advertised or settings.kafka_listen), number)
        """Address at which clients reach the listener; a port 0 is replaced once it is bound."""
        self._running: dict[Frames, tuple[KafkaConnection, asyncio.Task[None]]] = {}
        frames_max = gateway.request_memory.bytes_max // 2
        of_principal_max = frames_max // 2 if gateway.rights.enforced else None
        self._large_frames = MemoryBudget(frames_max, "large Kafka frames", of_client_max=of_principal_max)
        self._server: asyncio.Server | None = None

    async def bind(self, *, is_shared: bool = False) -> None:
        """Bind the address, without listening yet. ``is_shared``: a worker's successor may bind it, too. Raise ``OSError``."""
        self._server = await asyncio.get_running_loop().create_server(
            self.protocol,
            self._listen.host,
            self._listen.port,
            backlog=_BACKLOG,
            start_serving=False,
            reuse_port=is_shared,
        )
        if self.advertised.port == 0:
            self.advertised = Advertised(self.advertised.host, self._server.sockets[0].getsockname()[1])

    async def serve(self) -> None:
        """Start listening."""
        assert self._server is not None
        await self._server.start_serving()

    def sweep(self) -> None:
        """While memory for requests is short, close connections whose frames arrive too slowly."""
        memory = self._gateway.request_memory
        if memory.used_bytes > memory.bytes_max * MEMORY_SHORT_SHARE:
            now_s = asyncio.get_running_loop().time()
            for connection, _ in list(self._running.values()):
                connection.sweep(now_s)

    def stop_listening(self) -> None:
        """Accept no new connections; open ones go on."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Stop listening, and close all connections; requests in flight are answered first, for a bounded time."""
        self.stop_listening()
        tasks = [task for _, task in self._running.values()]
        for frames, (connection, _) in list(self._running.items()):
            if connection.is_idle:
                frames.transport.close()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
        for task in tasks:
            task.cancel()

    def protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        return AdmittedProtocol(
            self._admission, self._frames, self._gateway.certificate, self._gateway.settings.head_ms
        )

    def _frames(self, leave: Callable[[], None]) -> Frames:
        return Frames(self._on_begin, partial(self._on_end, leave))

    def _on_begin(self, frames: Frames) -> None:
        peer = frames.transport.get_extra_info("peername")
        is_open = not self._gateway.rights.enforced
        session = Session(
            address=peer[0] if peer else "",
            caller=ANONYMOUS if is_open else None,
            check_connected=frames.check_connected,
            rates=Rates(self._gateway.quotas),
            shares=self._caches.shares.new_sessions(),
        )
        if not self._authenticate_by_certificate(frames, session):
            frames.transport.abort()
            return
        connection = KafkaConnection(
            frames,
            self._gateway,
            session,
            self.advertised,
            large_frames=self._large_frames,
            caches=self._caches,
            calls=CALLS,
            metrics=self._metrics,
        )
        task = asyncio.get_running_loop().create_task(connection.run())
        self._running[frames] = (connection, task)
        self._metrics.connections.set(len(self._running))

    def _authenticate_by_certificate(self, frames: Frames, session: Session) -> bool:
        """Return whether the client may go on. A client certificate that names a caller authenticates the connection."""
        authentication = self._gateway.authentication
        shown = client_certificate(frames.transport.get_extra_info("peercert"))
        if authentication is None or shown is None:
            return True
        try:
            caller = authentication.authenticate_certificate(shown, ())
            if caller is not None:
                session.enter(caller)
        except (TidelogError, CloseConnection) as problem:
            _log.info("a Kafka client's certificate does not let it in: %s", problem)
            return False
        return True

    def _on_end(self, leave: Callable[[], None], frames: Frames) -> None:
        leave()
        found = self._running.pop(frames, None)
        if found is not None:
            found[1].cancel()
        self._metrics.connections.set(len(self._running))


def _session_id() -> int:
    return 1 + secrets.randbelow(2**31 - 1)


def _with_port_offset(address: Advertised, by: int) -> Advertised:
    return address if not address.port else Advertised(address.host, address.port + by)
