"""Runs of a sync beside maintenance, whose rounds may take long: a topic is in the catalog within a minute of its creation."""

from __future__ import annotations

import threading
from typing import Final

from compaction.catalogs.catalog import CatalogError
from compaction.catalogs.sync import CatalogSync
from compaction.report import Reporter
from log_format.clock import Clock
from log_format.errors import StoreError, TidelogError

LOOK_EVERY_MS: Final = 20_000
"""Time between two listings of the topics, each a request for a thousand topics."""
SYNC_EVERY_MS: Final = 300_000
"""Time between two runs without a new topic: each costs a request a topic, and a listing of the catalog."""


class CatalogWatch:
    """Runs a sync when it is due. ``start`` does so in a thread, which ends with the process."""

    def __init__(self, sync: CatalogSync, clock: Clock, report: Reporter, *, is_dry_run: bool = False) -> None:
        self._sync = sync
        self._clock = clock
        self._report = report
        self._is_dry_run = is_dry_run
        self._synced_ms: int | None = None
        self._is_unfinished = False
        self.failed = False
        """Whether the newest run ended early, or left problems."""

    def start(self) -> None:
        """Begin to run. Everything is in the catalog's own state, so the thread may end anywhere."""
        threading.Thread(target=self._run, name="catalog-watch", daemon=True).start()

    def step(self) -> None:
        """Run the sync if topics are new, if the newest run ended early, or if it is time. A failure is reported, not raised."""
        now_ms = self._clock.monotonic_ms()
        try:
            is_due = self._synced_ms is None or now_ms - self._synced_ms >= SYNC_EVERY_MS
            if is_due or self._is_unfinished or self._sync.topics.has_new():
                self.failed = self._is_unfinished = True
                outcome = self._sync.run(is_dry_run=self._is_dry_run)
                self._is_unfinished = False
                self._synced_ms, self.failed = now_ms, outcome.problems > 0
                self._report.event("catalog", **outcome.as_dict())
        except (CatalogError, TidelogError, StoreError) as problem:
            self._report.event("failed", topic=self._sync.catalog.label, problem=str(problem))

    def _run(self) -> None:
        while True:
            self.step()
            self._clock.sleep_ms(LOOK_EVERY_MS)
