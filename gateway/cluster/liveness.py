"""Liveness of gateways: one is alive while its heartbeat is seen to change within the lease, by the reader's own clock.

1. The clocks of two gateways are never compared. What counts is for how long the reader has watched an object not change.
2. Of time in which nothing could be read (the store was down, this process was suspended) at most one step counts: others
   could not be seen then, and perhaps could not beat either.
3. A stale or replayed heartbeat is no change: the beat of one instance must rise, and another instance must have been issued
   later. A heartbeat seen for the first time is a change. If its gateway is dead, the first request to it finds out.
4. A gateway that is not listed has left. Its last heartbeat is remembered, so that a stale listing does not revive it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.cluster.heartbeat import Heartbeat

REMEMBERED_MAX: Final = 1_024
"""Number of gateways remembered, departed ones included; the one not seen for longest is dropped first."""
LEASES_UNTIL_ABANDONED: Final = 20
"""Number of leases without a change after which an object is litter, and any gateway may delete it."""


@dataclass(slots=True)
class _Sighting:
    heartbeat: Heartbeat
    unchanged_ms: int
    is_listed: bool


class Liveness:
    """Known heartbeats, and for how long each has not changed.

    ``lease_ms``: time that a live gateway's heartbeat may stay unchanged. ``step_ms_max``: the most that one look adds to that
    time.
    """

    def __init__(self, *, lease_ms: int, step_ms_max: int) -> None:
        self._lease_ms = lease_ms
        self._step_ms_max = step_ms_max
        self._sightings: dict[str, _Sighting] = {}
        self._looked_at_ms: int | None = None

    def observe(self, heartbeats: Iterable[Heartbeat], now_ms: int) -> None:
        """Take in one whole look at the store; ``now_ms`` is monotonic."""
        since_ms = 0 if self._looked_at_ms is None else max(0, now_ms - self._looked_at_ms)
        self._looked_at_ms = now_ms
        step_ms = min(since_ms, self._step_ms_max)
        for sighting in self._sightings.values():
            sighting.unchanged_ms += step_ms
            sighting.is_listed = False
        for heartbeat in heartbeats:
            known = self._sightings.pop(heartbeat.id, None)
            if known is None or _is_newer(heartbeat, known.heartbeat):
                known = _Sighting(heartbeat, 0, is_listed=True)
            known.is_listed = True
            self._sightings[heartbeat.id] = known
        while len(self._sightings) > REMEMBERED_MAX:
            del self._sightings[next(iter(self._sightings))]

    def live(self) -> list[Heartbeat]:
        """Return the heartbeats of the gateways that are taken to be alive, ordered by id."""
        found = [
            one.heartbeat for one in self._sightings.values() if one.is_listed and one.unchanged_ms < self._lease_ms
        ]
        return sorted(found, key=lambda heartbeat: heartbeat.id)

    def listed(self, count_max: int) -> dict[str, Heartbeat]:
        """Return the newest heartbeats at the last look by id, latest change first."""
        there = sorted((one for one in self._sightings.values() if one.is_listed), key=lambda one: one.unchanged_ms)
        return {one.heartbeat.id: one.heartbeat for one in there[:count_max]}

    def abandoned(self) -> list[str]:
        """Return the ids whose objects have not changed for ``LEASES_UNTIL_ABANDONED`` leases."""
        longest_ms = self._lease_ms * LEASES_UNTIL_ABANDONED
        return [name for name, one in self._sightings.items() if one.is_listed and one.unchanged_ms > longest_ms]


def _is_newer(seen: Heartbeat, known: Heartbeat) -> bool:
    if seen.instance == known.instance:
        return seen.beat > known.beat
    return seen.issued_at > known.issued_at
