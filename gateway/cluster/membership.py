"""Membership: writes this gateway's heartbeat and reads the others', off the event loop; ``Peers`` keeps the view.

1. The store is used from one thread of its own. When the store fails the last view stays. Requests that can't reach a peer
   find out that it is gone.
2. Requests for each beat: one PUT, and those of a look (``heartbeat_reader``). The cluster's keys take one GET, once. A
   gateway that has been alone for ``LONELY_BEATS`` beats only every ``ALONE_BEATS``. A gateway that joins finds its heartbeat
   within a lease, is found within that time, and both beat at the full rate from then on.
3. Only heartbeats with a valid MAC count (``keys``). Gateways of a release that did not sign are neither listed nor sent
   requests, until they are replaced.
4. ``leave`` removes the heartbeat, so that others stop sending. A heartbeat that is written late after that expires with the
   lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from gateway.cluster.heartbeat import Heartbeat, encode_heartbeat, heartbeat_key
from gateway.cluster.heartbeat_reader import HeartbeatLook, HeartbeatReader
from gateway.cluster.keys import ClusterKeys, cluster_keys
from gateway.cluster.liveness import LEASES_UNTIL_ABANDONED, Liveness
from gateway.cluster.peers import Peers
from gateway.quotas.quotas import Quotas
from gateway.quotas.sharing import Demands
from gateway.tasks.supervised import run_supervised
from log_format.clock import Clock
from log_format.cluster.identity import load_cluster
from log_format.errors import CorruptData, StoreError
from log_format.store import ObjectStore
from log_format.version import __version__

BEATS_PER_LEASE: Final = 4
"""Number of beats in a lease: a gateway may miss one less before it is taken for dead."""
ALONE_BEATS: Final = 3
"""Interval, in beats, at which a gateway that is alone beats: less than a lease, by one beat."""
LONELY_BEATS: Final = 10
"""Number of beats without a peer before a gateway beats more rarely: gateways that start together find each other fast."""
LIST_BEATS: Final = 3
"""Interval, in beats, of listings by a gateway that knows its peers. A newcomer lists immediately, and its first request shows
that it is there (``forwarding.hop``)."""
MEMBERS_MAX: Final = 256
"""Number of known peers that are read: each costs a request for each beat."""
assert ALONE_BEATS < BEATS_PER_LEASE
LEAVE_MS_MAX: Final = 2_000
"""Time that the drain waits for the heartbeat to be removed."""

_log = logging.getLogger("gateway.cluster")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which gateway this is, and which start of it."""

    gateway_id: str
    url: str
    """Address that ``Membership.start`` will likely give."""
    instance: str
    """New with each start."""
    started_at_ms: int


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """How a gateway beats, and what its heartbeat says and proves."""

    beat_ms: int
    journals: bool = True
    """Whether the gateway takes part in journals."""
    key_file: tuple[bytes, ...] | None = None
    """Keys of the setting ``cluster_key_file``, if any."""
    leases_until_abandoned: int = LEASES_UNTIL_ABANDONED


class Membership:
    """This gateway's heartbeat and its looks. Used on the event loop only. Call ``start`` once the gateway listens; ``leave``
    when it ends."""

    def __init__(
        self,
        store: ObjectStore,
        peers: Peers,
        identity: Identity,
        beating: HeartbeatSettings,
        *,
        owned_topic_count: Callable[[], int],
        clock: Clock,
        registry: CollectorRegistry,
        quotas: Quotas | None = None,
    ) -> None:
        """Set up without beating. ``quotas``: None with ``auth=off``."""
        beat_ms = beating.beat_ms
        self._store = store
        self._peers = peers
        self._own_id = identity.gateway_id
        self._url = identity.url
        self._kafka: str | None = None
        self._started_at_ms = identity.started_at_ms
        self._owned_topic_count = owned_topic_count
        self._clock = clock
        self._beat_ms = beat_ms
        self._journals = beating.journals
        self._quotas = quotas
        self._demands: Demands = {}
        self._key_file = beating.key_file
        self._keys: ClusterKeys | None = None
        self._reader = HeartbeatReader(
            store,
            own_id=identity.gateway_id,
            litter_ms=beat_ms * BEATS_PER_LEASE * beating.leases_until_abandoned,
            step_ms_max=beat_ms * 2,
        )
        self._ignored_count = 0
        self._instance = identity.instance
        self._beat = 0
        self._lonely_beats = 0
        self._quiet_beats = 0
        """Number of beats since the view last changed, or turned out to be old."""
        self._liveness = Liveness(lease_ms=beat_ms * BEATS_PER_LEASE, step_ms_max=beat_ms * 2)
        self._left = False
        self._failing = False
        self._looping: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="heartbeat")
        gauge = Gauge(
            "tidelog_cluster_gateways", "Gateways believed to be alive, including this one.", registry=registry
        )
        gauge.set_function(lambda: 1 + self._peers.count)
        ignored = Gauge(
            "tidelog_cluster_heartbeats_ignored",
            "Objects in system/gateways/ without a valid recent signature of a gateway of this cluster.",
            registry=registry,
        )
        ignored.set_function(lambda: self._ignored_count)

    def start(self, url: str, kafka: str | None = None) -> None:
        """Begin to beat and to look. ``url``: where this gateway is reached; ``kafka``: where Kafka's clients reach it."""
        assert self._looping is None
        self._url, self._kafka = url, kafka
        self._looping = asyncio.get_running_loop().create_task(run_supervised(self._round, "the heartbeat"))

    async def leave(self) -> None:
        """Stop beating and remove the heartbeat. Returns after ``LEAVE_MS_MAX`` at the latest. Idempotent."""
        if self._left or self._looping is None:
            return
        self._left = True
        self._looping.cancel()
        # Queued behind a beat that is being written, in the one thread, so that the removal comes last.
        removed = asyncio.wrap_future(self._thread.submit(self._remove, self._own_id))
        self._thread.shutdown(wait=False)
        with contextlib.suppress(TimeoutError, StoreError):
            async with asyncio.timeout(LEAVE_MS_MAX / 1000):
                await removed

    def heartbeats(self) -> list[Heartbeat]:
        """Return the heartbeats of all live gateways, this one included as it is now, ordered by id."""
        return sorted([self._own(), *self._peers.heartbeats()], key=lambda heartbeat: heartbeat.id)

    def _own(self) -> Heartbeat:
        return Heartbeat(
            id=self._own_id,
            instance=self._instance,
            beat=self._beat,
            url=self._url,
            started_at=self._started_at_ms,
            version=__version__,
            owned_topics=self._owned_topic_count(),
            issued_at=self._clock.now_ms(),
            journals=self._journals,
            hops=True,
            kafka=self._kafka,
            zone=self._peers.zone,
            demands=dict(self._demands),
        )

    async def _round(self) -> None:
        self._quiet_beats = 0 if self._peers.looks_old.is_set() else self._quiet_beats + 1
        self._peers.looks_old.clear()
        self._beat += 1
        if self._quotas is not None:
            self._demands = self._quotas.publish()
        try:
            known = self._liveness.listed(MEMBERS_MAX)
            known.pop(self._own_id, None)
            lists = not known or self._quiet_beats < LONELY_BEATS or self._quiet_beats % LIST_BEATS == 0
            look = await asyncio.wrap_future(self._thread.submit(self._beat_and_look, self._own(), known, lists))
        except (StoreError, CorruptData) as error:
            if not self._failing:
                _log.warning("heartbeats can't be written or read; the last view of the gateways stays: %s", error)
            self._failing = True
        else:
            self._failing = False
            await self._take_in(look)
        # At most one round in a tenth of a beat, however often the view looks old.
        await asyncio.sleep(self._beat_ms / 10_000)
        with contextlib.suppress(TimeoutError):
            beats = ALONE_BEATS if self._lonely_beats >= LONELY_BEATS else 1
            async with asyncio.timeout(self._beat_ms * (beats - 0.1) / 1000):
                await self._peers.looks_old.wait()

    async def _take_in(self, look: HeartbeatLook) -> None:
        self._liveness.observe(look.heartbeats, self._clock.monotonic_ms())
        if look.ignored_count and not self._ignored_count:
            _log.warning(
                "%d objects in system/gateways/ are ignored: no gateway with this one's key signed them within 15 minutes of "
                "this clock (a gateway of an older release or with another cluster_key_file, a wrong clock, or forged)",
                look.ignored_count,
            )
        self._ignored_count = look.ignored_count
        live = {peer.id: peer for peer in self._liveness.live() if peer.id != self._own_id}
        if live.keys() != {peer.id for peer in self._peers.heartbeats()}:
            _log.info("gateways beside this one: %s", ", ".join(live) or "none")
            self._quiet_beats = 0
        self._peers.take_in(live.values(), self._keys)
        self._lonely_beats = 0 if live else self._lonely_beats + 1
        if self._quotas is not None:
            self._quotas.update_from_peers([peer.demands for peer in live.values()])
        for name in [*self._liveness.abandoned(), *look.litter]:
            if name != self._own_id:
                with contextlib.suppress(StoreError):
                    await asyncio.wrap_future(self._thread.submit(self._remove, name))

    # Run in the thread

    def _beat_and_look(self, own: Heartbeat, known: Mapping[str, Heartbeat], lists: bool) -> HeartbeatLook:
        """Write the heartbeat, and look at the others. Raises ``StoreUnavailable``, ``CorruptData``."""
        if self._keys is None:
            self._keys = cluster_keys(load_cluster(self._store, _new_id), self._key_file)
        self._store.put(heartbeat_key(own.id), encode_heartbeat(own, self._keys))
        now_ms, monotonic_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        return self._reader.read(known, self._keys, now_ms=now_ms, monotonic_ms=monotonic_ms, lists=lists)

    def _remove(self, gateway_id: str) -> None:
        self._store.delete(heartbeat_key(gateway_id))


def _new_id() -> str:
    return secrets.token_hex(16)
