"""Reading of old records past the gateway: segments straight from the store, by a gateway's plan.

A consumer far behind the tail asks a gateway for a plan, reads the segments by the plan's URLs, checks their CRCs and decodes
them itself. This keeps gateways free for producers and for readers at the tail. Whenever this path fails (a store out of reach,
a replaced segment, records that only a journal has), the gateway serves the records instead. Slow reads over a network are
hedged: asked twice (``HedgedReads``).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from log_format.clock import SystemClock
from log_format.errors import CorruptData, StoreError
from log_format.layout import topic_root
from tidelog import limits
from tidelog.bodies.chunk import Chunk
from tidelog.calls.fetch import Fetched, FetchLimits
from tidelog.calls.history import Plan, PlannedSegment, plan_history
from tidelog.deadline import Deadline
from tidelog.errors import RequestRefused
from tidelog.http.object_urls import ObjectUrls
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Transport
from tidelog.types.record import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from log_format.segments.reader import SegmentReader
    from log_format.store import ObjectReader

_logger = logging.getLogger("tidelog.consumer")


@dataclass(slots=True)
class _CachedPlan:
    """Last plan of a partition. After a plan that was not worthwhile, none is requested before ``again_at`` (monotonic
    seconds)."""

    plan: Plan
    start_offset: int
    """Offset for which the plan was requested: it covers no earlier records."""
    asked_at: float
    again_at: float


class History:
    """Reader of old records for one consumer, used by one thread at a time. Needs pyarrow.

    ``store``: the store as this process reaches it itself, a directory or ``s3://…``; None: read by the plan's URLs.
    """

    def __init__(self, transport: Transport, *, store: str | None, ca_file: str | None, timeout_ms: float) -> None:
        self._transport = transport
        self._store = store
        self._urls = ObjectUrls(ca_file=ca_file, timeout_ms=timeout_ms)
        self._known: dict[TopicPartition, _CachedPlan] = {}
        self._reader: SegmentReader | None = None
        self._paused_until = 0.0
        self._closed = False

    def read(
        self,
        place: TopicPartition,
        offset: int,
        fetch_limits: FetchLimits,
        deadline: Deadline,
        *,
        routing_key: RoutingKey,
    ) -> Fetched | None:
        """Return records from ``offset`` on, or None if the gateway has to serve them.

        Raises what ``Transport.call`` raises, except ``RequestRefused``.
        """
        if time.monotonic() < self._paused_until:
            return None
        try:
            known = self._planned(place, offset, deadline, routing_key)
        except RequestRefused as refusal:
            # An older gateway or a proxy that knows no plans. If the partition itself is refused, the fetch raises that.
            _logger.info(
                "old records are read through the gateway, which gave no plan for the store: %s", refusal.detail
            )
            self._remember(place, _CachedPlan(Plan(0, offset), offset, 0.0, time.monotonic() + limits.HISTORY_AGAIN_S))
            return None
        if known is None:
            return None
        try:
            return self._read(place, offset, known.plan, fetch_limits)
        except CorruptData as error:
            # The segment may have been replaced meanwhile; if it is damaged, the gateway reports it.
            _logger.info(
                "a segment is read through the gateway, since reading it from the store failed: %s", error.detail
            )
            known.plan, known.again_at = (
                Plan(known.plan.high_watermark, offset),
                time.monotonic() + limits.HISTORY_AGAIN_S,
            )
        except (StoreError, OSError) as error:
            if self._closed:
                return None
            _logger.warning(
                "old records are read through the gateway for a while, since the store can't be read from here: %s",
                error,
            )
            self._paused_until = time.monotonic() + limits.HISTORY_REST_S
        return None

    def forget(self, place: TopicPartition) -> None:
        """Drop the partition's plan."""
        self._known.pop(place, None)

    def close(self) -> None:
        """Abort reads under way, and close the connections."""
        self._closed = True
        self._urls.close()

    def _planned(
        self, place: TopicPartition, offset: int, deadline: Deadline, routing_key: RoutingKey
    ) -> _CachedPlan | None:
        now = time.monotonic()
        known = self._known.get(place)
        if known is not None:
            is_young = now - known.asked_at < limits.HISTORY_PLAN_S_MAX
            if is_young and offset >= known.start_offset and _segment_of(known.plan, offset) is not None:
                return known
            if now < known.again_at:
                return None
        plan = plan_history(
            self._transport, place, offset, limits.HISTORY_PLAN_BYTES, deadline, routing_key=routing_key
        )
        readable = self._store is not None or all(segment.url is not None for segment in plan.segments)
        worth = readable and sum(segment.stored_bytes for segment in plan.segments) >= limits.HISTORY_BYTES_MIN
        if not worth:
            self._remember(
                place, _CachedPlan(Plan(plan.high_watermark, offset), offset, now, now + limits.HISTORY_AGAIN_S)
            )
            return None
        return self._remember(place, _CachedPlan(plan, offset, now, now))

    def _remember(self, place: TopicPartition, known: _CachedPlan) -> _CachedPlan:
        if len(self._known) >= limits.HISTORY_PLANS_MAX:
            self._known.pop(next(iter(self._known)))
        self._known[place] = known
        return known

    def _read(self, place: TopicPartition, offset: int, plan: Plan, fetch_limits: FetchLimits) -> Fetched | None:
        from log_format.segments.run import SegmentRef  # noqa: PLC0415

        reader = self._segment_reader()
        self._urls.urls = {segment.key: segment.url for segment in plan.segments if segment.url is not None}
        root = topic_root(place.topic)
        while (segment := _segment_of(plan, offset)) is not None:
            if not segment.key.startswith(root):
                raise CorruptData(f"The plan names {segment.key}, which does not belong to the topic.")
            records = reader.read(
                place.topic,
                SegmentRef(
                    segment.key.removeprefix(root), segment.size_bytes, segment.footer.position, segment.footer.crc32
                ),
                place.partition,
                max(offset, segment.start_offset),
                bytes_max=fetch_limits.bytes_max,
                records_max=fetch_limits.records_max,
                end_offset=segment.end_offset,
            )
            if records.num_rows:
                next_offset = records.column("offset")[-1].as_py() + 1
                chunk = Chunk(place, [], _as_fetched(records), next_offset)
                return Fetched(place, chunk, next_offset, plan.high_watermark, plan.topic_id)
            offset = segment.end_offset  # key compaction removed all its records
        return Fetched(place, None, offset, plan.high_watermark, plan.topic_id)

    def _segment_reader(self) -> SegmentReader:
        if self._reader is None:
            from log_format.segments.reader import SegmentReader  # noqa: PLC0415 - needs pyarrow
            from log_format.stores.hedged import HedgedReads  # noqa: PLC0415
            from log_format.stores.open import open_store  # noqa: PLC0415

            source: ObjectReader = self._urls if self._store is None else open_store(self._store, must_exist=True)
            if self._store is None or self._store.startswith("s3:"):
                source = HedgedReads(source, threads=1, clock=SystemClock())
            self._reader = SegmentReader(source, footer_cache_bytes=limits.HISTORY_FOOTERS_BYTES)
        return self._reader


def _segment_of(plan: Plan, offset: int) -> PlannedSegment | None:
    """Return the segment that contains ``offset``, or the next one; None if the plan ends before."""
    return next((segment for segment in plan.segments if segment.end_offset > offset), None)


def _as_fetched(records: pa.Table) -> pa.Table:
    """Return the records with the column types of a gateway's answer: timestamps in milliseconds."""
    import pyarrow as pa  # noqa: PLC0415

    at = records.schema.get_field_index("timestamp")
    column = records.column(at).cast(pa.timestamp("ms", tz="UTC"))
    return records.set_column(at, pa.field("timestamp", column.type), column)
