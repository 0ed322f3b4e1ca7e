"""Manifests for Iceberg's readers of one topic: made in the background as long as the table is loaded, and deleted later.

1. A table that was loaded within a day is published anew every ``EVERY_MS`` at most, if it is ``BEHIND_MIN`` commits further.
   So a load after a pause reads few commits. That is two objects each time, 24 an hour.
2. A table that nobody loads costs nothing but the listing of each collection.
"""

from __future__ import annotations

from typing import Final

from compaction.report import Reporter
from log_format.errors import BackOff, CorruptData
from log_format.iceberg.collecting import look
from log_format.iceberg.manifest import Catalogued
from log_format.iceberg.pinned import publish_pins
from log_format.iceberg.place import Place
from log_format.iceberg.publishing import STRAY_MS, publish_again
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.state import TopicState

EVERY_MS: Final = 300_000
"""Age of what is published from which it is made anew: one that is loaded each minute is left to its loads."""
BEHIND_MIN: Final = 20
"""Number of commits that a load may well read itself."""


class ManifestUpkeep:
    """The manifests of one topic, and what this process knows of them: whether the table is loaded, from each collection."""

    def __init__(self, store: ObjectStore, new_id: NewId, report: Reporter) -> None:
        self._store = store
        self._new_id = new_id
        self._report = report
        self._known: Catalogued | None = None

    def run(self, state: TopicState, now_ms: int, *, is_dry_run: bool) -> None:
        """Publish the table if that is due. Raises ``StoreUnavailable``."""
        known = self._known
        if is_dry_run or known is None or known.topic_id != state.topic_id or not _is_due(known, state, now_ms):
            return
        place = Place(self._store, state, now_ms, self._new_id)
        try:
            self._known = publish_again(place, known, lambda found: _is_due(found, state, now_ms))
            publish_pins(place)
        except (BackOff, CorruptData) as problem:
            self._report.event("manifests not made", topic=state.topic, problem=problem.detail)
            return
        if self._known is not None and self._known.snapshot.version == state.version:
            self._report.event("manifests", topic=state.topic, version=state.version)

    def collect(self, state: TopicState, now_ms: int, *, is_dry_run: bool) -> None:
        """Delete what nobody has needed for a day, and see whether the table is loaded. Raises ``StoreUnavailable``."""
        self._known, unneeded = look(self._store, state, now_ms)
        for info in () if is_dry_run else unneeded:
            self._store.delete(info.key)


def _is_due(known: Catalogued, state: TopicState, now_ms: int) -> bool:
    is_loaded = known.last_loaded_ms > now_ms - STRAY_MS
    is_behind = state.version - known.snapshot.version >= BEHIND_MIN
    return is_loaded and is_behind and now_ms - known.snapshot.head_seen_ms >= EVERY_MS
