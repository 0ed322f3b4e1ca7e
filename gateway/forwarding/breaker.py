"""A circuit breaker for each peer, by its answers: a missing heartbeat is noticed much later.

1. Bytes from a peer, on any connection to it, are a sign of life. A peer that was silent for ``FRESH_MS`` is probed before a
   request is sent to it. So a request is in doubt only if it was sent just when the peer stopped.
2. A wait for an answer probes, too, and goes on while the peer answers probes: a long poll may wait for as long as it likes.
   The probe is ``/healthz``, which needs the peer's event loop and nothing else. Waiting requests share one probe.
3. A probe that fails opens the breaker: the peer rests, answers that requests wait for are lost, later requests are served
   here.
4. A peer may live while its store does not answer. So a change that waits for long asks the peer's ``/readyz``, which looks at
   the store. If that fails while the store answers this gateway, the breaker opens too. Waiting changes are lost: the peer
   would lose the races for its commits against requests that are served elsewhere now. Requests that only wait for records
   wait on.
5. After the rest a peer must pass ``/readyz`` before a request is sent to it. No request waits for that.
6. A probe counts turns of this event loop and not only time: a gateway that was suspended itself blames no peer for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from gateway.cluster.peers import Peer, Peers
from gateway.forwarding.connections import PeerAnswerLost, PeerConnection, PeerConnections, PeerUnreachable
from log_format.clock import Clock
from log_format.errors import StoreError, TidelogError

FRESH_MS: Final = 250
"""Time within which a peer must have been heard of to be sent requests without a probe."""
PROBE_MS_MAX: Final = 1_500
"""Time without an answer after which a probe fails. Event loops are blocked for a tenth of that at times."""
TURN_MS: Final = 50
"""Length of the turns in which a probe waits."""
STALL_MS_MAX: Final = 1_000
"""Time for a peer's ``/readyz``. If the store answers this gateway but not the peer within it, the store is slow for the peer
alone."""
CHECKED_MS: Final = 2_000
"""Time for which a peer whose store answered is not asked for its store again."""

_ALIVE: Final = b"/healthz"
_READY: Final = b"/readyz"
_AGAIN: Final = b""
_log = logging.getLogger("gateway.forwarding")


class Breaker:
    """Breakers of all peers. Used on the event loop only."""

    def __init__(
        self,
        peers: Peers,
        connections: PeerConnections,
        clock: Clock,
        *,
        probe_ms_max: int = PROBE_MS_MAX,
        stall_ms_max: int = STALL_MS_MAX,
    ) -> None:
        self._peers = peers
        self._connections = connections
        self._clock = clock
        self._probe_ms_max = probe_ms_max
        self._stall_ms_max = stall_ms_max
        self._open: dict[str, bool] = {}
        """Instances that failed their last probe, and whether they were silent."""
        self._probes: dict[tuple[str, bytes], asyncio.Task[bool]] = {}
        self._ready_until_ms: dict[str, int] = {}

    async def admits(self, peer: Peer, silent_ms_max: int = FRESH_MS) -> bool:
        """Return whether a request may be sent to the peer, which is probed if it was silent for ``silent_ms_max``. While its
        breaker is open: return False immediately."""
        if peer.instance in self._open:
            self._shared(peer, _AGAIN, self._closes)
            return False
        return await self.is_alive(peer, silent_ms_max)

    async def is_alive(self, peer: Peer, silent_ms_max: int) -> bool:
        """Return whether the peer was heard of within ``silent_ms_max``, or answers a probe now."""
        if self._connections.silent_ms(peer.url) < silent_ms_max:
            return True
        if self._open.get(peer.instance, False):
            return False
        return await asyncio.shield(self._shared(peer, _ALIVE, self._probed))

    async def stalls(self, peer: Peer, store_answers: Callable[[], Awaitable[None]]) -> bool:
        """Return whether the store is slow for the peer, and not for this gateway. The peer's breaker is open then."""
        if peer.instance in self._open:
            return True
        if self._ready_until_ms.get(peer.instance, 0) > self._clock.monotonic_ms():
            return False

        async def is_stalled(peer: Peer) -> bool:
            ready, own = await asyncio.gather(self._is_ready(peer), _in_time(store_answers, self._stall_ms_max // 2))
            if ready or not own:
                self._trust(peer)
                return False
            self._opens(peer, "does not get answers from its store", is_silent=False)
            return True

        return await asyncio.shield(self._shared(peer, _READY, is_stalled))

    def _shared(self, peer: Peer, path: bytes, probe: Callable[[Peer], Awaitable[bool]]) -> asyncio.Task[bool]:
        """Return the probe that is under way, or a new one."""
        key = (peer.instance, path)
        task = self._probes.get(key)
        if task is None:
            task = self._probes[key] = asyncio.ensure_future(probe(peer))
            task.add_done_callback(lambda _: self._probes.pop(key, None))
        return task

    async def _probed(self, peer: Peer) -> bool:
        alive = await self._asked(peer, _ALIVE, self._probe_ms_max) is not None
        if not alive:
            self._opens(peer, "does not answer", is_silent=True)
        return alive

    async def _is_ready(self, peer: Peer) -> bool:
        return await self._asked(peer, _READY, self._stall_ms_max) == 200

    async def _closes(self, peer: Peer) -> bool:
        ready = await self._is_ready(peer)
        if ready:
            self._open.pop(peer.instance, None)
            self._trust(peer)
        else:
            self._peers.rest(peer.id)
        return ready

    def _opens(self, peer: Peer, why: str, *, is_silent: bool) -> None:
        _log.warning("gateway %s %s: requests are served here", peer.id, why)
        alive = {heartbeat.instance for heartbeat in self._peers.heartbeats()}
        self._open = {one: was for one, was in self._open.items() if one in alive} | {peer.instance: is_silent}
        self._ready_until_ms = {one: until for one, until in self._ready_until_ms.items() if one in alive}
        self._peers.rest(peer.id)

    def _trust(self, peer: Peer) -> None:
        self._ready_until_ms[peer.instance] = self._clock.monotonic_ms() + CHECKED_MS

    async def _asked(self, peer: Peer, path: bytes, wait_ms: int) -> int | None:
        """Return the status of the peer's answer, None if none came in time. For ``/healthz`` any byte from the peer is an
        answer."""
        asking = asyncio.ensure_future(self._ask(peer, path))
        try:
            for turn in range(1, wait_ms // TURN_MS + 1):
                await asyncio.wait((asking,), timeout=TURN_MS / 1000)
                if asking.done():
                    return asking.result()
                if path == _ALIVE and self._connections.silent_ms(peer.url) < turn * TURN_MS:
                    return 200
            return None
        finally:
            asking.cancel()

    async def _ask(self, peer: Peer, path: bytes) -> int | None:
        connection: PeerConnection | None = None
        try:
            connection = await self._connections.take(peer.url, is_probe=True)
            host = peer.url.partition("://")[2].encode("ascii")
            connection.begin(b"GET " + path + b" HTTP/1.1\r\nhost: " + host + b"\r\n\r\n", b"")
            await connection.read_head(_goes_on)
            while await connection.read_chunk(_goes_on):
                pass
        except PeerUnreachable:
            return None
        except PeerAnswerLost:
            # The peer ended the connection, which a frozen one can't.
            return 0
        else:
            return connection.status
        finally:
            if connection is not None:
                self._connections.give_back(peer.url, connection)


async def _goes_on() -> bool:
    return True


async def _in_time(store_answers: Callable[[], Awaitable[None]], wait_ms: int) -> bool:
    try:
        async with asyncio.timeout(wait_ms / 1000):
            await store_answers()
    except (TimeoutError, StoreError, TidelogError):
        return False
    return True
