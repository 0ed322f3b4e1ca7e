"""Sender: turns a batch into requests, and their answers into an outcome per record.

1. Every record gets its partition here, so that its offset follows from the answer: a request's records for one partition get
   consecutive offsets in the order of the request.
2. Records that the client can refuse itself (too large, no such partition) are refused one by one, so that one bad record does
   not fail its batch.
3. A request above the gateway's size limit is halved until it fits.
4. Without sequence numbers, records are sent again only after a refusal that changed nothing. A numbered request is retried
   until its outcome is known: the gateway recognizes it.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable

from log_format.errors import TidelogError
from log_format.limits import PRODUCER_REQUESTS_REMEMBERED, REQUEST_BYTES_MAX
from tidelog.bodies.encode import ARROW, Compression, encode, encode_table
from tidelog.bodies.record_columns import RecordColumns
from tidelog.bodies.table_chunk import TableChunk
from tidelog.calls.produce import Stored, produce
from tidelog.calls.producers import Stamp
from tidelog.calls.topics import created_on_first_use
from tidelog.errors import (
    DeliveryTimeout,
    GatewayError,
    InvalidRecord,
    RecordTooLarge,
    RequestTooLarge,
    UnexpectedAnswer,
    UnknownPartition,
    UnknownTopic,
)
from tidelog.http.transport import Transport
from tidelog.limits import RECORD_OVERHEAD_BYTES
from tidelog.producer.delivery import Outcome, RecordBatch
from tidelog.producer.numbering import SequenceNumbering
from tidelog.producer.topic_facts import TopicFacts, TopicFactsCache
from tidelog.types.record import ProduceResult

_STAGED: Outcome = 0
"""Placeholder for the offset of a record until its transaction is committed."""


class Sender:
    """Deliverer of batches through one transport. Thread-safe."""

    def __init__(
        self, transport: Transport, *, compression: Compression | None, numbering: SequenceNumbering | None = None
    ) -> None:
        """Store the parts. ``numbering``: numbers the requests for idempotence; None: requests are not numbered."""
        self._transport = transport
        self._numbering = numbering
        self._compression = compression
        self._facts = TopicFactsCache(transport)
        self._request_bytes_max = REQUEST_BYTES_MAX
        self._round_robin = itertools.count(random.randrange(1 << 16))  # noqa: S311

    @property
    def in_flight_per_topic(self) -> int:
        """Number of a topic's batches that may be in flight. Two without numbers could be committed in either order."""
        return 1 if self._numbering is None else PRODUCER_REQUESTS_REMEMBERED

    def register(self, batch: RecordBatch | TableChunk) -> None:
        """Register the batch as in flight, behind its topic's earlier ones. Must be called before delivery."""
        if self._numbering is not None:
            self._numbering.register(batch.topic, batch.number)

    def unregister(self, batch: RecordBatch | TableChunk) -> None:
        """Unregister a batch that has its outcome."""
        if self._numbering is not None:
            self._numbering.unregister(batch.topic, batch.number)

    def fail(self, error: TidelogError) -> None:
        """Record that records were not stored, or will not be. Does nothing here."""

    def deliver(self, batch: RecordBatch) -> list[Outcome] | None:
        """Send the batch and return each record's outcome, in order; None: the outcomes come with the transaction's end."""
        if batch.deadline.near:
            error = DeliveryTimeout(
                "delivery_timeout_ms passed while the record waited behind others. It was not sent."
            )
            return [error] * len(batch.columns)
        return self._send(batch, batch.columns, next(self._round_robin), asked_after=0.0)

    def deliver_chunk(self, chunk: TableChunk) -> None:
        """Send the rows and report to the table's delivery. Raises the first ``TidelogError``, after which nothing more is
        sent."""
        waiting, may_exist = [chunk.table], False
        while waiting:
            if chunk.deadline.near:
                raise DeliveryTimeout("delivery_timeout_ms passed. These rows were not sent.")
            table = waiting.pop()
            body = encode_table(table)
            try:
                self._check_size(len(body))
                result = self._request(chunk, table.num_rows, body, ARROW, is_last=not waiting)
            except RequestTooLarge as error:
                if not self._can_split(error, table.num_rows):
                    raise
                middle = table.num_rows // 2
                waiting += [table.slice(middle), table.slice(0, middle)]
                continue
            except GatewayError as error:
                if isinstance(error, UnknownTopic) and not may_exist:
                    may_exist = created_on_first_use(self._transport, chunk.topic, chunk.deadline)
                    if may_exist:
                        waiting.append(table)
                        continue
                final = _as_timeout(error)
                if final is error:
                    raise
                raise final from error
            may_exist = True
            if result is not None:
                chunk.delivery.stored(result)

    def _send(self, batch: RecordBatch, columns: RecordColumns, round_: int, *, asked_after: float) -> list[Outcome]:
        """Assign partitions, refuse records that can't be stored, and send the rest. ``round_`` chooses the keyless partition."""
        try:
            facts = self._facts.get(batch.topic, batch.deadline, asked_after=asked_after)
        except GatewayError as error:
            return [_as_timeout(error)] * len(columns)
        batch.gateway_stamps = facts.gateway_stamps
        columns.assign(facts.partition_count, round_ % facts.partition_count)
        refused = _client_refusals(batch, columns, facts)
        if not refused:
            return self._post(batch, columns, round_, facts)
        if facts.asked_at < batch.opened_at:
            # The topic may have changed meanwhile: only facts newer than the batch may refuse a record.
            return self._send(batch, columns, round_, asked_after=batch.opened_at)
        kept = [index for index in range(len(columns)) if index not in refused]
        rest = columns.select(kept)
        outcomes: list[Outcome] = [refused.get(index, 0) for index in range(len(columns))]
        for index, outcome in zip(kept, self._post(batch, rest, round_, facts) if kept else [], strict=True):
            outcomes[index] = outcome
        for place, index in enumerate(kept):
            columns.assigned[index] = rest.assigned[place]
        return outcomes

    def _post(
        self, batch: RecordBatch, columns: RecordColumns, round_: int, facts: TopicFacts, *, is_last: bool = True
    ) -> list[Outcome]:
        try:
            body, content_type = encode(columns)
            self._check_size(len(body))
            result = self._request(batch, len(columns), body, content_type, is_last=is_last)
            return [_STAGED] * len(columns) if result is None else _offsets(columns.assigned, result)
        except RequestTooLarge as error:
            if not self._can_split(error, len(columns)):
                return [error] * len(columns)
            return self._post_halves(batch, columns, round_, facts, is_last=is_last)
        except (UnknownPartition, RecordTooLarge, InvalidRecord) as error:
            if facts.asked_at >= batch.opened_at:
                return [error] * len(columns)
            # The facts are stale, and the refused request changed nothing: retry with new facts.
            return self._send(batch, columns, round_, asked_after=max(batch.opened_at, time.monotonic()))
        except GatewayError as error:
            return [_as_timeout(error)] * len(columns)

    def _post_halves(
        self, batch: RecordBatch, columns: RecordColumns, round_: int, facts: TopicFacts, *, is_last: bool
    ) -> list[Outcome]:
        middle = len(columns) // 2
        first, second = columns.slice(0, middle), columns.slice(middle, len(columns))
        outcomes = self._post(batch, first, round_, facts, is_last=False)
        outcomes += self._post(batch, second, round_, facts, is_last=is_last)
        columns.assigned = first.assigned + second.assigned
        return outcomes

    def _request(
        self, batch: RecordBatch | TableChunk, record_count: int, body: bytes, content_type: str, *, is_last: bool
    ) -> ProduceResult | None:
        """Send one request, under the batch's next number if requests are numbered.

        Returns None if the records are staged: they get their places when their transaction is committed.
        """

        def post(
            stamp: Stamp | None = None,
            is_final: Callable[[GatewayError], bool] = lambda _error: False,
        ) -> Stored:
            return produce(
                self._transport,
                batch.topic,
                body,
                content_type,
                deadline=batch.deadline,
                compression=self._compression,
                stamp=stamp,
                is_final=is_final,
                is_shared=self._facts.is_shared(batch.topic),
            )

        if self._numbering is None:
            stored = post()
        else:
            stored = self._numbering.send(batch.topic, batch.number, batch.deadline, post, is_last=is_last)
        self._facts.learn(batch.topic, stored.partition_count)
        if stored.result.count + len(stored.result.dead_letters) != record_count:
            raise _miscounted(record_count, stored.result)
        return stored.result

    def _check_size(self, body_bytes: int) -> None:
        if body_bytes > self._request_bytes_max:
            limit = self._request_bytes_max
            raise RequestTooLarge(f"The request has {body_bytes} bytes; the limit is {limit}.", limit_bytes=limit)

    def _can_split(self, error: RequestTooLarge, record_count: int) -> bool:
        """Remember the size limit that the gateway reported, and return whether splitting the request can help."""
        if error.fields.get("limit_of") == "transaction":
            return False
        limit = error.fields.get("limit_bytes")
        if isinstance(limit, int) and limit > 0:
            self._request_bytes_max = min(self._request_bytes_max, limit)
        return record_count > 1


def _client_refusals(batch: RecordBatch, columns: RecordColumns, facts: TopicFacts) -> dict[int, TidelogError]:
    refused: dict[int, TidelogError] = {}
    if max(columns.assigned) >= facts.partition_count:
        for index, partition in enumerate(columns.assigned):
            if partition >= facts.partition_count:
                what = f"Topic {batch.topic!r} has partitions 0 to {facts.partition_count - 1}, but not {partition}."
                refused[index] = UnknownPartition(what, topic=batch.topic)
    if batch.largest_bytes - RECORD_OVERHEAD_BYTES > facts.record_bytes_max:
        for index in range(len(columns)):
            size = columns.size_bytes(index)
            if size > facts.record_bytes_max:
                limit = facts.record_bytes_max
                what = f"The record has {size} bytes; max.message.bytes of {batch.topic!r} is {limit}."
                refused[index] = RecordTooLarge(what, topic=batch.topic, limit_bytes=limit)
    if facts.needs_keys and None in columns.keys:
        for index, key in enumerate(columns.keys):
            if key is None:
                what = f"Topic {batch.topic!r} is compacted by key, but the record has no key."
                refused[index] = InvalidRecord(what, topic=batch.topic)
    return refused


def _offsets(partitions: list[int], result: ProduceResult) -> list[Outcome]:
    """Return each record's offset, scheduled place or dead letter.

    Raises ``UnexpectedAnswer`` when the answer is about other records.
    """
    if result.scheduled or result.dead_letters:
        later: dict[int, Outcome] = {place.index: place for place in result.scheduled}
        later |= {letter.index: letter for letter in result.dead_letters}
        at_once = [partition for index, partition in enumerate(partitions) if index not in later]
        offsets = iter(_offsets(at_once, ProduceResult(result.topic, result.partitions)))
        return [later[index] if index in later else next(offsets) for index in range(len(partitions))]
    if len(result.partitions) == 1 and result.count == len(partitions) and len(set(partitions)) == 1:
        stored = result.partitions[0]
        if stored.partition == partitions[0]:
            return list(range(stored.base_offset, stored.base_offset + stored.count))
    if Counter(partitions) != Counter({stored.partition: stored.count for stored in result.partitions}):
        raise _miscounted(len(partitions), result)
    upcoming = {stored.partition: itertools.count(stored.base_offset) for stored in result.partitions}
    return [next(upcoming[partition]) for partition in partitions]


def _miscounted(record_count: int, result: ProduceResult) -> UnexpectedAnswer:
    return UnexpectedAnswer(f"The gateway's answer does not match the {record_count} records sent: {result}.")


def _as_timeout(error: GatewayError) -> TidelogError:
    """Return the error, as ``DeliveryTimeout`` if it is retryable: the transport only raises such an error when no time was
    left."""
    if not error.retryable or error.may_have_happened:
        return error
    timeout = DeliveryTimeout(f"delivery_timeout_ms passed; the last error: {error.detail}", code=error.code)
    timeout.fields.update(error.fields)
    timeout.__cause__ = error
    return timeout
