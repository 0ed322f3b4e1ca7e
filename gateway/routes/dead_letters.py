"""Dead letters of a produce request to a typed topic (``data.on.error=dead-letter``): what is not of its schemas goes to
``<topic>.dead-letters``.

1. The letters are in the store before the other records are appended, so whatever ends in between loses none of them.
2. A repeat of a stored request puts no letter again: its number in the topic tells. A request that is repeated because it came
   to an end in between, or while it is under way, may put a letter twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request

from gateway.call import detached_from_call
from gateway.engine.open_topic import OpenTopic
from gateway.gateway import gateway_of, request_memory
from gateway.queues.dead_letters import add_proofs, headers_of, with_headers
from gateway.queues.redriving_typed import LETTER_PREFIX as PREFIX
from gateway.queues.redriving_typed import proofs_of_topic
from gateway.routes import quota_charges
from gateway.routes.batch import with_records
from gateway.routes.delayed import wait_for_sequence
from gateway.routes.produce_operation import DeadLetter
from log_format.errors import ErrorCode, RequestRefused, TopicReplaced, UnknownTopic
from log_format.records.size import record_bytes
from log_format.records.typed_columns import DATA_ERROR
from log_format.scheduled.delayed_records import DelayedRecords
from log_format.topic.append_outcome import Duplicate
from log_format.topic.batch import Batch, Partitions
from log_format.topic.config import check_topic_name, dead_letter_topic
from log_format.topic.state import TopicState
from log_format.transactions.staged_records import StagedRecords

HEADER_BYTES_MAX: Final = 8 * 1024
"""Maximum size of the headers that a dead letter gets, by which the topic that is made for them takes larger records."""
REASON_CHARACTERS_MAX: Final = 1_000
_TRIES_MAX: Final = 3


class LettersOfRequest:
    """The dead letters of one request; each record becomes one once, however often the request is routed."""

    def __init__(self, request: Request, topic: OpenTopic) -> None:
        self._request = request
        self._topic = topic
        self._gateway = gateway_of(request)
        self._put: dict[int, DeadLetter] = {}

    @property
    def put(self) -> list[DeadLetter]:
        """What the answer says of the letters, by index."""
        return [self._put[row] for row in sorted(self._put)]

    async def split(self, batch: Batch, deadline_ms: int) -> Batch | None:
        """Put the letters, and return the batch with the other records; None if nothing is left to append.

        ``deadline_ms``: monotonic time until which the request may wait for its sequence.

        Raises ``RequestRefused`` if the topic of dead letters can't take them, or the request's number is refused; what
        ``OpenTopic.submit`` and ``TopicAppends.await_acknowledgement`` raise.
        """
        assert batch.typed is not None
        errors = batch.typed.column(DATA_ERROR)
        is_letter = pc.is_valid(errors).to_numpy()
        rows = [row for row in np.flatnonzero(is_letter).tolist() if row not in self._put]
        if rows:
            reasons = [str(errors[row])[:REASON_CHARACTERS_MAX] for row in rows]
            name = check_topic_name(dead_letter_topic(self._topic.name))
            found: Sequence[tuple[int, int] | None] = [None] * len(rows)
            engine, stamp = self._gateway.engine, batch.stamp
            if stamp is None or await wait_for_sequence(engine, self._topic, stamp, deadline_ms) is None:
                letters = _letters(batch, rows, reasons, self._topic.name, self._gateway.clock.now_ms())
                found = await self._append(name, letters, batch.partitions[rows])
            for row, reason, place in zip(rows, reasons, found, strict=True):
                self._put[row] = {"index": row, "topic": name, "reason": reason}
                if place is not None:
                    self._put[row] |= {"partition": place[0], "offset": place[1]}
        kept = np.flatnonzero(~is_letter)
        rest = DelayedRecords(
            records=batch.records.take(pa.array(kept)),
            partitions=batch.partitions[kept],
            deliver_at=np.zeros(len(kept), np.int64),
            indices=kept,
        )
        return with_records(batch, rest)

    async def _append(self, name: str, letters: pa.Table, partitions: Partitions) -> list[tuple[int, int]]:
        """Append the letters, and return the partition and offset of each."""
        for left in reversed(range(_TRIES_MAX)):
            topic = await self._open(name)
            state = topic.require_state()
            to = (partitions % state.partition_count).astype(np.int32)
            records = await self._proved(letters, state, to)
            sizes = record_bytes(records)
            limit = state.config.integer("max.message.bytes")
            if state.config.subjects.are_set or state.config.needs_keys or sizes.max() > limit:
                raise RequestRefused(
                    f"Topic {name!r} can't take dead letters of {self._topic.name!r}: it must have no schema, must not be "
                    f"compacted, and must take records of {sizes.max()} bytes (max.message.bytes).",
                    code=ErrorCode.INVALID_CONFIG,
                )
            batch = Batch(topic_id=state.existing_id, records=records, partitions=to, record_bytes_max=int(sizes.max()))
            reservation = request_memory(self._request).reserve(batch.nbytes)
            try:
                with detached_from_call():
                    try:
                        pending = topic.submit(batch, reservation)
                    except BaseException:
                        reservation.release()
                        raise
                    acknowledged = await topic.appending.await_acknowledgement(pending)
            except TopicReplaced:
                if not left:
                    raise
                await topic.fresh(self._gateway.clock.monotonic_ms())
                continue
            assert not isinstance(acknowledged, Duplicate)
            following = {
                one.partition: iter(range(one.base_offset, one.base_offset + one.count)) for one in acknowledged
            }
            return [(partition, next(following[partition])) for partition in to.tolist()]
        raise AssertionError("the last try returns or raises")

    async def _proved(self, letters: pa.Table, state: TopicState, partitions: Partitions) -> pa.Table:
        """Return the letters, each with its proof (``gateway/queues/redriving_typed.py``)."""
        producer_ids, source = self._gateway.engine.producer_ids, self._topic.require_state()
        proofs = await proofs_of_topic(producer_ids, source.existing_id, state.existing_id)
        staged = StagedRecords(topic=state.topic, topic_id=state.existing_id, records=letters, partitions=partitions)
        return add_proofs(staged, proofs, state).records

    async def _open(self, name: str) -> OpenTopic:
        """Return the topic of dead letters. It is made if it is missing, and then keeps its records for ever."""
        engine = self._gateway.engine
        try:
            return await engine.open_topic(name)
        except UnknownTopic:
            source = self._topic.require_state()
            bytes_max = source.config.integer("max.message.bytes") + HEADER_BYTES_MAX
            wanted = {
                "retention.ms": -1,
                "max.message.bytes": min(bytes_max, self._gateway.settings.request_bytes_max),
            }
            config = engine.administration.parse_config(wanted)
            with (
                detached_from_call(),
                suppress(RequestRefused),
            ):  # another gateway made it, by other settings of the topic
                _, is_made = await engine.administration.create(name, source.partition_count, config)
                quota_charges.charge_partitions(self._request, source.partition_count if is_made else 0)
            return await engine.open_topic(name)


def _letters(batch: Batch, rows: Sequence[int], reasons: Sequence[str], topic: str, now_ms: int) -> pa.Table:
    """Return the letters of some rows: key, value and headers as they were sent, and headers that say why and where."""
    records = batch.records.take(pa.array(rows))
    times = records.column("timestamp").cast(pa.int64()).to_pylist()
    headers = []
    for own, row, reason, time_us in zip(headers_of(records), rows, reasons, times, strict=True):
        said = {
            "id": secrets.token_hex(8),
            "reason": reason,
            "topic": topic,
            "partition": batch.partitions[row],
            "timestamp": time_us // 1000,
        }
        added = [(PREFIX + name, str(value).encode()) for name, value in said.items()]
        kept = [header for header in own if header[0] not in {name for name, _ in added}]
        headers.append([*kept, *added])
    return with_headers(records, headers, now_ms)
