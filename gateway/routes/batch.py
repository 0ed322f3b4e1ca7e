"""Conversion of a body's bytes to a batch of a topic: decode, then route for the topic's present state.

Large bodies are decoded in the codec pool. Others are decoded on the event loop, since a change of threads would cost more: a
decoding thread holds the interpreter's lock for up to 5 ms anyway, and each of its calls of numpy and Arrow releases the lock and
then waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from gateway.codec.delays import refuse_late, with_due_timestamps
from gateway.codec.incoming import IncomingRecords, Milliseconds
from gateway.codec.partitioning import route
from gateway.codec.record_checks import refuse_keyless, refuse_large, refuse_untimely
from gateway.engine.open_topic import OpenTopic
from gateway.log_engine import LogEngine
from gateway.typed_topics.typed_records import KnownReaders, MisfitRecords, TypedRecords, typed_records
from log_format.errors import ErrorCode, RequestRefused, UnknownPartition
from log_format.records.left_out import without_values
from log_format.records.partitioner import partition_for_key
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP_MS_MAX
from log_format.records.single import SingleRecord
from log_format.records.size import largest_record_bytes
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.topic.append import Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.config import UNTYPED
from log_format.topic.producers import ProducerStamp, SequenceCheck
from log_format.topic.state import TopicState

INLINE_BYTES_MAX: Final = 64 * 1024
"""Size above which a body is decoded and routed in a thread, unless it is sparse text."""
INLINE_TYPED_MAX: Final = 64
"""Number of records above which they are checked by their schemas in a thread: one document alone takes up to 30 µs."""
SPARSE_BYTES_MAX: Final = 256 * 1024
SPARSE_NODES_MAX: Final = 8192
"""Bounds of sparse JSON, by its bytes, and by its commas, brackets and escapes: it takes less time to decode than the densest
JSON of ``INLINE_BYTES_MAX``."""
_STATE_DEPENDENT_ERRORS: Final = (
    ErrorCode.INVALID_CONFIG,
    ErrorCode.INVALID_RECORD,
    ErrorCode.RECORD_TOO_LARGE,
    ErrorCode.REQUEST_TOO_LARGE,
    ErrorCode.UNKNOWN_PARTITION,
)
"""Refusals that may be due to a stale state of the topic."""

T = TypeVar("T")


class CodecWork(NamedTuple):
    """Place where a body is decoded: the event loop, or ``pool``."""

    is_inline: bool
    pool: Executor

    @classmethod
    def of(cls, body: bytes, pool: Executor, *, is_json: bool) -> CodecWork:
        """Choose by the body's size and density."""
        return cls(len(body) <= INLINE_BYTES_MAX or (is_json and _is_sparse(body)), pool)

    async def do(self, work: Callable[[], T]) -> T:
        """Run ``work`` there, and return its result."""
        if self.is_inline:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self.pool, work)


def _is_sparse(text: bytes) -> bool:
    if len(text) > SPARSE_BYTES_MAX:
        return False
    nodes = 0
    for mark in (b",", b"{", b"[", b"\\"):  # most dense texts are known by their commas alone
        nodes += text.count(mark)
        if nodes > SPARSE_NODES_MAX:
            return False
    return True


class Routing(NamedTuple):
    """Inputs of routing: the partition that the route names, the request's round-robin number, its arrival time.
    time.

    The producer's stamp and the expected offset are passed along.
    """

    partition: int | None
    turn: int
    arrived_at_ms: int
    stamp: ProducerStamp | None = None
    expected_offset: int | None = None
    is_staged: bool = False
    """Whether the records wait for their transaction, so that they are kept as they are."""


class RoutedRecords(NamedTuple):
    """The routed records. ``batch``: all of them; None: nothing to append. ``deliver_at``: each record's delivery time;
    ``NO_DELAY``: immediately."""

    batch: Batch | None
    deliver_at: Milliseconds | None = None
    has_letters: bool = False
    """Whether records are to go to the topic's dead letters: those with a ``data_error``."""

    def split(self, now_ms: int) -> tuple[DelayedRecords, DelayedRecords] | None:
        """Return all records, and those of them to be appended later; None if nothing is delayed.

        For a request with a producer stamp, all records are returned even if none is delayed now: an earlier try may have delayed
        some.
        """
        batch = self.batch
        if self.deliver_at is None or batch is None:
            return None
        is_later = self.deliver_at > now_ms
        if batch.stamp is None and not is_later.any():
            return None
        delayed = DelayedRecords(
            records=batch.records,
            partitions=batch.partitions,
            deliver_at=self.deliver_at,
            indices=np.arange(len(is_later), dtype=np.int64),
        )
        return delayed, delayed.where(is_later)


def with_records(batch: Batch, records: DelayedRecords) -> Batch | None:
    """Return the batch with these records instead of its own; None if nothing is left to append."""
    if not len(records) and batch.stamp is None:
        return None
    return Batch(
        topic_id=batch.topic_id,
        records=records.records,
        partitions=records.partitions,
        record_bytes_max=batch.record_bytes_max,
        partition_count=batch.partition_count,
        stamp=batch.stamp,
        expected_offset=batch.expected_offset,
        typed=None if batch.typed is None else batch.typed.take(pa.array(records.indices)),
        subjects=batch.subjects,
        has_left_out=batch.has_left_out,
    )


async def route_records(
    topic: OpenTopic, incoming: IncomingRecords, routing: Routing, codec: CodecWork, engine: LogEngine
) -> RoutedRecords:
    """Route the records for the topic's known state or, before refusing them, for its newest state.

    A repeat of a stored request goes on to the commit, which recognizes it: newer settings of the topic do not refuse it.

    Args:
        topic: The topic.
        incoming: The decoded records.
        routing: The request's inputs of routing.
        codec: Where to route them: inline, or in the codec pool.
        engine: The gateway's: its clock, and its readers of schemas.

    Raises:
        RequestRefused: The topic's newest settings or schemas refuse the records.
        UnknownPartition: The route names a partition that the topic lacks.
        TidelogError: As ``OpenTopic.fresh`` raises it.
    """
    state, is_stored, clock = topic.require_own_state(), False, engine.clock
    while True:
        try:
            return await _routed(incoming, state, routing, codec, engine, is_stored=is_stored)
        except RequestRefused as refusal:
            if refusal.code not in _STATE_DEPENDENT_ERRORS or is_stored:
                raise
            await topic.fresh(clock.monotonic_ms())
            newer = topic.require_state()
            is_stored = _is_duplicate(newer, routing.stamp, clock.now_ms())
            if not is_stored and (newer.partition_count, newer.config) == (state.partition_count, state.config):
                raise
            state = newer


async def _routed(
    incoming: IncomingRecords,
    state: TopicState,
    routing: Routing,
    codec: CodecWork,
    engine: LogEngine,
    *,
    is_stored: bool,
) -> RoutedRecords:
    """Route the records for a state of the topic, by the newest schemas. Raises ``RequestRefused``, ``UnknownPartition``,
    ``BackOff``."""
    subjects, arrival_ms = state.config.subjects, engine.clock.monotonic_ms()
    readers = KnownReaders(await engine.schema_readers.of(subjects)) if subjects.are_set and not is_stored else None
    while True:
        try:
            work = partial(batch_of, incoming, state, routing, readers, is_stored=is_stored)
            is_quick = readers is None or len(incoming) <= INLINE_TYPED_MAX
            return await (codec if is_quick else codec._replace(is_inline=False)).do(work)
        except MisfitRecords as misfit:
            assert readers is not None
            newer_readers = await engine.schema_readers.newer(subjects, misfit.misfits, readers.readers, arrival_ms)
            if newer_readers is not None:
                readers = KnownReaders(newer_readers)
            elif misfit.is_marked:
                readers = readers._replace(is_newest=True)
            else:
                raise misfit.refusal from None


def _is_duplicate(state: TopicState, stamp: ProducerStamp | None, now_ms: int) -> bool:
    if stamp is None:
        return False
    check = SequenceCheck(state.producers, now_ms, state.config.integer("producer.id.expiration.ms"))
    return isinstance(check.judge(stamp), Duplicate)


def batch_of(
    incoming: IncomingRecords,
    state: TopicState,
    routing: Routing,
    readers: KnownReaders | None = None,
    *,
    is_stored: bool = False,
) -> RoutedRecords:
    """Route the records for a state of the topic.

    ``readers``: readers of the topic's schemas; None: it has none. ``is_stored``: an earlier try stored the records, so neither
    schemas nor the topic's settings are looked at. Raises ``RequestRefused``, ``MisfitRecords``.
    """
    if readers is None and incoming.single is not None and incoming.partitions is None and incoming.delays is None:
        batch = _batch_of_single(incoming.single, state, routing, is_stored=is_stored)
        if batch is not None:
            return RoutedRecords(batch)
    if routing.partition is not None and routing.partition >= state.partition_count:
        raise UnknownPartition(state.topic, routing.partition, state.partition_count)
    if not len(incoming):
        # The sequence is used up by an empty request, too.
        return RoutedRecords(None if routing.stamp is None else _empty_batch(state.existing_id, routing.stamp))
    typed = TypedRecords(incoming)
    if not is_stored:
        is_kept = routing.is_staged or incoming.delays is not None
        typed = typed_records(incoming, readers, state.config, is_kept=is_kept)
        incoming = typed.incoming
    largest_bytes = largest_record_bytes(incoming.records)
    if not is_stored:
        if largest_bytes > state.config.integer("max.message.bytes"):
            refuse_large(incoming, state.config.integer("max.message.bytes"))
        if state.config.needs_keys:
            refuse_keyless(incoming)
        taken = state.config.accepted_times(routing.arrived_at_ms)
        if taken is not None:
            refuse_untimely(incoming, taken, routing.arrived_at_ms)
    deliver_at = None
    if incoming.delays is not None:
        deliver_at = incoming.delays.due(routing.arrived_at_ms)
        delay_ms_max = state.config.integer("delay.max.ms")
        refuse_late(incoming, deliver_at, min(routing.arrived_at_ms + delay_ms_max, TIMESTAMP_MS_MAX), delay_ms_max)
        incoming = incoming.with_records(with_due_timestamps(incoming.records, deliver_at, routing.arrived_at_ms))
    records, partitions = route(
        incoming,
        partition_count=state.partition_count,
        route_partition=_only_partition(incoming, state.partition_count, routing.turn)
        if routing.partition is None
        else routing.partition,
        sticky=routing.turn % state.partition_count,
        now_ms=routing.arrived_at_ms,
        log_append_time=state.config.choice("message.timestamp.type") == "LogAppendTime",
    )
    has_left_out = False
    if typed.left_out is not None and typed.left_out.any():
        records, has_left_out = without_values(records, typed.left_out), True
    batch = Batch(
        topic_id=state.existing_id,
        records=records,
        partitions=partitions,
        record_bytes_max=largest_bytes,
        partition_count=state.partition_count if routing.partition is None else None,
        stamp=routing.stamp,
        expected_offset=routing.expected_offset,
        typed=typed.typed,
        subjects=UNTYPED if readers is None else state.config.subjects,
        has_left_out=has_left_out,
    )
    return RoutedRecords(batch, deliver_at, has_letters=deliver_at is None and _has_letters(batch, state))


def _has_letters(batch: Batch, state: TopicState) -> bool:
    """Return whether records are to go to the topic's dead letters. Where an offset is expected they are marked."""
    return state.config.choice("data.on.error") == "dead-letter" and batch.expected_offset is None and batch.has_marks


def _batch_of_single(record: SingleRecord, state: TopicState, routing: Routing, *, is_stored: bool) -> Batch | None:
    """Return the batch of a request's only record; None if it may have to be refused, for which ``batch_of`` finds the reason."""
    config, count = state.config, state.partition_count
    partition, key = routing.partition, record.key
    if partition is None:
        partition = routing.turn % count if key is None else partition_for_key(key, count)
    is_refused = record.size_bytes > config.integer("max.message.bytes") or (key is None and config.needs_keys)
    if record.timestamp_ms is not None and not is_refused:
        taken = config.accepted_times(routing.arrived_at_ms)
        is_refused = taken is not None and record.timestamp_ms not in taken
    if partition >= count or (is_refused and not is_stored):
        return None
    if record.timestamp_ms is None or config.choice("message.timestamp.type") == "LogAppendTime":
        record = SingleRecord(routing.arrived_at_ms, key, record.value)
    return Batch(
        topic_id=state.existing_id,
        records=record,
        partitions=partition,
        record_bytes_max=record.size_bytes,
        partition_count=count if routing.partition is None else None,
        stamp=routing.stamp,
        expected_offset=routing.expected_offset,
    )


def _empty_batch(topic_id: str, stamp: ProducerStamp) -> Batch:
    nothing, nowhere = BATCH_SCHEMA.empty_table(), np.zeros(0, np.int32)
    return Batch(topic_id=topic_id, records=nothing, partitions=nowhere, record_bytes_max=0, stamp=stamp)


def _only_partition(incoming: IncomingRecords, partition_count: int, turn: int) -> int | None:
    """Return the partition of a request's only record more cheaply than ``route`` does; None if there are more or it names its
    own."""
    if len(incoming) != 1 or incoming.partitions is not None:
        return None
    key = incoming.records.column("key")[0].as_py()
    return turn % partition_count if key is None else partition_for_key(key, partition_count)
