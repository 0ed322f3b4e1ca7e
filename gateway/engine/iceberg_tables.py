"""Topics' tables for Iceberg's readers, published when somebody loads one (``log_format.iceberg.publishing``).

Of the loads of a topic that come together one publishes, and the others get what it published. Publishing runs in a thread of its
own, over the connections for old records: no flush waits for it.

Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from gateway.engine.fresh_tables import FreshTables
from gateway.engine.pool import Pool
from log_format.clock import Clock
from log_format.errors import BackOff, StoreUnavailable, UnknownTopic
from log_format.iceberg.manifest import Catalogued, Snapshot
from log_format.iceberg.pinned import publish_pins
from log_format.iceberg.place import Place
from log_format.iceberg.publishing import offered, publish, seen_at
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

REMEMBERED_MAX: Final = 200
"""Number of tables of which the last publication is remembered, in some 50 KB each."""
CHECKED_MS: Final = 5_000
"""Time for which what was published counts as being in the store without a look."""
ATTEMPTS_MAX: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A topic's table as it was published. ``snapshots``: what readers may name, the newest last. ``pinned``: keys of the
    manifest lists of pinned versions. ``as_of_ms``: as in ``FreshTable``."""

    state: TopicState
    snapshots: list[Snapshot]
    pinned: dict[int, str]
    as_of_ms: int | None


@dataclass(slots=True)
class _Remembered:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    catalogued: Catalogued | None = None
    state: TopicState | None = None
    pinned: dict[int, str] = field(default_factory=dict)
    checked_ms: int = 0
    """When what was published was last seen in the store, by the monotonic clock."""


class IcebergTables:
    """Publishes and remembers tables. ``store``: for reading old records; ``pool``: a thread of its own."""

    def __init__(self, tables: FreshTables, store: ObjectStore, pool: Pool, *, clock: Clock, new_id: NewId) -> None:
        self._tables = tables
        self._store = store
        self._pool = pool
        self._clock = clock
        self._new_id = new_id
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    async def load(self, topic: str) -> LoadedTable:
        """Return a topic's table with every record that was acknowledged before the call.

        Raises ``UnknownTopic``, ``BackOff``, ``CorruptData``, and what ``FreshTables.fresh`` raises.
        """
        for attempt in range(ATTEMPTS_MAX):
            state, as_of_ms = await self._tables.fresh(topic)
            if not state.exists:
                raise UnknownTopic(topic)
            known = self._of(topic)
            try:
                async with known.lock:
                    return await self._published(known, state, as_of_ms)
            except BackOff:
                if attempt == ATTEMPTS_MAX - 1:
                    raise
            except StoreUnavailable as problem:
                raise BackOff(f"The store did not take the manifests of {topic!r}: {problem.detail}.") from problem
        raise AssertionError("the last attempt returns or raises")

    def _of(self, topic: str) -> _Remembered:
        known = self._remembered.setdefault(topic, _Remembered())
        self._remembered.move_to_end(topic)
        if len(self._remembered) > REMEMBERED_MAX:
            oldest = next(iter(self._remembered))
            if not self._remembered[oldest].lock.locked():
                del self._remembered[oldest]
        return known

    async def _published(self, known: _Remembered, state: TopicState, as_of_ms: int | None) -> LoadedTable:
        now_ms, arrival_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        before = known.state
        if before is not None and before.topic_id == state.topic_id and before.version > state.version:
            state = before  # another load began later, and was first
        is_same = before is not None and before.topic_id == state.topic_id and before.version == state.version
        catalogued = known.catalogued
        if catalogued is not None and is_same and arrival_ms - known.checked_ms < CHECKED_MS:
            catalogued = seen_at(catalogued, now_ms)
        else:
            place = Place(self._store, state, now_ms, self._new_id)
            made = await self._pool.run(_publish, place, catalogued)
            catalogued, known.pinned = made
            known.state, known.checked_ms = state, arrival_ms
        known.catalogued = catalogued
        return LoadedTable(
            state=state,
            snapshots=offered(catalogued, state, now_ms),
            pinned=known.pinned,
            as_of_ms=as_of_ms,
        )


def _publish(place: Place, known: Catalogued | None) -> tuple[Catalogued, dict[int, str]]:
    return publish(place, known), publish_pins(place)
