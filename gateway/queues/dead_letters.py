"""Moves of dead records into the dead letter topic, and conclusion of queues' transactions that were left behind.

A dead record is stored as such before it is moved. The transaction that produces the dead letter also settles the record, so a
crash repeats nothing.

Used on the event loop only.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from gateway.call import detached_from_call
from gateway.engine.open_topics import OpenTopics
from gateway.engine.partition_reader import PartitionReader
from gateway.engine.producer_ids import ProducerIds
from gateway.engine.read_records import ReadLimits
from gateway.queues.bounds import PUBLISHED_BYTES_MAX, PUBLISHED_RECORDS_MAX
from gateway.queues.letter_proofs import PREFIX, PURPOSE, Headers, LetterProofs
from gateway.queues.live_queue import LiveQueue, QueueParts
from gateway.queues.publishing import QueuePublisher
from log_format.errors import OffsetOutOfRange, UnknownTopic
from log_format.queues.row import Key, PartitionChange
from log_format.queues.runs import DEAD, Run
from log_format.queues.runs import SETTLED as RUN_SETTLED
from log_format.queues.state import PartitionSettlements
from log_format.records.partitioner import partition_for_keys
from log_format.records.schema import BATCH_SCHEMA, HEADERS, TIMESTAMP
from log_format.topic.state import TopicState
from log_format.transactions.staged_records import StagedRecords

QUEUE_HEADER: Final = f"{PREFIX}queue"

_log = logging.getLogger("gateway.queues")


class DeadLetters:
    """Mover of dead records. ``publishing`` makes the transactions."""

    def __init__(
        self,
        parts: QueueParts,
        publishing: QueuePublisher,
        topics: OpenTopics,
        reading: PartitionReader,
        producer_ids: ProducerIds,
    ) -> None:
        self._producer_ids = producer_ids
        self._parts = parts
        self._publishing = publishing
        self._topics = topics
        self._reading = reading
        self._clock = parts.clock

    async def resolve(self, queue: LiveQueue) -> bool:
        """Conclude settlements that wait for transactions which have ended; return whether none of the gateway's own making
        waits.

        Raises ``TidelogError``.
        """
        is_clear = True
        for pending in list(queue.queue.pending.values()):
            with detached_from_call():
                is_concluded = await self._publishing.resolve(pending)
            is_clear = is_clear and (is_concluded or bool(pending.on_abort))
        queue.follow()
        return is_clear

    async def proofs(self, queue: LiveQueue, letters: TopicState) -> LetterProofs:
        """Return the proofs of the queue's letters in this topic. Raises ``BackOff``."""
        return LetterProofs(await self._producer_ids.key_for(PURPOSE), queue.queue_id, letters.existing_id)

    async def move(self, queue: LiveQueue) -> bool:
        """Move some dead records of one partition; return False if there are none that can be moved. Raises ``TidelogError``."""
        if not await self.resolve(queue):
            return False
        for key, settled in queue.queue.partitions.items():
            dead = [run for run in settled.runs if run.state == DEAD]
            if dead and await self._move_of(queue, key, settled, dead):
                return True
        return False

    async def _move_of(self, queue: LiveQueue, key: Key, settled: PartitionSettlements, dead: Sequence[Run]) -> bool:
        target = queue.settings.dead_letter_topic
        now_ms = self._clock.monotonic_ms()
        source = await self._topics.fresh(settled.topic, now_ms)
        state = source.state
        is_gone = state.topic_id != key[0]
        if target is None or is_gone:
            await self._settle(queue, key, settled, [(run.first, run.last) for run in dead])
            return True
        letters = await self._topics.fresh(target, now_ms)
        if not letters.state.exists:
            _log.warning("dead records of queue %s wait: topic %s does not exist", queue.name, target)
            return False
        found: list[tuple[Run, pa.Table]] = []
        covered: list[tuple[int, int]] = []
        records_left, bytes_left = PUBLISHED_RECORDS_MAX, PUBLISHED_BYTES_MAX
        log_start = state.log_start(key[1])
        for run in dead:
            first = max(run.first, log_start)
            if first > run.last:
                covered.append((run.first, run.last))
                continue
            limits = ReadLimits(
                records_max=min(records_left, run.last - first + 1), bytes_max=bytes_left, at_least_one=not found
            )
            try:
                records = await self._reading.read(source, state, key[1], first, limits)
            except (OffsetOutOfRange, UnknownTopic):
                return True  # The records were just deleted: the next call looks again.
            read_to = min(records.next_offset, run.last + 1)
            if read_to == first:
                break
            covered.append((run.first, read_to - 1))
            for table in records.tables:
                inside = table.slice(0, int(np.searchsorted(table.column("offset").to_numpy(), read_to)))
                found.append((run, inside))
            records_left -= records.record_count
            bytes_left -= records.size_bytes
            if read_to <= run.last or records_left <= 0 or bytes_left <= 0:
                break
        tables = [
            _to_letters(table, queue.name, settled.topic, run, self._clock.now_ms())
            for run, table in found
            if len(table)
        ]
        if not tables:
            await self._settle(queue, key, settled, covered)
            return True
        staged = route_records(pa.concat_tables(tables), letters.state, letters.next_sticky_number())
        staged = add_proofs(staged, await self.proofs(queue, letters.state), letters.state)
        change = _change(queue, key, settled, covered)
        await self._publishing.publish(queue, [staged], [change])
        self._parts.metrics.dead.inc(len(staged.records))
        queue.follow()
        return True

    async def _settle(
        self, queue: LiveQueue, key: Key, settled: PartitionSettlements, ranges: Sequence[tuple[int, int]]
    ) -> None:
        share = queue.share(settled.topic, key, 0)
        with detached_from_call():
            await queue.write({share: [Run(first, last, RUN_SETTLED) for first, last in ranges]})


def route_records(records: pa.Table, state: TopicState, turn: int) -> StagedRecords:
    """Return the records (``BATCH_SCHEMA``) routed for a topic: to partitions by key, without a key to partition ``turn`` modulo
    their number."""
    chosen = partition_for_keys(records.column("key"), state.partition_count)
    partitions = np.where(chosen < 0, np.int32(turn % state.partition_count), chosen).astype(np.int32)
    return StagedRecords(
        topic=state.topic, topic_id=state.existing_id, records=records.combine_chunks(), partitions=partitions
    )


def with_headers(records: pa.Table, headers: Sequence[Headers], now_ms: int) -> pa.Table:
    """Return the records with other headers and the present time, as a table of ``BATCH_SCHEMA``."""
    columns = {
        "timestamp": pa.array(np.full(records.num_rows, now_ms * 1000, np.int64)).view(TIMESTAMP),
        "key": records.column("key"),
        "value": records.column("value"),
        "headers": _listed(headers),
    }
    return pa.table(columns, schema=BATCH_SCHEMA)


def _listed(headers: Sequence[Headers]) -> pa.Array:
    return pa.array([[{"key": name, "value": value} for name, value in some] for some in headers], HEADERS)


def add_proofs(letters: StagedRecords, proofs: LetterProofs, state: TopicState) -> StagedRecords:
    """Return the letters, each with its proof. ``state``: state of their topic; of a queue's with all letters that it has put
    there before."""
    records = letters.records
    numbers = {partition: state.high_watermark(partition) for partition in range(state.partition_count)}
    headers: list[Headers] = []
    rows = zip(
        letters.partitions.tolist(),
        records.column("key").to_pylist(),
        records.column("value").to_pylist(),
        headers_of(records),
        strict=True,
    )
    for partition, key, value, own in rows:
        headers.append([*own, proofs.header(partition, numbers[partition], key, value, own)])
        numbers[partition] += 1
    at = records.schema.get_field_index("headers")
    return dataclasses.replace(letters, records=records.set_column(at, BATCH_SCHEMA.field("headers"), _listed(headers)))


def headers_of(records: pa.Table) -> list[list[tuple[str, bytes | None]]]:
    """Return the headers of each record."""
    return [
        [(header["key"], header["value"]) for header in headers or ()]
        for headers in records.column("headers").to_pylist()
    ]


def _to_letters(records: pa.Table, queue: str, topic: str, run: Run, now_ms: int) -> pa.Table:
    places = zip(records.column("partition").to_pylist(), records.column("offset").to_pylist(), strict=True)
    headers = []
    for own, (partition, offset) in zip(headers_of(records), places, strict=True):
        kept = [header for header in own if not header[0].startswith(PREFIX)]
        said = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "deliveries": run.count,
            "reason": run.reason,
            "queue": queue,
        }
        headers.append(kept + [(PREFIX + name, str(value).encode()) for name, value in said.items()])
    return with_headers(records, headers, now_ms)


def _change(
    queue: LiveQueue, key: Key, settled: PartitionSettlements, ranges: Sequence[tuple[int, int]]
) -> PartitionChange:
    return PartitionChange(
        queue=queue.name,
        topic=settled.topic,
        topic_id=key[0],
        partition=key[1],
        runs=tuple(Run(first, last, RUN_SETTLED) for first, last in ranges),
    )
