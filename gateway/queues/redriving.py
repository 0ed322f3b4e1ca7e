"""Produces dead letters again: what the queue has put into its dead letter topic, each once.

How far a partition of that topic is redriven is a position in ``system/queues``. It moves by the transaction that produces.

A dead letter's header is data that others may have written. So each target is judged as if the caller had named it: its Write
is needed, a reserved name is no target, and without ``to_topic`` the target is one of the queue's topics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gateway.call import second_part
from gateway.engine.open_topic import OpenTopic
from gateway.engine.read_records import ReadLimits
from gateway.engine.reading import Reading
from gateway.engine.registry import TopicRegistry, is_topic_name
from gateway.queues.bounds import PUBLISHED_BYTES_MAX, PUBLISHED_RECORDS_MAX
from gateway.queues.dead_letters import PREFIX, QUEUE_HEADER, DeadLetters, headers_of, routed, with_headers
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.publishing import Publishing
from log_format.access.acls import RESERVED
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError, UnknownTopic
from log_format.queues.row import RedrivePosition
from log_format.records.filter import HeaderCondition, RecordFilter
from log_format.records.schema import RECORD_SCHEMA
from log_format.transactions.staged_records import StagedRecords

RequireWrite = Callable[[str], None]
"""Raises ``Unauthorized`` for a topic that the caller of the redrive may not write."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """Dead letters of one partition, up to ``next_offset``."""

    partition: int
    records: pa.Table
    next_offset: int


@dataclass(frozen=True, slots=True)
class Redriving:
    """Belongs to the event loop."""

    parts: QueueParts
    publishing: Publishing
    dead_letters: DeadLetters
    topics: TopicRegistry
    reading: Reading

    async def redrive(
        self, queue: LiveQueue, to_topic: str | None, records_max: int | None, require_write: RequireWrite
    ) -> int:
        """How many records were produced. Once some were, a failure only ends it.

        Raises ``RequestRefused`` (``NO_DEAD_LETTER_TOPIC``, ``UNKNOWN_TOPIC``, a target that may not be one), what
        ``require_write`` raises, ``BackOff``, ``OutcomeUnknown``.
        """
        async with queue.redriving:
            letters = await self._letters(queue)
            if to_topic is not None:
                await self._target(to_topic, require_write)
            if not await self.dead_letters.resolve(queue):
                raise BackOff(f"An earlier redrive of queue {queue.name!r} is not at its end.")
            done = 0
            with second_part():
                try:
                    for partition in range(letters.state.partition_count):
                        while records_max is None or done < records_max:
                            left = PUBLISHED_RECORDS_MAX if records_max is None else records_max - done
                            piece = await self._next(queue, letters, partition, left)
                            if piece is None:
                                break
                            if to_topic is None:
                                piece = _of_own_topics(piece, queue)
                            position = RedrivePosition(letters.state.topic_id or "", partition, piece.next_offset)
                            staged = await self._staged(piece.records, to_topic, require_write)
                            await self.publishing.publish(queue, staged, (), [position])
                            done += piece.records.num_rows
                except TidelogError:
                    if not done:
                        raise
            self.parts.metrics.redriven.inc(done)
            return done

    async def _letters(self, queue: LiveQueue) -> OpenTopic:
        name = queue.settings.dead_letter_topic
        topic = None if name is None else await self.topics.fresh(name, self.parts.clock.monotonic_ms())
        if topic is None or not topic.state.exists:
            raise RequestRefused(f"Queue {queue.name!r} has no dead letter topic.", code=ErrorCode.NO_DEAD_LETTER_TOPIC)
        return topic

    async def _target(self, name: str, require_write: RequireWrite) -> OpenTopic:
        require_write(name)
        if name.startswith(RESERVED):
            raise RequestRefused(f"Topic {name[:100]!r} is reserved: dead letters are not produced to it.")
        if not is_topic_name(name):
            raise UnknownTopic(name[:100])
        topic = await self.topics.fresh(name, self.parts.clock.monotonic_ms())
        topic.existing()
        return topic

    async def _next(self, queue: LiveQueue, letters: OpenTopic, partition: int, records_max: int) -> _Piece | None:
        """What one transaction produces; None at the end of the partition."""
        state = letters.state
        assert state.topic_id is not None
        known = queue.queue.positions.get((state.topic_id, partition))
        offset = max(state.log_start(partition), 0 if known is None else known.next_offset)
        while offset < state.high_watermark(partition):
            piece = await self._read(queue, letters, partition, offset, min(records_max, PUBLISHED_RECORDS_MAX))
            if piece.records.num_rows:
                return piece
            offset = piece.next_offset
        return None

    async def _read(
        self, queue: LiveQueue, letters: OpenTopic, partition: int, offset: int, records_max: int
    ) -> _Piece:
        limits = ReadLimits(records_max=PUBLISHED_RECORDS_MAX, bytes_max=PUBLISHED_BYTES_MAX)
        found = await self.reading.read(letters, letters.state, partition, offset, limits)
        if not found.tables:
            return _Piece(partition, RECORD_SCHEMA.empty_table(), found.next_offset)
        table = pa.concat_tables(found.tables)
        of_queue = RecordFilter(headers=(HeaderCondition(QUEUE_HEADER, queue.name.encode()),))
        mine = np.flatnonzero(of_queue.mask(table))[:records_max]
        is_cut = len(mine) == records_max
        records = table.take(pa.array(mine))
        next_offset = records.column("offset")[len(mine) - 1].as_py() + 1 if is_cut else found.next_offset
        return _Piece(partition, records, next_offset)

    async def _staged(
        self, records: pa.Table, to_topic: str | None, require_write: RequireWrite
    ) -> Sequence[StagedRecords]:
        headers = headers_of(records)
        targets = [to_topic or _own_topic(some) for some in headers]
        now_ms = self.parts.clock.now_ms()
        staged = []
        for name in dict.fromkeys(targets):
            topic = await self._target(name, require_write)
            rows = [row for row, target in enumerate(targets) if target == name]
            kept = [[header for header in headers[row] if not header[0].startswith(PREFIX)] for row in rows]
            table = with_headers(records.take(pa.array(rows)), kept, now_ms)
            staged.append(routed(table, topic.state, topic.next_in_turn()))
        return staged


def _of_own_topics(piece: _Piece, queue: LiveQueue) -> _Piece:
    """Cut the piece before the first letter that names another topic than the queue's. Raises ``RequestRefused`` at that one."""
    names = [_own_topic(headers) for headers in headers_of(piece.records)]
    foreign = next((row for row, name in enumerate(names) if name not in queue.settings.topics), None)
    if foreign is None:
        return piece
    offset = piece.records.column("offset")[foreign].as_py()
    if foreign == 0:
        raise RequestRefused(
            f"The dead letter at partition {piece.partition}, offset {offset} names topic {names[0][:100]!r}, which queue "
            f"{queue.name!r} does not read. Redrive it with `to_topic` and `max_records` 1, or give the queue that topic."
        )
    return _Piece(piece.partition, piece.records.slice(0, foreign), offset)


def _own_topic(headers: Sequence[tuple[str, bytes | None]]) -> str:
    return next((value.decode(errors="replace") for name, value in headers if name == f"{PREFIX}topic" and value), "")
