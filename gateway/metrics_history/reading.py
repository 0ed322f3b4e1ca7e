"""Reads the intervals of a time from ``__metrics``, at the coarsest resolution that fits the steps.

1. Of the records with one key the last is valid; records that are no intervals are left out, since with ``auth=off`` anyone can
   append some.
2. At most ``RECORDS_MAX`` records and ``BYTES_MAX`` bytes are looked at, oldest first; an answer says whether that was all. The
   memory is reserved before.
3. The last unwritten minutes are not there: at most ``WRITE_MINUTES`` of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Final, NamedTuple

import pyarrow as pa

from gateway.engine.answer_memory import reserve_for_store
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.memory_budget import Memory
from gateway.metrics_history.interval import Interval, decode_interval
from gateway.metrics_history.recorder import MetricsRecorder
from gateway.metrics_history.rollups import RESOLUTIONS_MS
from gateway.metrics_history.series import By, Grid, Series, series_of
from log_format.clock import Clock
from log_format.errors import DECODE_ERRORS
from log_format.layout import METRICS_TOPIC

RECORDS_MAX: Final = 50_000
BYTES_MAX: Final = 16 * 1024 * 1024
_PIECE_BYTES: Final = 1024 * 1024
_OBSERVATIONS_MAX: Final = 2**53
_HELD_BYTES: Final = BYTES_MAX + _PIECE_BYTES


class History(NamedTuple):
    """Series, the length of the intervals that they are made of, and whether all intervals of the time were looked at."""

    series: list[Series]
    resolution_ms: int
    is_complete: bool


class HistoryReader:
    """Reader of the topic. ``count_own``: told the number of records read, which are no consumer's. Used on the event loop."""

    def __init__(
        self,
        topics: OpenTopics,
        reading: PartitionReader,
        *,
        clock: Clock,
        pool: Executor,
        count_own: Callable[[int], None],
    ) -> None:
        self._topics = topics
        self._reading = reading
        self._clock = clock
        self._pool = pool
        self._count_own = count_own

    async def read(self, names: list[str], grid: Grid, by: By, memory: Memory) -> History:
        """Return the named series over the grid; without a topic there are none. Raise what ``PartitionReader.read`` raises."""
        partition = partition_for(grid.step_ms)
        with await reserve_for_store(memory, _HELD_BYTES):
            values, is_complete = await self._values(partition, grid)
            run = asyncio.get_running_loop().run_in_executor
            series = await run(self._pool, lambda: series_of(names, _intervals(values), grid, by))
        return History(series, RESOLUTIONS_MS[partition], is_complete)

    async def _values(self, partition: int, grid: Grid) -> tuple[dict[bytes, bytes], bool]:
        """Return the last value of each key from the grid's start on."""
        topic = await self._topics.fresh(METRICS_TOPIC, self._clock.monotonic_ms())
        state = topic.state
        values: dict[bytes, bytes] = {}
        if not state.exists or partition >= state.partition_count:
            return values, True
        offset = await self._reading.offset_of_timestamp(topic, state, partition, grid.since_ms)
        end = state.high_watermark(partition)
        record_count, size_bytes = 0, 0
        while offset is not None and offset < end:
            if record_count >= RECORDS_MAX or size_bytes >= BYTES_MAX:
                return values, False
            limits = ReadLimits(records_max=RECORDS_MAX - record_count, bytes_max=_PIECE_BYTES)
            found = await self._reading.read(topic, state, partition, offset, limits)
            self._count_own(found.record_count)
            record_count, size_bytes = record_count + found.record_count, size_bytes + found.size_bytes
            last_ms = 0
            for table in found.tables:
                values |= dict(zip(_column(table, "key"), _column(table, "value"), strict=True))
                last_ms = table.column("timestamp")[-1].value // 1000 if table.num_rows else last_ms
            if found.next_offset == offset or last_ms - RESOLUTIONS_MS[-1] > grid.until_ms:
                break
            offset = found.next_offset
            await asyncio.sleep(0)
        return values, True


def partition_for(step_ms: int) -> int:
    """Return the partition with the longest intervals that the step is a multiple of. A step has whole minutes."""
    return max(number for number, length_ms in enumerate(RESOLUTIONS_MS) if step_ms % length_ms == 0)


def _column(table: pa.Table, name: str) -> list[bytes]:
    return [value or b"" for value in table.column(name).to_pylist()]


def _intervals(values: dict[bytes, bytes]) -> list[Interval]:
    found = []
    for value in values.values():
        try:
            interval = decode_interval(value)
        except DECODE_ERRORS:
            continue
        if all(map(_are_observations, interval.latencies.values())):
            found.append(interval)
    return found


def _are_observations(buckets: Mapping[str, int]) -> bool:
    try:
        return all(float(bound) > 0 and 0 < count < _OBSERVATIONS_MAX for bound, count in buckets.items())
    except ValueError:
        return False


class MetricsHistory(NamedTuple):
    """The history of metrics. ``recorder``: None with ``metrics_history=off``; what other gateways write is read all the same."""

    recorder: MetricsRecorder | None
    reader: HistoryReader
