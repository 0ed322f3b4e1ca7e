"""Sign of life of this process, put into the store as its steps are reported."""

from __future__ import annotations

from typing import Final

from compaction.report import Reporter
from log_format.clock import Clock
from log_format.cluster.maintenance_sign import STARTS_KEPT, MaintenanceSign, put_sign, read_sign
from log_format.errors import StoreError
from log_format.store import ObjectStore

SIGN_EVERY_MS: Final = 60_000
"""Least time between two signs that say the same: each is a PUT."""


class SignOfLife:
    """A reporter that forwards events, and gives a sign of life with them, once a minute and when the failures change.

    A process that hangs reports nothing, so it gives no sign either. A sign that can't be put is an event; maintenance goes on.
    ``every_ms``: the interval of rounds; None: not known. ``is_single``: the process ends after a round, so the sign also has
    when the last of such rounds began: those that the sign before names, and now.
    """

    def __init__(
        self, report: Reporter, store: ObjectStore, clock: Clock, *, every_ms: int | None, is_single: bool = False
    ) -> None:
        self._report = report
        self._store = store
        self._clock = clock
        self._every_ms = every_ms
        self._started_at = _starts(store, clock.now_ms()) if is_single else ()
        self._round_ended_at: int | None = None
        self._failed_topics = 0
        self._put_ms: int | None = None

    def event(self, event: str, **fields: str | float) -> None:
        """Forward the event, and give a sign if it is time."""
        self._report.event(event, **fields)
        is_news = False
        if event == "round":
            failed_topics = int(fields["failed_topics"])
            is_news = self._round_ended_at is None or failed_topics != self._failed_topics
            self._round_ended_at, self._failed_topics = self._clock.now_ms(), failed_topics
        now_ms = self._clock.monotonic_ms()
        if is_news or self._put_ms is None or now_ms - self._put_ms >= SIGN_EVERY_MS:
            self._put_ms = now_ms
            self._put()

    def _put(self) -> None:
        sign = MaintenanceSign(
            seen_at=self._clock.now_ms(),
            every_ms=self._every_ms,
            started_at=self._started_at,
            round_ended_at=self._round_ended_at,
            failed_topics=self._failed_topics,
        )
        try:
            put_sign(self._store, sign)
        except StoreError as problem:
            self._report.event("no sign of life", problem=str(problem))


def _starts(store: ObjectStore, now_ms: int) -> tuple[int, ...]:
    """Return when the last single rounds began, this one last. Starts that seem to come later, by a clock that was wrong, are
    dropped."""
    try:
        before = read_sign(store)
    except StoreError:
        return (now_ms,)
    known = () if before is None else tuple(start for start in before.started_at if start < now_ms)
    return (*known, now_ms)[-STARTS_KEPT:]
