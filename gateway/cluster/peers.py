"""The other gateways of the store, as this gateway sees them: a view that ``Membership`` renews. Look-ups never wait.

A peer that failed or drains rests: it is sent nothing until the rest is over or it has started anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.cluster.heartbeat import Heartbeat
from gateway.cluster.keys import ClusterKeys
from log_format.clock import Clock

REST_MS: Final = 10_000
"""Time that a peer is passed over that could not be reached, or drains."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway, and where it is reached."""

    id: str
    url: str
    instance: str
    """Instance of the gateway, new with each start."""
    zone: str | None = None


class Peers:
    """The live peers. Used on the event loop only."""

    def __init__(self, clock: Clock, zone: str | None = None) -> None:
        """Begin without peers. ``zone``: this gateway's, if it was told one."""
        self._clock = clock
        self.zone = zone
        self._heartbeats: dict[str, Heartbeat] = {}
        self._rests_until_ms: dict[str, int] = {}
        self.keys: ClusterKeys | None = None
        """Keys that sign the gateways' messages; None before the first look."""
        self.looks_old = asyncio.Event()
        """Event that is set when the view turns out to be old. ``Membership`` then looks early."""

    @property
    def count(self) -> int:
        """Number of live peers, resting ones included."""
        return len(self._heartbeats)

    def heartbeats(self) -> list[Heartbeat]:
        """Return the newest heartbeat of each live peer."""
        return list(self._heartbeats.values())

    def candidates(self) -> dict[str, Peer]:
        """Return the peers that requests may go to now, by id."""
        now_ms = self._clock.monotonic_ms()
        return {
            peer.id: Peer(peer.id, peer.url.rstrip("/"), peer.instance, peer.zone)
            for peer in self._heartbeats.values()
            if peer.hops and self._rests_until_ms.get(peer.instance, now_ms) <= now_ms
        }

    def without_journals(self) -> list[str]:
        """Return the ids of the live peers because of which no topic may go to a journal: of an older release, or with
        ``journals=off``."""
        return sorted(peer.id for peer in self._heartbeats.values() if not peer.journals)

    def is_live(self, gateway_id: str) -> bool:
        """Return whether the peer's heartbeat was seen to change within the lease."""
        return gateway_id in self._heartbeats

    def rest(self, gateway_id: str) -> None:
        """Pass the peer over for ``REST_MS``, and look again soon."""
        peer = self._heartbeats.get(gateway_id)
        if peer is not None:
            self._rests_until_ms[peer.instance] = self._clock.monotonic_ms() + REST_MS
        self.looks_old.set()

    def take_in(self, heartbeats: Iterable[Heartbeat], keys: ClusterKeys | None = None) -> None:
        """Replace the view by the live peers that a look at the store found."""
        self.keys = keys or self.keys
        now_ms = self._clock.monotonic_ms()
        self._heartbeats = {heartbeat.id: heartbeat for heartbeat in heartbeats}
        self._rests_until_ms = {one: until for one, until in self._rests_until_ms.items() if until > now_ms}
