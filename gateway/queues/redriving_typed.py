"""Redrive of a typed topic's dead letters: judges them by the newest schemas, and produces each that fits to the topic, once.

A queue that reads topics of dead letters, and has none of its own, keeps the account: a letter is settled by the transaction that
produces it, and one that is refused again is not settled, so it stays.

1. A letter is known by its proof, which covers its partition and a number: the partition's end as the gateway saw it. So the
   letter is at its number's offset or behind it, and a copy of it is behind the letter. Letters with the same proof are looked
   for from ``LOOK_BACK`` offsets before the queue's start on; one with a number below that is not proved.
2. Letters that a receiver holds are left out, and none that is redriven is received meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from gateway.call import second_part
from gateway.engine.open_topic import OpenTopic
from gateway.engine.producer_ids import ProducerIds
from gateway.engine.read_records import ReadLimits
from gateway.queues.bounds import PUBLISHED_BYTES_MAX, PUBLISHED_RECORDS_MAX
from gateway.queues.dead_letters import headers_of, with_headers
from gateway.queues.letter_proofs import TYPED_PROOF_HEADER, TYPED_PURPOSE, Headers, LetterProofs
from gateway.queues.live_queue import LiveQueue
from gateway.queues.queue_partition import HeldRange, QueuePartition
from gateway.queues.redriving import PRODUCE, STOP, Redriver, RedriveRequest
from gateway.typed_topics.reader_cache import ReaderCache
from log_format.errors import BackOff, RequestRefused, TidelogError
from log_format.queues.row import QueueSettings
from log_format.queues.runs import RELEASED, SETTLED, Run
from log_format.records.filter import HeaderCondition, RecordFilter
from log_format.topic.config import DEAD_LETTERS_SUFFIX
from log_format.topic.state import TopicState
from log_format.transactions.staged_records import StagedRecords

LETTER_PREFIX: Final = "tidelog."
LOOK_BACK: Final = 10_000
"""Offsets before the queue's start from which letters are read, to know copies of them."""
LETTERS_MAX: Final = 100_000
"""Most letters of a partition that one call looks at: it remembers their proofs, in 12 MiB."""


def sources_of(settings: QueueSettings) -> tuple[str, ...] | None:
    """Return the typed topics whose dead letters a queue reads; None if it is another queue."""
    is_of_letters = all(name.endswith(DEAD_LETTERS_SUFFIX) for name in settings.topics)
    if settings.dead_letter_topic is not None or not is_of_letters:
        return None
    return tuple(name.removesuffix(DEAD_LETTERS_SUFFIX) for name in settings.topics)


class Redriven(NamedTuple):
    """Letters that were produced again, and those that were refused again and stay."""

    redriven: int
    refused: int = 0


@dataclass(slots=True)
class _TopicRedrive:
    """One call's redrive of one topic's letters."""

    queue: LiveQueue
    wanted: RedriveRequest
    letters: OpenTopic
    source: str
    target: OpenTopic
    proofs: LetterProofs
    room: int
    """Letters that may still be produced."""
    redriven: int = 0
    refused: int = 0


class _Letters(NamedTuple):
    """Letters among the records of one partition. ``problem``: why the record behind them ends the redrive."""

    records: pa.Table
    headers: Sequence[Headers]
    problem: RequestRefused | None

    def at(self, rows: Sequence[int]) -> _Letters:
        """Return some of them."""
        return _Letters(self.records.take(pa.array(rows, pa.int64())), [self.headers[row] for row in rows], None)


@dataclass(frozen=True, slots=True)
class TypedRedriver:
    """Redrives of typed topics' letters. Used on the event loop only."""

    redriver: Redriver
    readers: ReaderCache
    producer_ids: ProducerIds

    async def redrive(self, queue: LiveQueue, wanted: RedriveRequest) -> Redriven:
        """Produce dead letters again. Once some were produced, a failure only ends the redrive.

        Raises ``RequestRefused`` (``UNKNOWN_TOPIC``, a record without proof, a target that may not be one, ``INVALID_CONFIG`` for
        a subject without schemas), what ``require_write`` raises, ``BackOff``, ``OutcomeUnknown``.
        """
        parts, room = self.redriver.parts, LETTERS_MAX if wanted.records_max is None else wanted.records_max
        redriven = refused = 0
        async with queue.redriving:
            if parts.clock.monotonic_ms() < queue.quiet_until_ms:
                raise BackOff(f"Locks that another gateway gave for queue {queue.name!r} have not ended yet.")
            if not await self.redriver.dead_letters.resolve(queue):
                raise BackOff(f"An earlier redrive of queue {queue.name!r} has not ended yet.")
            with second_part():
                for name in queue.settings.topics:
                    one: _TopicRedrive | None = None
                    try:
                        one = await self._begin(queue, name, wanted, room - redriven)
                        for partition in range(one.letters.state.partition_count):
                            await self._redrive_partition(one, partition)
                    except TidelogError:
                        if not redriven and not (one and one.redriven):
                            raise
                        break
                    finally:
                        if one is not None:
                            redriven, refused = redriven + one.redriven, refused + one.refused
            parts.metrics.redriven.inc(redriven)
            return Redriven(redriven, refused)

    async def _begin(self, queue: LiveQueue, name: str, wanted: RedriveRequest, room: int) -> _TopicRedrive:
        now_ms = self.redriver.parts.clock.monotonic_ms()
        source = name.removesuffix(DEAD_LETTERS_SUFFIX)
        letters = await self.redriver.topics.fresh(name, now_ms)
        state = letters.require_state()
        target = await self.redriver.target(wanted.to_topic or source, wanted)
        typed = await self.redriver.topics.fresh(source, now_ms)
        proofs = await proofs_of_topic(self.producer_ids, typed.state.topic_id or "", state.existing_id)
        return _TopicRedrive(queue, wanted, letters, source, target, proofs, room)

    async def _redrive_partition(self, one: _TopicRedrive, partition: int) -> None:
        state = one.letters.state
        log_start, end = state.log_start(partition), state.high_watermark(partition)
        share = one.queue.share(one.letters.name, (state.existing_id, partition), log_start)
        lowest = offset = max(log_start, share.start - LOOK_BACK)
        seen: set[bytes] = set()
        limits = ReadLimits(records_max=PUBLISHED_RECORDS_MAX, bytes_max=PUBLISHED_BYTES_MAX)
        while offset < end and one.room > 0 and len(seen) < LETTERS_MAX:
            found = await self.redriver.reading.read(one.letters, state, partition, offset, limits)
            offset = found.next_offset
            if not found.tables:
                continue
            letters = _select(one, share, pa.concat_tables(found.tables), lowest, seen)
            if letters.headers:
                await self._redrive_letters(one, share, letters)
            if letters.problem is not None:
                raise letters.problem

    async def _redrive_letters(self, one: _TopicRedrive, share: QueuePartition, letters: _Letters) -> None:
        """Produce the letters that fit, and settle them, in one transaction."""
        state = one.target.require_state()
        misfits = await self.readers.misfits(state.config.subjects, letters.records)
        fit = [row for row in range(len(letters.headers)) if row not in misfits]
        one.refused += len(letters.headers) - len(fit)
        offsets = letters.records.column("offset").to_pylist()
        fit = [row for row in fit if _is_free(share, offsets[row])][: one.room]
        if not fit:
            return
        held = [share.hold(HeldRange(offsets[row], offsets[row], _count_at(share, offsets[row]))) for row in fit]
        try:
            staged = self._staged(letters.at(fit), state)
            change = share.change([Run(range_.first, range_.last, SETTLED) for range_ in held])
            await self.redriver.publishing.publish(one.queue, [staged], [change])
            one.queue.follow()
        finally:
            for range_ in held:
                share.release(range_)
        one.redriven += len(fit)
        one.room -= len(fit)

    def _staged(self, letters: _Letters, state: TopicState) -> StagedRecords:
        """Return the letters as they were sent, for the partitions to which they were sent."""
        kept = [[one for one in some if not one[0].startswith(LETTER_PREFIX)] for some in letters.headers]
        places = [_header(some, "partition") for some in letters.headers]
        partitions = np.array([int(place) % state.partition_count for place in places], np.int32)
        records = with_headers(letters.records, kept, self.redriver.parts.clock.now_ms())
        return StagedRecords(
            topic=state.topic, topic_id=state.existing_id, records=records.combine_chunks(), partitions=partitions
        )


async def proofs_of_topic(producer_ids: ProducerIds, topic_id: str, letters_id: str) -> LetterProofs:
    """Return the proofs of a typed topic's letters in a topic of dead letters, by the ids of both. Raises ``BackOff``."""
    return LetterProofs(await producer_ids.key_for(TYPED_PURPOSE), topic_id, letters_id, TYPED_PROOF_HEADER)


def _select(one: _TopicRedrive, share: QueuePartition, table: pa.Table, lowest: int, seen: set[bytes]) -> _Letters:
    """Return the letters to redrive among the next records of a partition, from the offset ``lowest`` on.

    ``seen``: proofs of the letters before them, to which theirs are added.
    """
    of_source = RecordFilter(headers=(HeaderCondition(f"{LETTER_PREFIX}topic", one.source.encode()),))
    mine = table.take(pa.array(np.flatnonzero(of_source.mask(table))))
    offsets, keys, values = (mine.column(name).to_pylist() for name in ("offset", "key", "value"))
    found, taken = headers_of(mine), list[int]()
    problem = None
    for row, headers in enumerate(found):
        number = one.proofs.number(share.partition, keys[row], values[row], headers)
        proof = headers[-1][1] or b""
        is_proved = number is not None and lowest <= number <= offsets[row] and proof not in seen
        if is_proved:
            seen.add(proof)
        if offsets[row] < share.start or not _is_free(share, offsets[row]):
            continue
        if not is_proved and one.wanted.unproved == STOP:
            problem = RequestRefused(
                f"The record at partition {share.partition}, offset {offsets[row]} claims to be a dead letter of topic "
                f"{one.source!r}, without proof: it was written by another program or an earlier release. "
                '`"unproved": "skip"` leaves such records where they are, `"produce"` redrives them.'
            )
            break
        if (is_proved or one.wanted.unproved == PRODUCE) and _header(headers, "partition").isdecimal():
            taken.append(row)
    return _Letters(mine, found, problem).at(taken)._replace(problem=problem)


def _header(headers: Headers, name: str) -> str:
    """Return what a letter's header says; empty without it."""
    wanted = f"{LETTER_PREFIX}{name}"
    return next((value.decode(errors="replace") for key, value in headers if key == wanted and value), "")


def _is_free(share: QueuePartition, offset: int) -> bool:
    """Return whether the record is neither settled nor held."""
    run = share.run_at(offset)
    return share.holder(offset) is None and (run is None or run.state == RELEASED)


def _count_at(share: QueuePartition, offset: int) -> int:
    run = share.run_at(offset)
    return 0 if run is None else run.count
