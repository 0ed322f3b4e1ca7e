"""Redrive: produces the letters that the queue has put into its dead letter topic again, each once.

The progress of a redrive in a partition is a position in ``system/queues``. It moves by the transaction that produces the
records.

1. Others may write into the dead letter topic, too. A letter of the queue is known by its proof, and by nothing else that the
   record says. A record that claims to be of this queue without a proof ends the redrive, unless the caller wants otherwise.
2. Each target is judged as if the caller had named it: the caller must have the Write right, a reserved name is no target, and
   without ``to_topic`` the target is one of the queue's topics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.call import second_part
from gateway.engine.open_topic import OpenTopic
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.read_records import ReadLimits
from gateway.queues.bounds import PUBLISHED_BYTES_MAX, PUBLISHED_RECORDS_MAX
from gateway.queues.dead_letters import QUEUE_HEADER, DeadLetters, headers_of, route_records, with_headers
from gateway.queues.letter_proofs import PREFIX, Headers, LetterProofs
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.publishing import QueuePublisher
from log_format.access.acls import RESERVED
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError, UnknownTopic
from log_format.queues.row import RedrivePosition
from log_format.records.filter import HeaderCondition, RecordFilter
from log_format.topic_name import is_topic_name
from log_format.transactions.staged_records import StagedRecords

STOP: Final = "stop"
SKIP: Final = "skip"
PRODUCE: Final = "produce"
UNPROVED: Final = (STOP, SKIP, PRODUCE)
"""Choices for a record that claims to be the queue's letter and has no proof."""

_log = logging.getLogger("gateway.queues")


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """A caller's request to redrive."""

    to_topic: str | None
    """Target topic; None: each letter goes to its own topic."""
    records_max: int | None
    unproved: str
    require_write: Callable[[str], None]
    """Function that raises ``Unauthorized`` for a topic that the caller may not write."""


@dataclass(frozen=True, slots=True)
class _RedriveBatch:
    """Dead letters of one partition that one transaction produces, and the position after it."""

    position: RedrivePosition
    records: pa.Table
    has_skipped: bool


@dataclass(frozen=True, slots=True)
class Redriver:
    """Redrives of queues. Used on the event loop only."""

    parts: QueueParts
    publishing: QueuePublisher
    dead_letters: DeadLetters
    topics: OpenTopics
    reading: PartitionReader

    async def redrive(self, queue: LiveQueue, wanted: RedriveRequest) -> int:
        """Produce dead letters again; return how many. Once some were produced, a failure only ends the redrive.

        Raises ``RequestRefused`` (``NO_DEAD_LETTER_TOPIC``, ``UNKNOWN_TOPIC``, a letter or a target that may not be one), what
        ``require_write`` raises, ``BackOff``, ``OutcomeUnknown``.
        """
        async with queue.redriving:
            letters = await self._letters(queue)
            if wanted.to_topic is not None:
                await self.target(wanted.to_topic, wanted)
            if not await self.dead_letters.resolve(queue):
                raise BackOff(f"An earlier redrive of queue {queue.name!r} has not ended yet.")
            proofs = await self.dead_letters.proofs(queue, letters.state)
            done = 0
            with second_part():
                try:
                    for partition in range(letters.state.partition_count):
                        while wanted.records_max is None or done < wanted.records_max:
                            left = PUBLISHED_RECORDS_MAX if wanted.records_max is None else wanted.records_max - done
                            judging = _LetterSelection(queue, wanted, proofs, min(left, PUBLISHED_RECORDS_MAX))
                            piece = await self._next(judging, letters, partition)
                            if piece is None:
                                break
                            staged = await self._staged(piece.records, wanted)
                            await self.publishing.publish(queue, staged, (), [piece.position])
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
            what = (
                "has no dead letter topic." if name is None else f"has no dead letter topic: {name!r} does not exist."
            )
            raise RequestRefused(f"Queue {queue.name!r} {what}", code=ErrorCode.NO_DEAD_LETTER_TOPIC)
        return topic

    async def target(self, name: str, wanted: RedriveRequest) -> OpenTopic:
        """Return the topic to produce to. Raises ``RequestRefused``, ``UnknownTopic``, what ``require_write`` raises."""
        wanted.require_write(name)
        if name.startswith(RESERVED):
            raise RequestRefused(f"Topic {name[:100]!r} is reserved: dead letters are not produced to it.")
        if not is_topic_name(name):
            raise UnknownTopic(name[:100])
        topic = await self.topics.fresh(name, self.parts.clock.monotonic_ms())
        topic.require_state()
        return topic

    async def _next(self, judging: _LetterSelection, letters: OpenTopic, partition: int) -> _RedriveBatch | None:
        """Return what the next transaction produces; None at the end of the partition."""
        state = letters.state
        begin = RedrivePosition(state.existing_id, partition, 0)
        position = judging.queue.queue.positions.get(begin.key, begin)
        offset = max(state.log_start(partition), position.next_offset)
        limits = ReadLimits(records_max=PUBLISHED_RECORDS_MAX, bytes_max=PUBLISHED_BYTES_MAX)
        while offset < state.high_watermark(partition):
            found = await self.reading.read(letters, state, partition, offset, limits)
            offset = found.next_offset
            if found.tables:
                piece = judging.piece(pa.concat_tables(found.tables), position, offset)
                if piece.records.num_rows or piece.has_skipped:
                    return piece
        return None

    async def _staged(self, records: pa.Table, wanted: RedriveRequest) -> Sequence[StagedRecords]:
        headers = headers_of(records)
        targets = [wanted.to_topic or _own_topic(some) for some in headers]
        now_ms = self.parts.clock.now_ms()
        staged = []
        for name in dict.fromkeys(targets):
            topic = await self.target(name, wanted)
            rows = [row for row, target in enumerate(targets) if target == name]
            kept = [[header for header in headers[row] if not header[0].startswith(PREFIX)] for row in rows]
            table = with_headers(records.take(pa.array(rows)), kept, now_ms)
            staged.append(route_records(table, topic.state, topic.next_sticky_number()))
        return staged


@dataclass(frozen=True, slots=True)
class _LetterSelection:
    """Choice of a dead letter topic's records that are redriven."""

    queue: LiveQueue
    wanted: RedriveRequest
    proofs: LetterProofs
    records_max: int

    def piece(self, table: pa.Table, position: RedrivePosition, next_offset: int) -> _RedriveBatch:
        """Return the piece to redrive of the records of one partition from ``position`` to ``next_offset``.

        The piece has all letters, at most ``records_max``, or those before a record that ends the redrive. Raises
        ``RequestRefused`` if that record is the first one.
        """
        of_queue = RecordFilter(headers=(HeaderCondition(QUEUE_HEADER, self.queue.name.encode()),))
        mine = table.take(pa.array(np.flatnonzero(of_queue.mask(table))))
        offsets, keys, values = (mine.column(name).to_pylist() for name in ("offset", "key", "value"))
        number_due = position.next_number
        taken: list[int] = []
        skipped: list[int] = []
        for row, headers in enumerate(headers_of(mine)):
            number = self.proofs.number(position.partition, keys[row], values[row], headers)
            is_proved = number is not None and number_due <= number <= offsets[row]
            if not is_proved and self.wanted.unproved == SKIP:
                skipped.append(offsets[row])
                continue
            problem = self._problem(is_proved, headers, f"partition {position.partition}, offset {offsets[row]}")
            if problem is not None:
                if not taken and not skipped:
                    raise problem
                next_offset = offsets[row]
                break
            number_due = number + 1 if is_proved and number is not None else number_due
            taken.append(row)
            if len(taken) == self.records_max:
                next_offset = offsets[row] + 1
                break
        if skipped:
            _log.warning(
                "redrive of queue %s passes %d records that say to be its dead letters: partition %d, from offset %d on",
                self.queue.name,
                len(skipped),
                position.partition,
                skipped[0],
            )
        moved = RedrivePosition(position.topic_id, position.partition, next_offset, number_due)
        return _RedriveBatch(moved, mine.take(pa.array(taken, pa.int64())), bool(skipped))

    def _problem(self, is_proved: bool, headers: Headers, place: str) -> RequestRefused | None:
        """Return why the record at ``place`` ends the redrive; None if it does not."""
        name = self.queue.name
        if not is_proved and self.wanted.unproved == STOP:
            return RequestRefused(
                f"The record at {place} claims to be a dead letter of queue {name!r}, without proof: it was written "
                "by another program "
                'or an earlier release. `"unproved": "skip"` skips such records, `"produce"` redrives them.'
            )
        topic = _own_topic(headers)
        if self.wanted.to_topic is None and topic not in self.queue.settings.topics:
            return RequestRefused(
                f"The dead letter at {place} names topic {topic[:100]!r}, which queue {name!r} does not read. "
                "Redrive it with `to_topic` and `max_records` 1, or give the queue that topic."
            )
        return None


def _own_topic(headers: Headers) -> str:
    return next((value.decode(errors="replace") for name, value in headers if name == f"{PREFIX}topic" and value), "")
