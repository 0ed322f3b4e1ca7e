"""Events that wait to be written: at most ``AUDIT_BYTES_MAX``. Events that do not fit are dropped and counted.

1. All but administration and vending leave a quarter of the room free: a client without rights can't displace administration.
2. Failed logins of one source become one event, and the source's next event follows at least ``LOGINS_APART_MS`` later. Beyond
   ``SOURCES_MAX`` sources, the other sources become a single one, without a name.
3. Signatures for one caller, topic and route become one event, and then one a minute. Beyond ``SIGNED_MAX`` of these, events do
   not tell the route; beyond twice as many, nor the topic; beyond three times as many, nor the caller.
4. Events are taken in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from gateway.audit.combined import CombinedEvents
from gateway.audit.event import AuditEvent, encode_event
from log_format.clock import Clock

AUDIT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Some 15,000 events: as many as a store's outage of minutes leaves."""
ENTRY_BYTES: Final = 128
"""Memory of one event in addition to its text."""
LOGINS_APART_MS: Final = 9_700
"""Least time between two events of one source: ten seconds, less the time until the second one is readable."""
SOURCES_MAX: Final = 4_096
"""Most sources of failed logins that are told apart."""
SIGNATURES_APART_MS: Final = 60_000
"""Least time between two events of signatures for one caller and topic."""
SIGNED_MAX: Final = 1_000
"""Most callers and topics of signatures that are told apart."""


@dataclass(frozen=True, slots=True, eq=False)
class QueuedEvent:
    """One waiting event: its time, and its text."""

    time_ms: int
    value: bytes

    @property
    def size_bytes(self) -> int:
        """Memory of the event."""
        return len(self.value) + ENTRY_BYTES


class AuditTrail:
    """The waiting events. Used on the event loop only."""

    def __init__(self, *, clock: Clock, registry: CollectorRegistry, bytes_max: int = AUDIT_BYTES_MAX) -> None:
        self._clock = clock
        self._bytes_max = bytes_max
        self._entries: deque[QueuedEvent] = deque()
        self._combined: Mapping[str, CombinedEvents] = {
            "failed_login": CombinedEvents(("source",), apart_ms=LOGINS_APART_MS, groups_max=SOURCES_MAX, clock=clock),
            "signature": CombinedEvents(
                ("principal", "resource", "route"), apart_ms=SIGNATURES_APART_MS, groups_max=SIGNED_MAX, clock=clock
            ),
        }
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
        """Keep an event until it is written. Return None if it is dropped for lack of room, and for failed logins and signatures,
        which are combined."""
        combined = self._combined.get(event.kind)
        self._events.labels(event.kind).inc(1 if combined is None else event.count)
        if combined is None:
            return self.add(event)
        combined.note(event)
        return None

    def is_new(self, event: AuditEvent) -> bool:
        """Return whether nothing is in the log with which this signature is combined."""
        return self._combined[event.kind].is_new(event)

    def note_told(self, event: AuditEvent) -> None:
        """Combine later signatures with this one, which is in the log."""
        self._combined[event.kind].note_told(event)

    def add(self, event: AuditEvent) -> QueuedEvent | None:
        """Keep an event until it is written, combined with none. Return None if it is dropped for lack of room."""
        entry = QueuedEvent(event.time, encode_event(event))
        room = self._bytes_max if event.kind in ("administration", "vending") else self._bytes_max * 3 // 4
        if self.size_bytes + entry.size_bytes > room:
            self._dropped.inc()
            return None
        self._entries.append(entry)
        self.size_bytes += entry.size_bytes
        self.came.set()
        return entry

    def due_in_ms(self, span_ms: int) -> int:
        """Return in how many milliseconds combined events become one, at most ``span_ms``."""
        return min(combined.due_in_ms(span_ms) for combined in self._combined.values())

    def take(self, bytes_max: int, count_max: int) -> list[QueuedEvent]:
        """Return the oldest events, about ``bytes_max`` at most. They occupy their room until ``release`` is called."""
        self._tell()
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

    def tell_all(self) -> None:
        """Let all combined events wait to be written: nothing more comes."""
        self._tell(is_last=True)

    def _tell(self, *, is_last: bool = False) -> None:
        for combined in self._combined.values():
            for event in combined.take(is_last=is_last):
                self.add(event)
