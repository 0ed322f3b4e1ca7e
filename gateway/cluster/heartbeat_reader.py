"""Reading of a store's heartbeats. A look is bounded, whatever the number and size of the objects.

1. Known peers are read first, by their keys, so that other objects never hide them.
2. Of the others at most ``LISTED_MAX`` are listed in one look. The next look goes on where this one ended.
3. Of the listed objects at most ``UNKNOWN_READS_MAX`` are read, taken at random, and none again until it changes.
4. At most a heartbeat's size is read of an object. A larger one, or one whose key is no gateway's, is not read at all.
5. An object that is no heartbeat and does not change for very long is litter: any gateway may delete it.

Requests for each look: one LIST for 1,000 objects if it lists, one GET for each known peer and for each new or changed object.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from gateway.cluster.heartbeat import HEARTBEAT_BYTES_MAX, Heartbeat, decode_heartbeat, gateway_of, heartbeat_key
from gateway.cluster.keys import ClusterKeys
from log_format import layout
from log_format.errors import ObjectMissing
from log_format.store import ObjectInfo, ObjectStore

LISTED_MAX: Final = 4_096
"""Number of objects listed in one look: four requests on S3, and less than a megabyte of memory."""
UNKNOWN_READS_MAX: Final = 64
"""Number of objects read in one look besides the known peers: a second's requests, so that the next beat is in time."""
LITTER_MAX: Final = 64
"""Number of objects that one look reports as litter."""


@dataclass(frozen=True, slots=True)
class HeartbeatLook:
    """Result of one look. ``ignored_count``: objects that are no heartbeat of this cluster."""

    heartbeats: list[Heartbeat]
    ignored_count: int
    litter: list[str]


@dataclass(slots=True)
class _OtherObject:
    """An object besides the known peers, as it was when it was last read."""

    stamp: tuple[int, int]
    ignored: bool
    unchanged_ms: int = 0


class HeartbeatReader:
    """Reader of heartbeats. Used by one thread. An ignored object that does not change for ``litter_ms`` is litter."""

    def __init__(self, store: ObjectStore, *, own_id: str, litter_ms: int, step_ms_max: int) -> None:
        self._store = store
        self._own_id = own_id
        self._litter_ms = litter_ms
        self._step_ms_max = step_ms_max
        self._passed: dict[str, _OtherObject] = {}
        self._after = ""
        self._looked_at_ms: int | None = None
        """Monotonic time of the last listing."""
        self._ignored_count = 0

    def read(
        self, known: Mapping[str, Heartbeat], keys: ClusterKeys, *, now_ms: int, monotonic_ms: int, lists: bool = True
    ) -> HeartbeatLook:
        """Look at the store once; return the heartbeats found.

        Args:
            known: newest heartbeats of known peers by id. A peer whose object is no heartbeat any more is returned unchanged.
            lists: whether to list; without it no other gateway is found.

        Raises ``StoreUnavailable``.
        """
        found: list[Heartbeat] = []

        def read(gateway_id: str) -> Heartbeat | None:
            key = heartbeat_key(gateway_id)
            return decode_heartbeat(key, self._store.get_range(key, 0, HEARTBEAT_BYTES_MAX + 1), keys, now_ms)

        for gateway_id, last in known.items():
            try:
                found.append(read(gateway_id) or last)
            except ObjectMissing:
                continue
        if not lists:
            return HeartbeatLook(found, self._ignored_count, [])
        since_ms = 0 if self._looked_at_ms is None else monotonic_ms - self._looked_at_ms
        self._looked_at_ms = monotonic_ms
        others = self._others(known, min(max(0, since_ms), self._step_ms_max))
        found += self._read_changed(others, read)
        ignored = {gateway_id: one for gateway_id, one in self._passed.items() if one.ignored}
        litter = [gateway_id for gateway_id, one in ignored.items() if one.unchanged_ms > self._litter_ms]
        self._ignored_count = len(ignored)
        return HeartbeatLook(found, self._ignored_count, litter[:LITTER_MAX])

    def _others(self, known: Mapping[str, Heartbeat], step_ms: int) -> dict[str, ObjectInfo]:
        """Return the objects of this look's part of the listing that may be heartbeats of other gateways, by id."""
        listed = list(islice(self._store.list(layout.GATEWAYS, start_after=self._after), LISTED_MAX))
        whole = len(listed) < LISTED_MAX and not self._after
        self._after = listed[-1].key if len(listed) == LISTED_MAX else ""
        others = {
            gateway_id: info
            for info in listed
            if (gateway_id := gateway_of(info.key)) is not None
            and gateway_id != self._own_id
            and gateway_id not in known
        }
        for gateway_id, one in list(self._passed.items()):
            one.unchanged_ms += step_ms
            if gateway_id in known or (whole and gateway_id not in others):
                del self._passed[gateway_id]
        for gateway_id in islice(list(self._passed), max(0, len(self._passed) - LISTED_MAX)):
            del self._passed[gateway_id]
        return others

    def _read_changed(
        self, others: Mapping[str, ObjectInfo], read: Callable[[str], Heartbeat | None]
    ) -> Iterable[Heartbeat]:
        changed = []
        for gateway_id, info in others.items():
            stamp = (info.size_bytes, info.modified_at_ms)
            passed = self._passed.get(gateway_id)
            if passed is not None and passed.stamp == stamp:
                continue
            if info.size_bytes > HEARTBEAT_BYTES_MAX:
                self._passed[gateway_id] = _OtherObject(stamp, ignored=True)
            else:
                changed.append((gateway_id, stamp))
        if len(changed) > UNKNOWN_READS_MAX:
            changed = random.sample(changed, UNKNOWN_READS_MAX)
        for gateway_id, stamp in changed:
            try:
                heartbeat = read(gateway_id)
            except ObjectMissing:
                continue
            self._passed[gateway_id] = _OtherObject(stamp, ignored=heartbeat is None)
            if heartbeat is not None:
                yield heartbeat
