"""A topic's memory of its producers, so that each request is in the log only once (KIP-98, "Idempotent producer guarantees").

For each producer the topic remembers its epoch, its last sequence, and the offset ranges of its newest requests. All of this
follows from the log: a commit's ``add`` names its stamped requests, so every gateway that replays the log remembers the same.

A stamp of a Kafka client's producer counts records instead of requests, within the one partition that its id names
(``numbered_producers``). Such a batch has one offset range.

Forgetting never allows a duplicate. Producers are dropped if unused for the topic's ``producer.id.expiration.ms``, and the least
recently used ones above ``PRODUCERS_PER_TOPIC_MAX``. The largest issue time of a dropped id is kept. An unknown id is accepted
only if it was issued later, so that it can't be a dropped one. ``PUBLISHER``, which publishes delayed records, is never dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from log_format import limits
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.append_outcome import AppendedRange, Duplicate, decode_ranges, encode_ranges
from log_format.topic.numbered_producers import (
    NO_NUMBERED,
    EncodedRow,
    EncodedSpent,
    NumberedBatch,
    NumberedProducers,
    RememberedBatch,
    add_to_sequence,
    decode_numbered,
    sequence_difference,
)
from log_format.topic.producer_id import PUBLISHER, has_partition, is_numbered, issued_ms, split_partition


class ProducerStamp(NamedTuple):
    """The identity of a request: ``sequence`` counts the requests of the producer's ``epoch`` to this topic, from 0.

    For a Kafka client's producer, ``sequence`` is that of the batch's first record, counting records of the epoch in the
    partition.
    """

    producer_id: str
    epoch: int
    sequence: int


Counts = Sequence[tuple[int, int]]
"""(partition, count) of each partition with records."""


class StampedBatch(NamedTuple):
    """A stamped request in the log, and the offset ranges of its records (none for a request without records)."""

    stamp: ProducerStamp
    offset_ranges: tuple[AppendedRange, ...]

    def check(self) -> None:
        """Raise ``ValueError`` if no producer can have sent this batch."""
        producer_id, epoch, sequence = self.stamp
        if not is_numbered(producer_id):
            issued_ms(producer_id)
            return
        partitions = [place.partition for place in self.offset_ranges]
        if partitions != [split_partition(producer_id)[1]] or not 0 <= epoch < 2**15 or not 0 <= sequence < 2**31:
            raise ValueError(f"{self} is no batch of a Kafka client")


class RememberedRequest(NamedTuple):
    """One of a producer's newest requests."""

    sequence: int
    offset_ranges: tuple[AppendedRange, ...]


class Producer(NamedTuple):
    """The state of one producer. ``newest``: its last requests, oldest first, at most ``PRODUCER_REQUESTS_REMEMBERED``."""

    epoch: int
    last_sequence: int
    newest: tuple[RememberedRequest, ...]
    last_used_ms: int


@dataclass(frozen=True, slots=True)
class Producers:
    """The producers that a topic remembers at one version."""

    by_id: Mapping[str, Producer]
    """Producers, least recently used first."""
    forgotten_issued_ms: int
    """Largest issue time of a dropped id; -1 if none was dropped."""
    own_bytes: int = 0
    numbered: NumberedProducers = NO_NUMBERED
    """Producers of Kafka clients."""

    def __len__(self) -> int:
        """Return how many producers are remembered."""
        return len(self.by_id) + len(self.numbered.by_id)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return self.own_bytes + self.numbered.memory_bytes

    def expected_sequence(self, producer_id: str, epoch: int) -> int:
        """Return the sequence that the producer's next request in this epoch must have."""
        if has_partition(producer_id):
            lane = self.numbered.lane(*split_partition(producer_id))
            return lane.next_sequence if lane is not None and lane.epoch == epoch else 0
        producer = self.by_id.get(producer_id)
        return producer.last_sequence + 1 if producer is not None and producer.epoch == epoch else 0

    def with_batches(self, batches: Iterable[StampedBatch], now_ms: int, expiration_ms: int) -> Producers:
        """Return what is remembered after a commit.

        Args:
            batches: stamped batches of the commit.
            now_ms: the commit's own time.
            expiration_ms: producers unused for longer are dropped.
        """
        by_id, size = dict(self.by_id), self.own_bytes
        of_kafka: list[NumberedBatch] = []
        for (producer_id, epoch, sequence), offset_ranges in sorted(batches, key=lambda batch: batch.stamp):
            if has_partition(producer_id):
                ((partition, base_offset, count),) = encode_ranges(offset_ranges)
                batch = RememberedBatch(sequence, base_offset, count)
                of_kafka.append(NumberedBatch(split_partition(producer_id)[0], epoch, partition, batch))
                continue
            producer = by_id.pop(producer_id, None)
            newest = producer.newest if producer is not None and producer.epoch == epoch else ()
            newest = (*newest, RememberedRequest(sequence, offset_ranges))[-limits.PRODUCER_REQUESTS_REMEMBERED :]
            size -= 0 if producer is None else _memory_bytes(producer)
            by_id[producer_id] = Producer(epoch, sequence, newest, now_ms)
            size += _memory_bytes(by_id[producer_id])
        forgotten = self.forgotten_issued_ms
        for producer_id in _to_forget(by_id, now_ms - expiration_ms):
            size -= _memory_bytes(by_id.pop(producer_id))
            forgotten = max(forgotten, issued_ms(producer_id))
        of_clients = self.numbered.with_batches(of_kafka, now_ms) if of_kafka else self.numbered
        of_clients, lost_ms = of_clients.without_unused(now_ms - expiration_ms)
        return Producers(MappingProxyType(by_id), max(forgotten, lost_ms), size, of_clients)

    def with_forgotten(self, issued_ms_max: int) -> Producers:
        """Return the memory in which unknown ids issued up to ``issued_ms_max`` may have been used."""
        return replace(self, forgotten_issued_ms=max(self.forgotten_issued_ms, issued_ms_max))

    def with_spent(self, spent: Iterable[tuple[str, int]]) -> Producers:
        """Return the memory in which all epochs of each Kafka client's id up to the given one count as used."""
        return replace(self, numbered=self.numbered.with_spent(spent))

    def unseen_by(self, table: Producers) -> Iterator[list[StampedBatch]]:
        """Yield for each producer the newest requests that ``table`` has not seen, oldest first."""
        for producer_id, producer in self.by_id.items():
            before = table.by_id.get(producer_id)
            seen = (-1, -1) if before is None else (before.epoch, before.last_sequence)
            yield [
                StampedBatch(ProducerStamp(producer_id, producer.epoch, sequence), offset_ranges)
                for sequence, offset_ranges in producer.newest
                if (producer.epoch, sequence) > seen
            ]
        for batches in self.numbered.unseen_by(table.numbered):
            yield [
                StampedBatch(
                    ProducerStamp(f"{producer_id}-{partition}", epoch, batch.sequence),
                    (AppendedRange(partition, batch.base_offset, batch.record_count),),
                )
                for producer_id, epoch, partition, batch in batches
            ]

    def encoded(self) -> bytes:
        """Return the memory as JSON, for a checkpoint."""
        rows = [
            (producer_id, one.epoch, one.last_sequence, one.last_used_ms, _encode_requests(one.newest))
            for producer_id, one in self.by_id.items()
        ]
        if self.numbered == NO_NUMBERED:
            return _ENCODER.encode((self.forgotten_issued_ms, rows))
        return _ENCODER.encode((self.forgotten_issued_ms, rows, *self.numbered.rows()))


NO_PRODUCERS: Final = Producers(MappingProxyType({}), -1)

_RangeTuples = list[tuple[int, int, int]]
_ProducerRow = tuple[str, int, int, int, list[tuple[int, _RangeTuples]]]
_ENCODER: Final = msgspec.json.Encoder()


class _Encoded(msgspec.Struct, array_like=True):
    """The producers in a checkpoint."""

    forgotten_issued_ms: int
    rows: list[_ProducerRow]
    numbered: list[EncodedRow] = []
    spent: list[EncodedSpent] = []


_CHECKPOINT_DECODER: Final = msgspec.json.Decoder(_Encoded)
_TAG_DECODER: Final = msgspec.json.Decoder(list[tuple[str, int, int, _RangeTuples]])


def decode_producers(data: bytes) -> Producers:
    """Decode the result of ``Producers.encoded``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    found = _CHECKPOINT_DECODER.decode(data)
    of_kafka = decode_numbered(found.numbered, found.spent) if found.numbered or found.spent else NO_NUMBERED
    if not found.rows and found.forgotten_issued_ms == NO_PRODUCERS.forgotten_issued_ms and of_kafka is NO_NUMBERED:
        return NO_PRODUCERS
    by_id = {
        producer_id: Producer(
            epoch,
            last_sequence,
            tuple(RememberedRequest(sequence, decode_ranges(plain)) for sequence, plain in newest),
            last_used_ms,
        )
        for producer_id, epoch, last_sequence, last_used_ms, newest in found.rows
    }
    for producer_id in by_id:
        issued_ms(producer_id)
    size = sum(map(_memory_bytes, by_id.values()))
    return Producers(MappingProxyType(by_id), found.forgotten_issued_ms, size, of_kafka)


def encode_stamps(batches: Iterable[StampedBatch]) -> str:
    """Encode the tag of an ``add``: JSON ``[[id, epoch, sequence, [[partition, base offset, count], …]], …]``."""
    return _ENCODER.encode([(*stamp, encode_ranges(offset_ranges)) for stamp, offset_ranges in batches]).decode()


def decode_stamps(tag: str) -> list[StampedBatch]:
    """Decode the result of ``encode_stamps``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    batches = [
        StampedBatch(ProducerStamp(producer_id, epoch, sequence), decode_ranges(plain))
        for producer_id, epoch, sequence, plain in _TAG_DECODER.decode(tag)
    ]
    for batch in batches:
        batch.check()
    return batches


class SequenceCheck:
    """A check of the stamped batches of one flush, one after another, against a topic's memory.

    ``assume_order``: accept batches that are ahead, assuming that the missing ones before them are about to be committed.
    """

    def __init__(self, producers: Producers, now_ms: int, expiration_ms: int, *, assume_order: bool = False) -> None:
        self._producers = producers
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._assume_order = assume_order
        self._next: dict[tuple[str, int], int] = {}
        """(id, epoch) -> the sequence that follows the batches of this flush."""
        self._newest_taken: dict[str, int] = {}
        """id -> the newest epoch in this flush."""

    def judge(self, stamp: ProducerStamp, counts: Counts = ()) -> Duplicate | TidelogError | None:
        """Return None if the request is the producer's next one, ``Duplicate`` if it is in the log already, else the error.

        Don't call it for a request that this flush has taken, which has no offsets yet. ``counts``: records of the batch per
        partition, needed only for a Kafka client's stamp.
        """
        producer_id, epoch, sequence = stamp
        if has_partition(producer_id):
            return self._judge_numbered(stamp, counts)
        known = self._producers.by_id.get(producer_id)
        is_kept = producer_id == PUBLISHER
        if known is not None and not is_kept and self._now_ms - known.last_used_ms > self._expiration_ms:
            return _unknown_producer_error(stamp, "was not used for too long and is forgotten")
        if known is None and not is_kept and issued_ms(producer_id) <= self._producers.forgotten_issued_ms:
            return _unknown_producer_error(stamp, "may have been used here and is forgotten")
        newest_epoch = max(self._newest_taken.get(producer_id, -1), known.epoch if known is not None else -1)
        if epoch < newest_epoch:
            return fenced_error(producer_id, epoch, newest_epoch)
        if known is not None and epoch == known.epoch:
            for remembered in known.newest:
                if remembered.sequence == sequence:
                    return Duplicate(remembered.offset_ranges)
        return self._check_order(stamp)

    def _judge_numbered(self, stamp: ProducerStamp, counts: Counts) -> Duplicate | TidelogError | None:
        producer_id, partition = split_partition(stamp.producer_id)
        known, lane = self._producers.numbered, self._producers.numbered.lane(producer_id, partition)
        spent_epoch = known.spent_epoch(producer_id)
        if spent_epoch is None and issued_ms(producer_id) <= self._producers.forgotten_issued_ms:
            return _unknown_producer_error(stamp, "may have been used here and is forgotten")
        if spent_epoch is not None and stamp.epoch <= spent_epoch:
            return _unknown_producer_error(stamp, "was not used for too long and is forgotten")
        newest_epoch = max(self._newest_taken.get(stamp.producer_id, -1), lane.epoch if lane is not None else -1)
        if stamp.epoch < newest_epoch:
            return fenced_error(producer_id, stamp.epoch, newest_epoch)
        for sequence, base_offset, count in lane.newest if lane is not None and lane.epoch == stamp.epoch else ():
            if sequence == stamp.sequence and counts == ((partition, count),):
                return Duplicate((AppendedRange(partition, base_offset, count),))
        return self._check_order(stamp)

    def _check_order(self, stamp: ProducerStamp) -> TidelogError | None:
        producer_id, epoch, _ = stamp
        expected = self._next.get((producer_id, epoch))
        if expected is None:
            expected = self._producers.expected_sequence(producer_id, epoch)
        distance = sequence_distance(stamp, expected)
        return None if distance == 0 or (distance > 0 and self._assume_order) else out_of_order_error(stamp, expected)

    def accept(self, stamp: ProducerStamp, counts: Counts = ()) -> None:
        """Note that the batch will be appended: later batches must follow it."""
        self._next[stamp.producer_id, stamp.epoch] = next_sequence(stamp, counts)
        self._newest_taken[stamp.producer_id] = max(stamp.epoch, self._newest_taken.get(stamp.producer_id, stamp.epoch))


def next_sequence(stamp: ProducerStamp, counts: Counts) -> int:
    """Return the sequence that the producer's next request must have."""
    if not has_partition(stamp.producer_id):
        return stamp.sequence + 1
    return add_to_sequence(stamp.sequence, sum(count for _, count in counts))


def sequence_distance(stamp: ProducerStamp, expected: int) -> int:
    """Return how far the request is ahead of the expected sequence; a negative number says how far it is behind."""
    return (
        sequence_difference(stamp.sequence, expected) if has_partition(stamp.producer_id) else stamp.sequence - expected
    )


def request_key(stamp: ProducerStamp, counts: Counts) -> tuple[ProducerStamp, Counts]:
    """Return a key that is equal for two batches of a flush if the second repeats the request of the first."""
    return stamp, tuple(counts) if has_partition(stamp.producer_id) else ()


def out_of_order_error(stamp: ProducerStamp, expected: int) -> TidelogError:
    """Return the error for a request that is not the producer's next one; it is retryable if earlier requests are missing."""
    is_ahead = sequence_distance(stamp, expected) > 0
    what = "those before it are missing" if is_ahead else "it is too old to tell where its records are"
    return RequestRefused(
        f"Request {stamp.sequence} of producer {stamp.producer_id} is out of order: the next one is {expected}; {what}.",
        code=ErrorCode.SEQUENCE_OUT_OF_ORDER,
        retryable=is_ahead,
        expected_sequence=expected,
    )


def fenced_error(producer_id: str, epoch: int, newest_epoch: int) -> TidelogError:
    """Return the error for an older epoch."""
    return RequestRefused(
        f"Epoch {epoch} of producer {producer_id} is fenced: epoch {newest_epoch} has begun.",
        code=ErrorCode.FENCED_PRODUCER,
    )


def _unknown_producer_error(stamp: ProducerStamp, why: str) -> TidelogError:
    return RequestRefused(
        f"Producer {stamp.producer_id} {why}. Get a new one with POST /v1/producers.", code=ErrorCode.UNKNOWN_PRODUCER
    )


def _to_forget(by_id: Mapping[str, Producer], oldest_ms: int) -> list[str]:
    """Return the ids to drop. Ids are sorted by last use, so they are the first ones."""
    surplus = len(by_id) - limits.PRODUCERS_PER_TOPIC_MAX
    dropped = []
    for index, (producer_id, producer) in enumerate(by_id.items()):
        if index >= surplus and producer.last_used_ms >= oldest_ms:
            break
        if producer_id != PUBLISHER:
            dropped.append(producer_id)
    return dropped


def _memory_bytes(producer: Producer) -> int:
    """Return the producer's memory in bytes, measured on CPython 3.11 and rounded up."""
    return 512 + sum(128 + 192 * len(remembered.offset_ranges) for remembered in producer.newest)


def _encode_requests(newest: Iterable[RememberedRequest]) -> list[tuple[int, _RangeTuples]]:
    return [(request.sequence, encode_ranges(request.offset_ranges)) for request in newest]
