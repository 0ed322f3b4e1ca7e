"""Recording of audit events: appends them to ``__audit`` as a producer does, and creates the topic if it is missing.

1. A batch whose outcome is unknown is sent again under the same stamp (``OwnTopic``), so its events are in the log once. Batches
   are sent one after another.
2. While the store fails, events wait in the trail, within its bound.
3. Events are readable within ``flush.ms`` and a commit of their arrival; those of failed logins and signatures within that of the
   time at which they are combined.
4. ``record_durably`` returns once an event is in the log: for administration that must not go unrecorded (``audit=required``).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import msgspec

from gateway.audit.event import AuditEvent
from gateway.audit.trail import AuditTrail, QueuedEvent
from gateway.engine.administration import Administration
from gateway.engine.open_topics import OpenTopics
from gateway.engine.own_topic import OwnRecord, OwnTopic
from gateway.engine.producer_ids import ProducerIds
from gateway.tasks.supervised import run_supervised
from log_format.clock import Clock
from log_format.errors import BackOff, StoreError, TidelogError
from log_format.layout import AUDIT_TOPIC

PAUSE_MS: Final = 1_000
"""Pause between two rounds, unless failed logins are to be written sooner."""
BACK_OFF_MS: Final = 2_000
"""Pause after a failure."""
BATCH_BYTES_MAX: Final = 512 * 1024
BATCH_EVENTS_MAX: Final = 2_000
LAST_FLUSH_MS_MAX: Final = 3_000
"""Time that a gateway that shuts down tries to write waiting events."""
_CONFIG: Final[Mapping[str, object]] = MappingProxyType({"retention.ms": 90 * 86_400_000})
"""Settings with which gateways create the topic."""

_log = logging.getLogger("gateway.audit")


class AuditRecorder:
    """Writer of the audit trail. Call ``start`` once the engine runs, ``stop`` once it has drained. Used on the event loop
    only."""

    def __init__(
        self,
        trail: AuditTrail,
        topics: OpenTopics,
        administration: Administration,
        producer_ids: ProducerIds,
        *,
        clock: Clock,
        is_required: bool = False,
        back_off_ms: int = BACK_OFF_MS,
    ) -> None:
        self._trail = trail
        self._topic = OwnTopic(AUDIT_TOPIC, topics, administration, producer_ids, clock=clock, config=_CONFIG)
        self.is_required = is_required
        """Whether administration is recorded before it is done."""
        self._back_off_ms = back_off_ms
        self._taken: list[QueuedEvent] = []
        """The batch in progress: after an error the same events are appended again."""
        self._watched: dict[QueuedEvent, asyncio.Future[None]] = {}
        self._failing = False
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Create the topic, and write events from now on."""
        self._running = asyncio.create_task(run_supervised(self._round, "the audit trail"))

    async def stop(self) -> None:
        """Write waiting events, for at most ``LAST_FLUSH_MS_MAX``. Idempotent."""
        running, self._running = self._running, None
        if running is None:
            return
        running.cancel()
        await asyncio.wait((running,))
        self._trail.tell_all()
        try:
            async with asyncio.timeout(LAST_FLUSH_MS_MAX / 1000):
                await self._flush()
        except (TimeoutError, TidelogError, StoreError) as error:
            _log.error("the last %d bytes of audit events are lost: %s", self._trail.size_bytes, error)

    def note(self, event: AuditEvent) -> None:
        """Record an event soon. If there is no room for it, it is dropped and counted."""
        self._trail.note(event)

    async def record_durably(self, event: AuditEvent) -> None:
        """Wait until the event is in the log. Raise ``BackOff`` if the next try to write it fails."""
        await self._written(self._trail.note(event))

    async def record_signatures(self, event: AuditEvent) -> None:
        """Record soon that ``event.count`` URLs are given: combined with others for one caller and topic.

        Where recording is required, wait until the log has an event of the last minute for them. Raise ``BackOff`` if the next
        try to write it fails.
        """
        if self.is_required and self._trail.is_new(event):
            await self._written(self._trail.add(msgspec.structs.replace(event, count=0)))
            self._trail.note_told(event)
        if event.count:
            self._trail.note(event)

    async def _written(self, entry: QueuedEvent | None) -> None:
        if entry is None:
            raise _unwritten()
        watch = self._watched[entry] = asyncio.get_running_loop().create_future()
        try:
            await watch
        finally:
            del self._watched[entry]

    async def _round(self) -> None:
        try:
            await self._topic.open()
            await self._flush()
        except (TidelogError, StoreError) as error:
            if not self._failing:
                _log.warning("audit events can't be written, and wait: %s", error)
            self._failing = True
            for entry, watch in self._watched.items():
                self._trail.withdraw(entry)
                if not watch.done():
                    watch.set_exception(_unwritten())
            await asyncio.sleep(self._back_off_ms / 1000)
            return
        if self._failing:
            _log.info("audit events are written again")
        self._failing = False
        with suppress(TimeoutError):
            async with asyncio.timeout(self._trail.due_in_ms(PAUSE_MS) / 1000):
                await self._trail.came.wait()

    async def _flush(self) -> None:
        """Write all waiting events. Raise ``TidelogError``, ``StoreError``: the rest then keeps waiting."""
        while self._taken or (taken := self._trail.take(BATCH_BYTES_MAX, BATCH_EVENTS_MAX)):
            self._taken = self._taken or taken
            await self._append(self._taken)
            self._trail.release(self._taken)
            for entry in self._taken:
                watch = self._watched.get(entry)
                if watch is not None and not watch.done():
                    watch.set_result(None)
            self._taken = []

    async def _append(self, entries: list[QueuedEvent]) -> None:
        await self._topic.append([OwnRecord(time_ms=entry.time_ms, value=entry.value) for entry in entries])


def _unwritten() -> BackOff:
    return BackOff(
        "The audit trail can't be written now, and with audit=required nothing that it must tell is done without it."
    )
