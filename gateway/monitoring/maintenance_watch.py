"""Watch of maintenance by its sign of life in the store: one GET a minute, also while no topic is used."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Gauge

from log_format.clock import Clock
from log_format.cluster.maintenance_sign import MaintenanceSign, read_sign
from log_format.errors import StoreError
from log_format.store import ObjectStore

LOOK_EVERY_MS: Final = 55_000
"""Time for which a look is good enough: less than the minute in which alarms are judged."""
MaintenanceState = Literal["unknown", "never", "single", "regular", "overdue"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceLook:
    """What is known of maintenance. ``unknown``: the store has not answered yet; ``never``: it gave no sign of life; ``single``:
    it runs when somebody starts it; ``regular``: at an interval, by itself or by a timer; ``overdue``: so it should, and does
    not."""

    state: MaintenanceState
    sign: MaintenanceSign | None = None


class MaintenanceWatch:
    """Looks at the sign of life. Used on the event loop only.

    The age of a sign is the time since this gateway saw it first, so the clocks of both need not agree; only the age of the
    first one that it sees is by their clocks.
    """

    def __init__(self, store: ObjectStore, clock: Clock, registry: CollectorRegistry) -> None:
        self._store = store
        self._clock = clock
        self._sign: MaintenanceSign | None = None
        self._put_ms = 0
        """Monotonic time at which the sign was put."""
        self._looked_ms: int | None = None
        self._has_answer = False
        self._lock = asyncio.Lock()
        silent = Gauge(
            "tidelog_maintenance_silent_seconds",
            "Seconds since maintenance last gave a sign of life, if its next round is overdue; else 0.",
            registry=registry,
        )
        silent.set_function(lambda: self._silent_ms() / 1000)

    async def look(self) -> MaintenanceLook:
        """Return what is known, after a look at the store if the last one was a minute ago. Raises nothing."""
        async with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._looked_ms is None or now_ms - self._looked_ms >= LOOK_EVERY_MS:
                self._looked_ms = now_ms
                with contextlib.suppress(StoreError):  # what was known stays; that the store fails is shown elsewhere
                    self._take_in(await asyncio.to_thread(read_sign, self._store))
        return MaintenanceLook(state=self._state(), sign=self._sign)

    def _take_in(self, found: MaintenanceSign | None) -> None:
        if found is not None and found != self._sign:
            age_ms = 0 if self._sign is not None else max(0, self._clock.now_ms() - found.seen_at)
            self._put_ms = self._clock.monotonic_ms() - age_ms
        self._sign, self._has_answer = found, True

    def _silent_ms(self) -> int:
        return 0 if self._sign is None else self._sign.silent_ms(self._clock.monotonic_ms() - self._put_ms)

    def _state(self) -> MaintenanceState:
        if not self._has_answer:
            return "unknown"
        if self._sign is None:
            return "never"
        if self._silent_ms():
            return "overdue"
        return "single" if self._sign.interval_ms is None else "regular"
