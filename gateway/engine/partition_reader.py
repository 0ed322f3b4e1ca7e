"""Reads of a partition from an offset on: from the tail cache if it has the offset, else from the store.

1. Records read lie below the high watermark of one state: all are committed, and none is skipped. A state's manifest is shared
   with newer states. So if the manifest shows nothing at an offset, the newest log start decides: an offset below it is
   refused (410). Only gaps left by key compaction and repairs are passed over; any other gap is an error. Records in memory
   are served only if the table still has them. Below the offset up to which keys were compacted or records erased the tail
   cache is not used. Records read ahead are used while their segment is in the table.
2. Limits are exact and count whole records: at most ``records_max`` and ``bytes_max`` (keys, values, headers). With
   ``at_least_one`` the first record comes whatever its size.
3. Records read from the store do not enter the tail cache.
4. With a filter the limits count the records that pass, and ``next_offset`` moves past the others. Filtering takes steps,
   between which the event loop serves other requests. A filter's records are copies unless a whole run passes, so they keep no
   other records in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa

from gateway.engine.bounds import (
    COLD_RUNS_PER_READ_MAX,
    LOOK_RUN_BYTES,
    LOOK_STEP_BYTES,
    READ_AHEAD_BYTES_MAX,
    READ_AHEAD_PIECE_BYTES,
    READ_AHEAD_RECORDS,
    EngineBounds,
)
from gateway.engine.metrics import EngineMetrics
from gateway.engine.open_topic import OpenTopic
from gateway.engine.pool import Pool
from gateway.engine.read_ahead import DecodedPiece, ReadAhead, decoded_piece
from gateway.engine.read_records import ReadLimits, Records, take
from gateway.engine.tail_cache import Original, TailCache, TailRun
from log_format.clock import Clock
from log_format.errors import BackOff, CorruptData, OffsetOutOfRange, StoreUnavailable, UnknownTopic
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.limits import ROW_GROUP_BYTES_MAX
from log_format.manifest.manifest import LocatedRun
from log_format.records.size import head_within
from log_format.segments.reader import SegmentReader
from log_format.topic.state import TopicState

T = TypeVar("T")


class PartitionReader:
    """Reads of partitions. Used on the event loop only; reads of the store run in the pool."""

    def __init__(
        self,
        tail: TailCache,
        reader: SegmentReader,
        journals: JournalReader,
        *,
        pool: Pool,
        clock: Clock,
        metrics: EngineMetrics,
        bounds: EngineBounds,
    ) -> None:
        self._bounds = bounds
        self._tail = tail
        self._ahead = ReadAhead(READ_AHEAD_BYTES_MAX)
        self._reader = reader
        self._journals = journals
        self._pool = pool
        self._clock = clock
        self._from_memory = metrics.read_records.labels("memory")
        self._from_store = metrics.read_records.labels("store")
        self._store_errors = metrics.store_errors.labels("read")

    async def read(
        self, topic: OpenTopic, state: TopicState, partition: int, offset: int, limits: ReadLimits
    ) -> Records:
        """Return the records from ``offset`` on, up to the limits or the high watermark of ``state``.

        ``offset`` is in ``[log start, high watermark]``. Raises ``CorruptData`` when a segment is missing or damaged,
        ``BackOff`` when the store can't be read, ``OffsetOutOfRange`` (410) and ``UnknownTopic`` when the records were deleted
        meanwhile. With something to answer already it raises ``UnknownTopic`` only.
        """
        found = Records(offset)
        deadline_ms = limits.store_until_ms
        if deadline_ms is None:
            deadline_ms = self._clock.monotonic_ms() + self._bounds.cold_read_ms_max
        cold_runs = 0
        while (is_done := self._take_from_memory(state, partition, found, limits)) is not True:
            if is_done is None:
                await asyncio.sleep(0)
                continue
            is_late = self._clock.monotonic_ms() > deadline_ms
            if cold_runs >= COLD_RUNS_PER_READ_MAX or (is_late and (cold_runs or not limits.at_least_one)):
                found.is_full = True
                break
            cold_runs += 1
            try:
                if not await self._take_from_store(topic, state, partition, found, limits):
                    break
            except (CorruptData, BackOff, OffsetOutOfRange):
                if found.record_count:
                    found.is_full = True
                    break
                raise
        return found

    def read_from_memory(self, state: TopicState, partition: int, offset: int, limits: ReadLimits) -> Records | None:
        """Return what ``read`` returns if all of it is in memory, so that the answer takes no memory of its own; else None."""
        found = Records(offset)
        if limits.filter is not None and offset < state.high_watermark(partition):
            return None  # Records that pass a filter are copied.
        return found if self._take_from_memory(state, partition, found, limits) else None

    def originals(self, topic_id: str, partition: int, start: int, end: int) -> list[Original]:
        """Return the originals of ``[start, end)`` that are cached (``TailCache.originals``).

        The caller has read the same records, so it knows that they are committed and that none was compacted since.
        """
        return self._tail.originals(topic_id, partition, start, end)

    def is_at_tail(self, state: TopicState, partition: int, offset: int) -> bool:
        """Return whether the record at the offset is among the newest, which are in memory or just about to be."""
        return self._tail.begins_by(state.existing_id, partition, offset)

    def count_history(self, record_count: int) -> None:
        """Count old records that another process read; 0: the store gave that process none."""
        (self._from_store if record_count else self._store_errors).inc(record_count or 1)

    async def offset_of_timestamp(
        self, topic: OpenTopic, state: TopicState, partition: int, timestamp_ms: int
    ) -> int | None:
        """Return the first offset, from the log start on, with a timestamp of at least ``timestamp_ms``; None if there is none.

        Raises what ``read`` raises.
        """
        offset, end = state.log_start(partition), state.high_watermark(partition)
        for _ in range(COLD_RUNS_PER_READ_MAX):
            located = state.manifest.find_timestamp(partition, offset, timestamp_ms)
            if located is None or located.base_offset >= end:
                return None
            start = max(offset, located.base_offset)

            def find(run: LocatedRun, start: int = start) -> int | None:
                if run.journal is not None:
                    return _first_from(self._in_journal(run, state, partition), start, timestamp_ms)
                return self._reader.find_timestamp(topic.name, run.segment, partition, start, timestamp_ms)

            def find_again(start: int = start) -> LocatedRun | None:
                return topic.state.manifest.find_timestamp(partition, start, timestamp_ms)

            found, located = await self._from_segment(topic, state, located, find, find_again)
            if found is not None:
                return found
            # Reached only if the log start lies after the record for which the run is listed.
            offset = located.end_offset
        raise BackOff(f"Finding timestamp {timestamp_ms} in {topic.name}/{partition} takes too many reads.")

    def _take_from_memory(self, state: TopicState, partition: int, found: Records, limits: ReadLimits) -> bool | None:
        """Take what fits and is in memory; return False when the next record is in the store, or its value has to be made; None
        after one step of a filter."""
        end, table_end = state.high_watermark(partition), state.table_end(partition)
        step_end = found.looked_bytes + LOOK_STEP_BYTES
        while (offset := found.next_offset) < end:
            has_looked = limits.filter is not None and found.looked_bytes >= limits.looked_bytes_max
            if found.record_count >= limits.records_max or has_looked:
                found.is_full = True
                return True
            run = self._tail.find(state.existing_id, partition, offset) if offset >= table_end else None
            if run is not None:
                if not run.flush.is_complete:
                    return False
                fits = self._take_from_tail(run, found, limits)
            else:
                piece = self._ahead.find(state.existing_id, partition, offset)
                if piece is None:
                    return False
                if offset < table_end and not state.manifest.has_all((piece.path,)):
                    self._ahead.drop(piece)
                    continue
                fits = self._take_from_piece(piece, found, limits)
            if not fits or found.is_full:
                return True
            if limits.filter is not None:
                step_end -= LOOK_RUN_BYTES
                if found.looked_bytes >= step_end:
                    return None
        return True

    def _take_from_tail(self, run: TailRun, found: Records, limits: ReadLimits) -> bool:
        """Take what fits of a run in memory; return False when not even the next record fits."""
        first = run.first_row + found.next_offset - run.base_offset
        last = run.first_row + run.end_offset - run.base_offset
        count = take(run.flush.records, run.flush.size_sums(), range(first, last), found, limits)
        found.next_offset += count
        self._from_memory.inc(count)
        return count > 0

    def _take_from_piece(self, piece: DecodedPiece, found: Records, limits: ReadLimits) -> bool:
        """Take what fits of a piece of an old segment; return False when not even the next record fits."""
        first = piece.row_of(found.next_offset)
        last = len(piece.offsets)
        count = take(piece.table, piece.size_sums, range(first, last), found, limits)
        if first + count == last:
            found.next_offset = piece.end_offset
            return True
        if count:
            found.next_offset = int(piece.offsets[first + count - 1]) + 1
        return count > 0

    async def _take_from_store(
        self, topic: OpenTopic, state: TopicState, partition: int, found: Records, limits: ReadLimits
    ) -> bool:
        """Take what fits of the next run in the store; return False when not even the next record fits."""
        end = state.high_watermark(partition)
        offset = found.next_offset
        run = self._tail.find(state.existing_id, partition, offset)
        if run is not None and not run.flush.is_complete and offset >= state.table_end(partition):
            await self._pool.run(run.flush.complete)
            return True
        located = state.manifest.find(partition, offset)
        if located is None or located.base_offset > offset:
            await topic.fresh(self._clock.monotonic_ms())
            _check_not_deleted(topic, state, partition, offset)
            located = topic.state.manifest.find(partition, offset)  # Records that were drained meanwhile are there.
            topic.state.check_gap(partition, offset, end if located is None else min(end, located.base_offset))
        if located is None or located.base_offset >= end:
            found.next_offset = end  # Key compaction left nothing up to there.
            return True
        if limits.filter is None:
            bytes_max = max(limits.bytes_max - found.size_bytes, READ_AHEAD_PIECE_BYTES)
        else:
            bytes_max = ROW_GROUP_BYTES_MAX
        records_max = max(limits.records_max - found.record_count, READ_AHEAD_RECORDS)

        def read(run: LocatedRun) -> DecodedPiece:
            start = max(offset, run.base_offset)
            if run.journal is not None:
                records = self._in_journal(run, state, partition).slice(start - run.base_offset)
                table = head_within(records, bytes_max=bytes_max, records_max=records_max)
                return decoded_piece(table, offset, min(run.end_offset, end), run.segment.path)
            table = self._reader.read(
                topic.name,
                run.segment,
                partition,
                start,
                bytes_max=bytes_max,
                records_max=records_max,
                # A run that replaced this one meanwhile may go on beyond the watermark of this read.
                end_offset=min(run.end_offset, end),
            )
            return decoded_piece(table, offset, min(run.end_offset, end), run.segment.path)

        def find_again() -> LocatedRun | None:
            _check_not_deleted(topic, state, partition, offset)
            # Not in the manifest of ``state``: after a new load of the log that manifest does not learn of replacements.
            return topic.state.manifest.find(partition, offset)

        piece, _ = await self._from_segment(topic, state, located, read, find_again)
        _check_dense(topic, state, partition, piece)
        self._from_store.inc(piece.table.num_rows)
        while fits := self._take_from_piece(piece, found, limits):
            if found.is_full or found.next_offset >= piece.end_offset:
                break
            await asyncio.sleep(0)  # The next step of a filter follows.
        if found.next_offset < piece.end_offset:
            self._ahead.add(state.existing_id, partition, piece)
        return fits

    async def _from_segment(
        self,
        topic: OpenTopic,
        state: TopicState,
        located: LocatedRun,
        read: Callable[[LocatedRun], T],
        find_again: Callable[[], LocatedRun | None],
    ) -> tuple[T, LocatedRun]:
        """Return what ``read`` returns for a run, and the run. If the run's segment was replaced, both are those of the
        replacement."""
        try:
            return await self._on_store(read, located), located
        except CorruptData:
            await topic.fresh_with_table()
            if topic.state.topic_id != state.topic_id:
                raise UnknownTopic(topic.name) from None
            again = find_again()
            if again is None or again.segment == located.segment:
                raise
        return await self._on_store(read, again), again

    def _in_journal(self, run: LocatedRun, state: TopicState, partition: int) -> pa.Table:
        """Return all records of a run that only a journal has. Raises ``CorruptData``, ``StoreUnavailable``."""
        assert run.journal is not None
        return self._journals.read(
            JournalRunRef(run.journal, run.segment, state.existing_id, partition, run.base_offset)
        )

    async def _on_store(self, read: Callable[[LocatedRun], T], located: LocatedRun) -> T:
        try:
            async with asyncio.timeout(self._bounds.store_wait_ms_max / 1000):
                return await self._pool.run(read, located)
        except TimeoutError:
            self._store_errors.inc()
            raise BackOff("The store did not return a segment in time.") from None
        except StoreUnavailable as problem:
            self._store_errors.inc()
            raise BackOff(f"The store did not return a segment: {problem.detail}.") from problem


def _check_not_deleted(topic: OpenTopic, state: TopicState, partition: int, offset: int) -> None:
    """Raise ``OffsetOutOfRange`` or ``UnknownTopic`` if the topic as known now has deleted the record that ``state`` had."""
    newest = topic.state
    if newest.topic_id != state.topic_id:
        raise UnknownTopic(topic.name)
    log_start = newest.log_start(partition)
    if offset < log_start:
        raise OffsetOutOfRange(topic.name, partition, offset, log_start, newest.high_watermark(partition))


def _check_dense(topic: OpenTopic, state: TopicState, partition: int, piece: DecodedPiece) -> None:
    """Raise ``CorruptData`` if a piece lacks records that nothing removed.

    If any are missing, raises what ``_check_not_deleted`` raises first.
    """
    if len(piece.offsets) == piece.end_offset - piece.start_offset:
        return
    _check_not_deleted(topic, state, partition, piece.start_offset)
    offset = max(piece.start_offset, int(topic.state.keys_compacted[partition]))
    there = piece.offsets[piece.row_of(offset) :]
    missing = np.flatnonzero(there != offset + np.arange(len(there)))
    first = int(missing[0]) if len(missing) else len(there)
    end = int(there[first]) if first < len(there) else piece.end_offset
    topic.state.check_gap(partition, offset + first, end)


def _first_from(records: pa.Table, start: int, timestamp_ms: int) -> int | None:
    """Return the first offset from ``start`` on with a timestamp of at least ``timestamp_ms``, None if there is none."""
    offsets = records.column("offset").to_numpy()
    timestamps = records.column("timestamp").to_numpy().view(np.int64)
    found = np.flatnonzero((offsets >= start) & (timestamps >= timestamp_ms * 1000))
    return int(offsets[found[0]]) if len(found) else None
