"""Events that wait to be written: at most ``AUDIT_BYTES_MAX``. Events that do not fit are dropped and counted.

1. All but administration and vending leave a quarter of the room free: a client without rights can't displace administration.
2. Failed logins of one source become one event, within ``LOGINS_HELD_MS`` of the first. The source's next event follows at least
   ``LOGINS_APART_MS`` later. Beyond ``SOURCES_MAX`` sources, the other sources become a single one, without a name.
3. Events are taken in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.audit.event import AuditEvent, encode_event
from log_format.clock import Clock

AUDIT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Some 15,000 events: as many as a store's outage of minutes leaves."""
ENTRY_BYTES: Final = 128
"""Memory of one event in addition to its text."""
LOGINS_HELD_MS: Final = 6_000
"""Longest time that failed logins are combined: an event is readable within 10 s of the first attempt that it counts."""
LOGINS_APART_MS: Final = 9_700
"""Least time between two events of one source: ten seconds, less the time until the second one is readable."""
SOURCES_MAX: Final = 4_096
"""Most sources of failed logins that are told apart: 2 MiB of addresses and first attempts."""


@dataclass(frozen=True, slots=True, eq=False)
class QueuedEvent:
    """One waiting event: its time, and its text."""

    time_ms: int
    value: bytes

    @property
    def size_bytes(self) -> int:
        """Memory of the event."""
        return len(self.value) + ENTRY_BYTES


class _Logins:
    """Failed logins of one source: the first that is not written yet, their number, and when the last event was written."""

    __slots__ = ("count", "due_ms", "first", "written_ms")

    def __init__(self) -> None:
        self.first: AuditEvent | None = None
        self.count = 0
        self.due_ms = 0
        self.written_ms: int | None = None


class AuditTrail:
    """The waiting events. Used on the event loop only."""

    def __init__(self, *, clock: Clock, registry: CollectorRegistry, bytes_max: int = AUDIT_BYTES_MAX) -> None:
        self._clock = clock
        self._bytes_max = bytes_max
        self._entries: deque[QueuedEvent] = deque()
        self._logins: dict[str | None, _Logins] = {}
        self.size_bytes = 0
        """Memory of the waiting events, including those being written."""
        self.came = asyncio.Event()
        """Set when an event waits."""
        self._dropped = Counter(
            "tidelog_audit_events_dropped", "Audit events dropped because the buffer was full.", registry=registry
        )
        self._events = Counter("tidelog_audit_events", "Audit events, by kind.", ("kind",), registry=registry)
        waiting = Gauge(
            "tidelog_audit_waiting_bytes",
            "Bytes of audit events that are not yet written to __audit.",
            registry=registry,
        )
        waiting.set_function(lambda: self.size_bytes)

    def note(self, event: AuditEvent) -> QueuedEvent | None:
        """Keep an event until it is written. Return None if it is dropped for lack of room, and for failed logins, which are
        combined."""
        self._events.labels(event.kind).inc()
        if event.kind == "failed_login":
            self._note_login(event)
            return None
        return self._add(event)

    def due_in_ms(self, span_ms: int) -> int:
        """Return in how many milliseconds failed logins become an event, at most ``span_ms``."""
        now_ms = self._clock.monotonic_ms()
        due = (logins.due_ms - now_ms for logins in self._logins.values() if logins.first is not None)
        return max(0, min(span_ms, min(due, default=span_ms)))

    def take(self, bytes_max: int, count_max: int) -> list[QueuedEvent]:
        """Return the oldest events, about ``bytes_max`` at most. They occupy their room until ``written`` is called."""
        self._tell_logins()
        taken: list[QueuedEvent] = []
        size = 0
        while self._entries and size < bytes_max and len(taken) < count_max:
            entry = self._entries.popleft()
            size += entry.size_bytes
            taken.append(entry)
        if not self._entries:
            self.came.clear()
        return taken

    def release(self, entries: list[QueuedEvent]) -> None:
        """Release the room of events that are in the log."""
        for entry in entries:
            self.size_bytes -= entry.size_bytes

    def withdraw(self, entry: QueuedEvent) -> None:
        """Drop the event if it is still queued."""
        if entry in self._entries:
            self._entries.remove(entry)
            self.size_bytes -= entry.size_bytes

    def _add(self, event: AuditEvent) -> QueuedEvent | None:
        entry = QueuedEvent(event.time, encode_event(event))
        room = self._bytes_max if event.kind in ("administration", "vending") else self._bytes_max * 3 // 4
        if self.size_bytes + entry.size_bytes > room:
            self._dropped.inc()
            return None
        self._entries.append(entry)
        self.size_bytes += entry.size_bytes
        self.came.set()
        return entry

    def _note_login(self, event: AuditEvent) -> None:
        logins = self._logins.get(event.source)
        if logins is None:
            if len(self._logins) >= SOURCES_MAX and event.source is not None:
                self._note_login(msgspec.structs.replace(event, source=None))
                return
            logins = self._logins[event.source] = _Logins()
        if logins.first is None:
            now_ms = self._clock.monotonic_ms()
            written_ms = -LOGINS_APART_MS if logins.written_ms is None else logins.written_ms
            logins.first, logins.due_ms = event, max(now_ms + LOGINS_HELD_MS, written_ms + LOGINS_APART_MS)
        logins.count += 1

    def _tell_logins(self) -> None:
        now_ms = self._clock.monotonic_ms()
        for source, logins in list(self._logins.items()):
            if logins.first is not None and logins.due_ms <= now_ms:
                self._add(msgspec.structs.replace(logins.first, count=logins.count))
                logins.first, logins.count, logins.written_ms = None, 0, now_ms
            elif (
                logins.first is None and logins.written_ms is not None and now_ms - logins.written_ms > LOGINS_APART_MS
            ):
                del self._logins[source]
