"""One transaction of a producer: its staged records, and their places once it is committed.

A staged record has no offset yet. The commit's answer says where each topic's records begin in each partition. Since a topic's
records keep the order of its batches, and the producer has chosen every record's partition, each record's place follows from
the answer.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence

from log_format.errors import TidelogError
from tidelog.bodies.table_chunk import TableChunk
from tidelog.calls.producers import ProducerIdentity
from tidelog.calls.transactions import Committed
from tidelog.errors import TransactionAborted, UnexpectedAnswer, UnknownTopic
from tidelog.producer.delivery import OnDelivery, Outcome, RecordBatch
from tidelog.producer.send_buffer import Sendable
from tidelog.types.record import PartitionRange, ProduceResult


class Transaction:
    """A producer's transaction with its staged batches. Thread-safe."""

    def __init__(self, transaction_id: str, producer: ProducerIdentity) -> None:
        self.transaction_id = transaction_id
        self.producer = producer
        self.failure: TidelogError | None = None
        """Reason why the transaction can no longer be committed: a record sent in it is not part of it."""
        self._topics: set[str] = set()
        self._held: list[Sendable] = []
        self._lock = threading.Lock()

    def issue(self, topic: str) -> ProducerIdentity:
        """Return the producer id under which the topic's requests are numbered. Raises ``TransactionAborted`` after a failure."""
        with self._lock:
            if topic in self._topics:
                raise self.not_sent()
            self._topics.add(topic)
        return self.producer

    def check_committable(self) -> None:
        """Raise ``TransactionAborted`` if a request has failed: further ones are not worth sending."""
        with self._lock:
            if self.failure is not None:
                raise self.not_sent()

    def fail(self, error: TidelogError) -> None:
        """Record that a record is missing in the transaction. The first error is kept."""
        with self._lock:
            self.failure = self.failure or error

    def hold(self, batch: Sendable) -> None:
        """Hold a staged batch until the transaction ends."""
        with self._lock:
            self._held.append(batch)

    def commit(self, committed: Committed, on_delivery: OnDelivery | None) -> None:
        """Set the place of each record on its future."""
        topics = {result.topic: result for result in committed.topics}
        by_topic: dict[str, list[Sendable]] = {}
        for batch in sorted(self._take_held(), key=lambda batch: batch.number):
            by_topic.setdefault(batch.topic, []).append(batch)
        for topic, batches in by_topic.items():
            _report_offsets(topic, batches, topics.get(topic), on_delivery)

    def abort(self, error: TidelogError, on_delivery: OnDelivery | None) -> None:
        """Fail each record's future: it is not stored, or its outcome is unknown."""
        for batch in self._take_held():
            _fail(batch, error, on_delivery)

    def _take_held(self) -> list[Sendable]:
        with self._lock:
            held, self._held = self._held, []
        return held

    def not_sent(self) -> TransactionAborted:
        """Return the error for what was sent after the transaction had failed."""
        cause = "." if self.failure is None else f": {self.failure.detail}"
        error = TransactionAborted(f"The record was not sent, since the transaction can no longer be committed{cause}")
        error.__cause__ = self.failure
        return error


def _report_offsets(
    topic: str, batches: Sequence[Sendable], result: ProduceResult | None, on_delivery: OnDelivery | None
) -> None:
    counts = Counter[int]()
    for batch in batches:
        counts.update(_partitions(batch))
    if any(_is_delayed(batch) for batch in batches):
        _report_without_offsets(topic, batches, on_delivery)
        return
    if result is None and counts:
        gone = UnknownTopic(f"Topic {topic!r} was deleted while the transaction was being committed.", topic=topic)
        for batch in batches:
            _fail(batch, gone, on_delivery)
        return
    ranges = () if result is None else result.partitions
    if Counter({each.partition: each.count for each in ranges}) != counts:
        strange = UnexpectedAnswer(
            f"The transaction is committed, but the gateway's answer does not match the records sent: {result}."
        )
        for batch in batches:
            _fail(batch, strange, on_delivery)
        return
    following = {each.partition: each.base_offset for each in ranges}
    for batch in batches:
        if isinstance(batch, TableChunk):
            batch.delivery.stored(ProduceResult(topic, tuple(_ranges(batch.partitions, following))))
        else:
            batch.finish(_offsets(batch.columns.assigned, following), on_delivery)


def _is_delayed(batch: Sendable) -> bool:
    if isinstance(batch, TableChunk):
        return not {"deliver_at", "deliver_after_ms"}.isdisjoint(batch.table.column_names)
    return bool(batch.columns.delays)


def _report_without_offsets(topic: str, batches: Sequence[Sendable], on_delivery: OnDelivery | None) -> None:
    """Finish batches without offsets: the answer does not say which delayed records were due at the commit."""
    for batch in batches:
        if isinstance(batch, TableChunk):
            counts = sorted(Counter(batch.partitions).items())
            unknown = tuple(PartitionRange(partition, -1, -1, count) for partition, count in counts)
            batch.delivery.stored(ProduceResult(topic, unknown))
        else:
            batch.finish([-1] * batch.record_count, on_delivery)


def _partitions(batch: Sendable) -> Sequence[int]:
    return batch.partitions if isinstance(batch, TableChunk) else batch.columns.assigned


def _offsets(partitions: Sequence[int], following: dict[int, int]) -> list[Outcome]:
    offsets: list[Outcome] = []
    for partition in partitions:
        offsets.append(following[partition])
        following[partition] += 1
    return offsets


def _ranges(partitions: Sequence[int], following: dict[int, int]) -> list[PartitionRange]:
    counts: Mapping[int, int] = Counter(partitions)
    ranges = []
    for partition, count in sorted(counts.items()):
        base = following[partition]
        ranges.append(PartitionRange(partition, base, base + count - 1, count))
        following[partition] = base + count
    return ranges


def _fail(batch: Sendable, error: TidelogError, on_delivery: OnDelivery | None) -> None:
    if isinstance(batch, RecordBatch):
        batch.fail(error, on_delivery)
    else:
        batch.delivery.fail(error)
