"""The newest records of topics, within bounds, for a statement: fetched from the end of each partition backwards.

1. A topic's records are divided among its partitions: each gives its newest ones. What a short partition does not use goes to the
   others.
2. Nothing beyond the ends that the topic had at the first look is read. One block is held in memory, within the budget of
   answers.
3. When the bytes or the time are used up, older records are left out: ``OffsetSpan`` says what was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from gateway.engine.fetch_answer import Fetched, FetchFrom, FetchLimits
from gateway.engine.fetcher import Fetcher
from gateway.engine.open_topic import OpenTopic
from gateway.engine.start_resolver import StartResolver
from gateway.memory_budget import Memory
from gateway.problem import refused
from log_format.clock import Clock
from log_format.errors import OffsetOutOfRange, TidelogError
from log_format.records.schema import RECORD_SCHEMA
from log_format.topic.config import UNTYPED, Subjects

TOPICS_MAX: Final = 8
PARTITIONS_MAX: Final = 1_000
"""Most partitions of a topic. Each costs a read."""
RECORDS_MAX: Final = 50_000
"""Most records of a topic."""
BYTES_MAX: Final = 32 * 1024 * 1024
"""Most bytes of keys, values and headers of all topics, in equal shares. The last record read of a partition may exceed it."""
READ_MS_MAX: Final = 10_000
BLOCK_RECORDS: Final = 10_000
BLOCK_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class OffsetSpan:
    """The part of a partition that was read: from ``offset`` up to ``next_offset``, which is the partition's end."""

    partition: int
    log_start: int
    next_offset: int
    offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.offset = self.next_offset


@dataclass(slots=True)
class ReadTopic:
    """The part of a topic that was read. ``record_count`` may be less than the number of offsets: key compaction leaves gaps."""

    name: str
    spans: list[OffsetSpan]
    subjects: Subjects = UNTYPED
    """Subjects of the topic's values and keys."""
    record_count: int = 0
    size_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return all(span.offset <= span.log_start for span in self.spans)


Take = Callable[[ReadTopic, pa.Table], Awaitable[None]]
"""Function that receives a topic and records of one of its partitions (``RECORD_SCHEMA``), in order of offset. Of a typed topic
without records it gets an empty table."""


class NewestReader:
    """Reader of the newest records for one statement. ``memory``: budget of answers."""

    def __init__(self, locating: StartResolver, fetching: Fetcher, memory: Memory, clock: Clock) -> None:
        self._locating = locating
        self._fetching = fetching
        self._memory = memory
        self._clock = clock
        self._arrival_ms = clock.monotonic_ms()
        self._until_ms = self._arrival_ms + READ_MS_MAX

    async def read(
        self, topics: tuple[str, ...], *, records_max: int, timestamp_ms: int | None, take: Take
    ) -> list[ReadTopic]:
        """Read the newest records of each topic.

        Args:
            topics: Names of the topics.
            records_max: Most records of each topic.
            timestamp_ms: Time before which records are left out, if any.
            take: Receives the records.

        Returns:
            The part of each topic that was read.

        Raises:
            RequestRefused: There are too many topics or partitions.
            TidelogError: A topic's error.
        """
        if len(topics) > TOPICS_MAX:
            raise refused(
                f"The statement names {len(topics)} topics; the most is {TOPICS_MAX}.", [("/sql", "names too many")]
            )
        looked = await self._locating.fresh([FetchFrom(topic=name, partition=0) for name in topics], self._arrival_ms)
        found = []
        for name in topics:
            topic = looked[name]
            if isinstance(topic, TidelogError):
                raise topic
            found.append(await self._read_topic(topic, records_max, timestamp_ms, BYTES_MAX // len(topics), take))
        return found

    async def _read_topic(
        self, topic: OpenTopic, records_max: int, timestamp_ms: int | None, bytes_max: int, take: Take
    ) -> ReadTopic:
        state = topic.require_state()
        if state.partition_count > PARTITIONS_MAX:
            what = f"{topic.name} has {state.partition_count} partitions; the most is {PARTITIONS_MAX}"
            raise refused(f"{what}.", [("/sql", what)])
        spans = [
            OffsetSpan(number, log_start=state.log_start(number), next_offset=state.high_watermark(number))
            for number in range(state.partition_count)
        ]
        found = ReadTopic(topic.name, spans, state.config.subjects)
        by_length = sorted(spans, key=lambda span: span.next_offset - span.log_start)
        for left, span in zip(range(len(spans), 0, -1), by_length, strict=True):
            share = max(1, (records_max - found.record_count) // left)
            begin = max(span.log_start, span.next_offset - share)
            if timestamp_ms is not None and begin < span.next_offset:
                begin = max(begin, await self._offset_at(topic.name, span.partition, timestamp_ms))
            await self._read_partition(found, span, begin, (bytes_max - found.size_bytes) // left, take)
        if found.subjects.are_set and not found.record_count:
            await take(found, RECORD_SCHEMA.empty_table())
        return found

    async def _offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int:
        wanted = FetchFrom(topic=topic, partition=partition, timestamp_ms=timestamp_ms)
        return (await self._locating.resolve_one(wanted, self._arrival_ms)).offset

    async def _read_partition(self, found: ReadTopic, span: OffsetSpan, begin: int, bytes_max: int, take: Take) -> None:
        """Read block by block, the newest first. A block that is not read whole is requested again, as a smaller one."""
        size = BLOCK_RECORDS
        while begin < span.offset and bytes_max > 0 and self._clock.monotonic_ms() < self._until_ms:
            start = max(begin, span.offset - size)
            wanted = FetchFrom(topic=found.name, partition=span.partition, offset=start)
            limits = FetchLimits(
                records_max=span.offset - start, bytes_max=min(BLOCK_BYTES, bytes_max), bytes_min=0, wait_ms_max=0
            )
            answer = await self._fetching.fetch([wanted], limits, self._memory, self._arrival_ms)
            with answer.reservation:
                (part,) = answer.parts
                if isinstance(part, OffsetOutOfRange):  # retention has deleted records meanwhile
                    return
                if isinstance(part, TidelogError):
                    raise part
                if part.records.next_offset < span.offset and span.offset - start > 1:
                    size = max(1, min(part.records.next_offset - start, (span.offset - start) // 2))
                    continue
                table = _records_before(part, span.offset)
                if table.num_rows:
                    await take(found, table)
            span.offset = start
            found.record_count += table.num_rows
            found.size_bytes += part.records.size_bytes
            bytes_max -= part.records.size_bytes


def _records_before(part: Fetched, end: int) -> pa.Table:
    """Return the records before the offset: a fetch may continue beyond it, behind a gap."""
    tables = part.records.tables
    table = pa.concat_tables(tables) if tables else RECORD_SCHEMA.empty_table()
    offsets = table["offset"]
    if table.num_rows and offsets[-1].as_py() >= end:
        table = table.slice(0, sum(offset < end for offset in offsets.to_pylist()))
    return table
