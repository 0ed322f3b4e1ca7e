"""Delayed records of a produce request: they are filed first, then the request's other records are appended.

For a request that may be repeated, the commit of its sequence is the last step. A repeat before that commit files the same object
again and finds it. A repeat after it is answered from the object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gateway.call import mark_committed
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import Acknowledgement
from gateway.log_engine import LogEngine
from gateway.memory_budget import Reservation
from gateway.routes.batch import with_records
from gateway.routes.produce_operation import ScheduledRecord
from log_format.errors import ErrorCode, OutcomeUnknown, TidelogError, TopicReplaced, UnknownTopic
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.scheduled.filing import FiledRequest, name_of_request
from log_format.scheduled.lookup import scheduled_id
from log_format.topic.append import Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producers import ProducerStamp, SequenceCheck

_RETRY_MS = 20


@dataclass(frozen=True, slots=True)
class DelayedResult:
    """Result of a request with delayed records."""

    acknowledged: Acknowledgement
    scheduled: list[ScheduledRecord]


async def file_and_append(
    engine: LogEngine,
    topic: OpenTopic,
    whole: Batch,
    parts: tuple[DelayedRecords, DelayedRecords],
    *,
    hand_over: Callable[[int], Reservation],
    deadline_ms: int,
) -> DelayedResult:
    """File the delayed records, and append the others.

    Args:
        engine: The gateway's.
        topic: The topic.
        whole: The request's batch.
        parts: All records of the request, and those that are delayed.
        hand_over: Returns the memory for the records that are appended.
        deadline_ms: Monotonic time until which the request may wait for its sequence.

    Raises:
        OutcomeUnknown: The delayed records are filed, the others may be missing.
        TidelogError: As ``OpenTopic.submit_in_order`` raises it.
    """
    records, later = parts
    stamp = whole.stamp
    if stamp is None and len(later) == len(records):
        flush_ms = topic.state.config.integer("flush.ms")
        filed = await engine.delayed.filing.file_shared(topic.name, whole.topic_id, later, flush_ms)
        try:
            return await _append_remaining(engine, topic, (whole, records, filed), hand_over)
        except TidelogError as problem:
            raise _as_outcome_unknown(problem) from problem
    name = None
    if stamp is not None:
        name = name_of_request(*stamp)
        known = await wait_for_sequence(engine, topic, stamp, deadline_ms)
        if known is not None:
            filed_before = await engine.delayed.filing.find_repeated(topic.name, whole.topic_id, name)
            return DelayedResult(known, [] if filed_before is None else _describe_scheduled(filed_before))
    filed = await engine.delayed.filing.file_alone(topic.name, whole.topic_id, later, name)
    try:
        return await _append_remaining(engine, topic, (whole, records, filed), hand_over)
    except (OutcomeUnknown, UnknownTopic):
        raise
    except TidelogError as problem:
        if stamp is not None:
            if isinstance(problem, TopicReplaced):
                raise
            # Another try may have committed the sequence, so the filed object must not be removed.
            raise _as_outcome_unknown(problem) from problem
        await engine.delayed.filing.withdraw(topic.name, whole.topic_id, filed)
        raise


async def _append_remaining(
    engine: LogEngine,
    topic: OpenTopic,
    parts: tuple[Batch, DelayedRecords, FiledRequest],
    hand_over: Callable[[int], Reservation],
) -> DelayedResult:
    """Append the records that are not filed and those that were filed too late, in the order of the request."""
    whole, records, filed = parts
    at_once = records.where(~np.isin(records.indices, filed.records.indices))
    late = filed.late
    batch = with_records(whole, at_once if not len(late) else _merge_in_order(at_once, late))
    acknowledged: Acknowledgement = ()
    if batch is not None:
        reservation = hand_over(batch.nbytes)
        try:
            pending = topic.submit(batch, reservation)
        except BaseException:
            reservation.release()
            raise
        acknowledged = await topic.appending.await_acknowledgement(pending)
    else:
        mark_committed()
    engine.delayed.metrics.scheduled.inc(len(filed.records) - len(late))
    return DelayedResult(acknowledged, _describe_scheduled(filed))


def _as_outcome_unknown(problem: TidelogError) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The delayed records are stored and may be delivered; the others are not stored: {problem.detail}"
    )


def _merge_in_order(at_once: DelayedRecords, late: DelayedRecords) -> DelayedRecords:
    """Return all records in the order of the request."""
    both = DelayedRecords.concatenate([at_once, late])
    return both.take(np.argsort(both.indices, kind="stable"))


def _describe_scheduled(filed: FiledRequest) -> list[ScheduledRecord]:
    waits = np.flatnonzero(~filed.missed)
    waits = waits[np.argsort(filed.records.indices[waits], kind="stable")]
    rows, times, indices = (
        column[waits].tolist() for column in (filed.rows, filed.records.deliver_at, filed.records.indices)
    )
    return [
        {"id": scheduled_id(filed.name, row), "deliver_at": due_ms, "index": index}
        for row, due_ms, index in zip(rows, times, indices, strict=True)
    ]


async def wait_for_sequence(
    engine: LogEngine, topic: OpenTopic, stamp: ProducerStamp, deadline_ms: int
) -> Duplicate | None:
    """Wait until all requests before this one are in the log. If this one is, too, return its offsets.

    Only then may the request put anything else: of a refused one it would be published. Raises the refusal.
    """
    clock = engine.clock
    while True:
        await topic.sequencing.wait_for_predecessors(stamp, deadline_ms)
        state = await topic.fresh(clock.monotonic_ms())
        topic.require_state()
        check = SequenceCheck(state.producers, clock.now_ms(), state.config.integer("producer.id.expiration.ms"))
        verdict = check.judge(stamp)
        if verdict is None or isinstance(verdict, Duplicate):
            return verdict
        is_ahead = verdict.code is ErrorCode.SEQUENCE_OUT_OF_ORDER and verdict.retryable
        if not is_ahead or clock.monotonic_ms() >= deadline_ms:
            raise verdict
        await asyncio.sleep(_RETRY_MS / 1000)
