"""A topic's memory of Kafka clients' producers, whose sequences count the records of each partition (KIP-98).

For each producer and partition the topic keeps a *lane*: the epoch and its newest five batches. Sequences wrap after 2**31 - 1.
Clients raise such a producer's epoch by themselves (KIP-360) and begin each lane at 0 again.

Forgetting never allows a duplicate. A producer is forgotten as a whole, so a missing lane of a known producer was never used. The
forgotten producer's largest epoch is kept as *spent*: only larger epochs are new. When there are more than
``SPENT_PRODUCERS_MAX`` spent ids, the one that was issued first is dropped, and no unknown id issued up to that time is accepted
any more (``Producers.forgotten_issued_ms``).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from types import MappingProxyType
from typing import Annotated, Final, NamedTuple

import msgspec

from log_format import limits
from log_format.topic.producer_id import format_number, issued_ms, parse_number

SEQUENCES: Final = 2**31
"""Number of sequences: they go from 0 to one less, and then begin at 0 again."""
_NEVER: Final = -1
_LAST_EPOCH: Final = 2**15 - 1


class RememberedBatch(NamedTuple):
    """One of a lane's newest batches: the sequence and offset of its first record, and its number of records."""

    sequence: int
    base_offset: int
    record_count: int


class ProducerLane(NamedTuple):
    """A producer's use of one partition. ``newest``: its newest batches, at least one, oldest first."""

    epoch: int
    newest: tuple[RememberedBatch, ...]

    @property
    def next_sequence(self) -> int:
        """Sequence that the next batch's first record must have."""
        last = self.newest[-1]
        return add_to_sequence(last.sequence, last.record_count)


class NumberedProducer(NamedTuple):
    """A Kafka client's producer. ``spent_epoch``: all epochs up to this one count as used, in every partition."""

    lanes: Mapping[int, ProducerLane]
    last_used_ms: int
    spent_epoch: int = _NEVER

    @property
    def newest_epoch(self) -> int:
        """Largest epoch that was used."""
        return max((lane.epoch for lane in self.lanes.values()), default=self.spent_epoch)

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes, measured on CPython 3.11 and rounded up."""
        return 512 + sum(320 + 176 * len(lane.newest) for lane in self.lanes.values())


class NumberedBatch(NamedTuple):
    """A batch in the log. ``producer_id``: the id without a partition."""

    producer_id: str
    epoch: int
    partition: int
    batch: RememberedBatch


class ProducerBounds(NamedTuple):
    """Limits of what a topic remembers."""

    lanes_max: int = limits.LANES_PER_TOPIC_MAX
    spent_max: int = limits.SPENT_PRODUCERS_MAX


@dataclass(frozen=True, slots=True)
class NumberedProducers:
    """The Kafka clients' producers of a topic at one version."""

    by_id: Mapping[str, NumberedProducer]
    """Producers, least recently used first."""
    spent: Mapping[str, int]
    """Forgotten producers -> the largest epoch that counts as used."""
    lane_count: int = 0
    producer_bytes: int = 0
    bounds: ProducerBounds = field(default=ProducerBounds(), compare=False)

    @property
    def memory_bytes(self) -> int:
        """Estimated memory in bytes."""
        return self.producer_bytes + _SPENT_BYTES * len(self.spent)

    def with_batches(self, batches: Iterable[NumberedBatch], now_ms: int) -> NumberedProducers:
        """Return the producers after a commit with these batches. ``now_ms``: the commit's own time."""
        ordered = sorted(batches, key=lambda one: (one.producer_id, one.epoch, one.batch.base_offset))
        edit = _Edit(self)
        for producer_id, own in groupby(ordered, key=lambda one: one.producer_id):
            before = edit.pop(producer_id)
            lanes = dict(before.lanes)
            for _, epoch, partition, batch in own:
                lane = lanes.get(partition)
                newest = lane.newest if lane is not None and lane.epoch == epoch else ()
                lanes[partition] = ProducerLane(epoch, (*newest, batch)[-limits.PRODUCER_REQUESTS_REMEMBERED :])
            edit.put(producer_id, before._replace(lanes=MappingProxyType(lanes), last_used_ms=now_ms))
        return edit.done()

    def without_unused(self, oldest_ms: int) -> tuple[NumberedProducers, int]:
        """Forget producers last used before ``oldest_ms``, and the least recently used ones above the limit of lanes.

        Returns:
            The remaining producers, and the largest issue time of an id of which nothing is remembered any more (-1 without one).
        """
        edit = _Edit(self)
        for producer_id, producer in self.by_id.items():
            if edit.lane_count <= self.bounds.lanes_max and producer.last_used_ms >= oldest_ms:
                break
            edit.spend(producer_id, producer.newest_epoch)
        return edit.done(), edit.forget_spent()

    def with_spent(self, spent: Iterable[tuple[str, int]]) -> NumberedProducers:
        """Return the producers with all epochs of each id up to the given one spent. No id is dropped, since batches of it may
        follow."""
        edit = _Edit(self)
        for producer_id, epoch in spent:
            edit.spend(producer_id, epoch)
        return edit.done()

    def spent_epoch(self, producer_id: str) -> int | None:
        """Return the epoch up to which all count as used (-1: none); None for an unknown id."""
        producer = self.by_id.get(producer_id)
        return self.spent.get(producer_id) if producer is None else producer.spent_epoch

    def lane(self, producer_id: str, partition: int) -> ProducerLane | None:
        """Return the producer's lane in the partition; None if it was never used there, or is forgotten."""
        producer = self.by_id.get(producer_id)
        return None if producer is None else producer.lanes.get(partition)

    def unseen_by(self, table: NumberedProducers) -> Iterator[list[NumberedBatch]]:
        """Yield for each lane the newest batches that ``table`` has not seen, oldest first."""
        for producer_id, producer in self.by_id.items():
            for partition, lane in producer.lanes.items():
                there = table.lane(producer_id, partition)
                seen = (_NEVER, _NEVER) if there is None else (there.epoch, there.newest[-1].base_offset)
                new = [one for one in lane.newest if (lane.epoch, one.base_offset) > seen]
                if new:
                    yield [NumberedBatch(producer_id, lane.epoch, partition, one) for one in new]

    def spent_unseen_by(self, table: NumberedProducers) -> list[tuple[str, int]]:
        """Return the (id, epoch) that are spent here, but not in ``table``.

        Everything in ``table`` came from here. So an id that ``table`` has and that is unknown here was dropped: all its epochs
        are spent.
        """
        floors = {producer_id: producer.spent_epoch for producer_id, producer in self.by_id.items()}
        floors |= self.spent
        floors |= dict.fromkeys((there for there in (*table.by_id, *table.spent) if there not in floors), _LAST_EPOCH)
        return [
            (producer_id, epoch)
            for producer_id, epoch in floors.items()
            if epoch > (_NEVER if (there := table.spent_epoch(producer_id)) is None else there)
        ]

    def rows(self) -> tuple[list[_Row], list[tuple[str, int]]]:
        """Return the rows of a checkpoint: producers, and spent ids."""
        rows = [
            (
                producer_id,
                producer.spent_epoch,
                producer.last_used_ms,
                [(partition, lane.epoch, list(lane.newest)) for partition, lane in producer.lanes.items()],
            )
            for producer_id, producer in self.by_id.items()
        ]
        return rows, list(self.spent.items())


class _Edit:
    """A change to ``NumberedProducers`` in progress."""

    def __init__(self, before: NumberedProducers) -> None:
        self._before = before
        self._by_id = dict(before.by_id)
        self._spent: dict[str, int] | None = None
        self.lane_count = before.lane_count
        self._producer_bytes = before.producer_bytes

    def pop(self, producer_id: str) -> NumberedProducer:
        """Take the producer out and return it; a new one if it is unknown, or only its spent epoch is known."""
        producer = self._by_id.pop(producer_id, None)
        if producer is not None:
            self.lane_count -= len(producer.lanes)
            self._producer_bytes -= producer.memory_bytes
            return producer
        spent_epoch = self._before.spent.get(producer_id, _NEVER)
        if spent_epoch != _NEVER:
            self._changed_spent().pop(producer_id, None)
        return NumberedProducer(MappingProxyType({}), 0, spent_epoch)

    def put(self, producer_id: str, producer: NumberedProducer) -> None:
        """Add the producer as the most recently used one."""
        self._by_id[producer_id] = producer
        self.lane_count += len(producer.lanes)
        self._producer_bytes += producer.memory_bytes

    def spend(self, producer_id: str, epoch: int) -> None:
        """Count all epochs of the producer up to ``epoch`` as used, and forget its lanes of those epochs."""
        producer = self._by_id.get(producer_id)
        if producer is None:
            spent = self._changed_spent()
            spent[producer_id] = max(epoch, spent.get(producer_id, _NEVER))
            return
        lanes = {partition: lane for partition, lane in producer.lanes.items() if lane.epoch > epoch}
        spent_epoch = max(epoch, producer.spent_epoch)
        changed = NumberedProducer(MappingProxyType(lanes), producer.last_used_ms, spent_epoch)
        self.lane_count += len(lanes) - len(producer.lanes)
        self._producer_bytes -= producer.memory_bytes
        if lanes:
            self._by_id[producer_id] = changed
            self._producer_bytes += changed.memory_bytes
        else:
            del self._by_id[producer_id]
            self._changed_spent()[producer_id] = spent_epoch

    def forget_spent(self) -> int:
        """Drop the spent ids above the limit, those issued first; return the largest issue time of a dropped one (-1 without
        one)."""
        known = self._before.spent if self._spent is None else self._spent
        surplus = len(known) - self._before.bounds.spent_max
        if surplus <= 0:
            return _NEVER
        spent = self._changed_spent()
        gone = heapq.nsmallest(surplus, spent)  # ids sort by issue time: it comes first in the text
        for producer_id in gone:
            del spent[producer_id]
        return issued_ms(gone[-1])

    def done(self) -> NumberedProducers:
        """Return the changed producers."""
        spent = self._before.spent if self._spent is None else MappingProxyType(self._spent)
        by_id, bounds = MappingProxyType(self._by_id), self._before.bounds
        return NumberedProducers(by_id, spent, self.lane_count, self._producer_bytes, bounds)

    def _changed_spent(self) -> dict[str, int]:
        if self._spent is None:
            self._spent = dict(self._before.spent)
        return self._spent


NO_NUMBERED: Final = NumberedProducers(MappingProxyType({}), MappingProxyType({}))
_SPENT_BYTES: Final = 160
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Epoch = Annotated[int, msgspec.Meta(ge=_NEVER, le=_LAST_EPOCH)]
_Sequence = Annotated[int, msgspec.Meta(ge=0, lt=SEQUENCES)]
_Batch = tuple[_Sequence, _Count, Annotated[int, msgspec.Meta(ge=1, le=2**31)]]
_Batches = Annotated[list[_Batch], msgspec.Meta(min_length=1)]
_Row = tuple[str, int, int, list[tuple[int, int, list[RememberedBatch]]]]
EncodedRow = tuple[str, _Epoch, _Count, list[tuple[_Count, _Epoch, _Batches]]]
EncodedSpent = tuple[str, _Epoch]


def decode_numbered(rows: Iterable[EncodedRow], spent: Iterable[EncodedSpent]) -> NumberedProducers:
    """Decode the producers of a checkpoint. Raises ``ValueError`` for damaged ids."""
    edit = _Edit(NO_NUMBERED)
    for producer_id, spent_epoch, last_used_ms, lanes in rows:
        _check(producer_id)
        by_partition = {
            partition: ProducerLane(epoch, tuple(RememberedBatch(*one) for one in newest))
            for partition, epoch, newest in lanes
        }
        edit.put(producer_id, NumberedProducer(MappingProxyType(by_partition), last_used_ms, spent_epoch))
    by_id = dict(spent)
    for producer_id in by_id:
        _check(producer_id)
    return replace(edit.done(), spent=MappingProxyType(by_id))


_SPENT_ENCODER: Final = msgspec.json.Encoder()
_SPENT_DECODER: Final = msgspec.json.Decoder(list[EncodedSpent])


def encode_spent(spent: Iterable[tuple[str, int]]) -> str:
    """Encode the tag of a drain: JSON ``[[id, epoch], …]``."""
    return _SPENT_ENCODER.encode(list(spent)).decode()


def decode_spent(tag: str) -> list[tuple[str, int]]:
    """Decode the result of ``encode_spent``. Raises ``ValueError`` for anything else."""
    spent = _SPENT_DECODER.decode(tag)
    for producer_id, _ in spent:
        _check(producer_id)
    return spent


def add_to_sequence(sequence: int, count: int) -> int:
    """Return the sequence that follows ``count`` records beginning at ``sequence``."""
    return (sequence + count) % SEQUENCES


def sequence_difference(sequence: int, expected: int) -> int:
    """Return how far a sequence is ahead of the expected one; a negative number says how far it is behind."""
    distance = (sequence - expected) % SEQUENCES
    return distance if distance < SEQUENCES // 2 else distance - SEQUENCES


def _check(producer_id: str) -> None:
    if producer_id != format_number(parse_number(producer_id)):
        raise ValueError(f"{producer_id!r} names a partition")
