"""What a topic remembers of Kafka clients' producers, whose sequences count the records of each partition (KIP-98).

Of each producer and partition, a *lane*: its epoch and its newest five batches. Sequences wrap behind 2**31 - 1. Clients raise
the epoch of such a producer by themselves (KIP-360) and begin each lane at 0 again.

Forgetting never allows a duplicate. A producer is forgotten as a whole, so a missing lane of a known producer was never used.
Its largest epoch stays behind, *spent*: larger ones are new. Past ``SPENT_PRODUCERS_MAX`` the spent id that was issued first
goes, and no unknown id up to its issue time is accepted any more (``Producers.forgotten_issued_ms``).
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
from log_format.topic.producer_id import issued_ms, number_of, numbered

SEQUENCES: Final = 2**31
"""A sequence is below this; 0 follows the last."""
_NEVER: Final = -1
_LAST_EPOCH: Final = 2**15 - 1


class Numbered(NamedTuple):
    """One of a lane's newest batches: its first record's sequence and offset, and how many records it has."""

    sequence: int
    base_offset: int
    record_count: int


class Lane(NamedTuple):
    """A producer in one partition. ``newest``: at least one, in order."""

    epoch: int
    newest: tuple[Numbered, ...]

    @property
    def next_sequence(self) -> int:
        """That of the next batch's first record."""
        last = self.newest[-1]
        return after(last.sequence, last.record_count)


class NumberedProducer(NamedTuple):
    """``spent_epoch``: all epochs up to it count as used, in every partition."""

    lanes: Mapping[int, Lane]
    last_used_ms: int
    spent_epoch: int = _NEVER

    @property
    def newest_epoch(self) -> int:
        """The largest one used."""
        return max((lane.epoch for lane in self.lanes.values()), default=self.spent_epoch)

    @property
    def memory_bytes(self) -> int:
        """Measured on CPython 3.11, rounded up."""
        return 512 + sum(320 + 176 * len(lane.newest) for lane in self.lanes.values())


class NumberedBatch(NamedTuple):
    """A batch in the log. ``producer_id``: without its partition."""

    producer_id: str
    epoch: int
    partition: int
    batch: Numbered


class Bounds(NamedTuple):
    """How much a topic remembers."""

    lanes_max: int = limits.LANES_PER_TOPIC_MAX
    spent_max: int = limits.SPENT_PRODUCERS_MAX


@dataclass(frozen=True, slots=True)
class NumberedProducers:
    """The Kafka clients' producers of a topic at one version."""

    by_id: Mapping[str, NumberedProducer]
    """Least recently used first."""
    spent: Mapping[str, int]
    """Forgotten producers, and the largest epoch of each."""
    lane_count: int = 0
    producer_bytes: int = 0
    bounds: Bounds = field(default=Bounds(), compare=False)

    @property
    def memory_bytes(self) -> int:
        """About how much memory they take."""
        return self.producer_bytes + _SPENT_BYTES * len(self.spent)

    def with_batches(self, batches: Iterable[NumberedBatch], now_ms: int) -> NumberedProducers:
        """After a commit with these. ``now_ms``: the commit's own time."""
        ordered = sorted(batches, key=lambda one: (one.producer_id, one.epoch, one.batch.base_offset))
        edit = _Edit(self)
        for producer_id, own in groupby(ordered, key=lambda one: one.producer_id):
            before = edit.pop(producer_id)
            lanes = dict(before.lanes)
            for _, epoch, partition, batch in own:
                lane = lanes.get(partition)
                newest = lane.newest if lane is not None and lane.epoch == epoch else ()
                lanes[partition] = Lane(epoch, (*newest, batch)[-limits.PRODUCER_REQUESTS_REMEMBERED :])
            edit.put(producer_id, before._replace(lanes=MappingProxyType(lanes), last_used_ms=now_ms))
        return edit.done()

    def without_unused(self, oldest_ms: int) -> tuple[NumberedProducers, int]:
        """Without those last used before then, and without the least recently used beyond the bound of lanes; and the
        largest issue time of an id of which nothing is left (-1 without one)."""
        edit = _Edit(self)
        for producer_id, producer in self.by_id.items():
            if edit.lane_count <= self.bounds.lanes_max and producer.last_used_ms >= oldest_ms:
                break
            edit.spend(producer_id, producer.newest_epoch)
        return edit.done(), edit.forget_spent()

    def with_spent(self, spent: Iterable[tuple[str, int]]) -> NumberedProducers:
        """With all epochs of each id up to the one named spent. Batches of these ids may follow, so none is dropped."""
        edit = _Edit(self)
        for producer_id, epoch in spent:
            edit.spend(producer_id, epoch)
        return edit.done()

    def spent_epoch(self, producer_id: str) -> int | None:
        """Up to which epoch all may have been used; -1: none was. None for an id that is not here."""
        producer = self.by_id.get(producer_id)
        return self.spent.get(producer_id) if producer is None else producer.spent_epoch

    def lane(self, producer_id: str, partition: int) -> Lane | None:
        """The producer in the partition; None where it was never used there, or is forgotten."""
        producer = self.by_id.get(producer_id)
        return None if producer is None else producer.lanes.get(partition)

    def unseen_by(self, table: NumberedProducers) -> Iterator[list[NumberedBatch]]:
        """Of each lane the newest batches that ``table`` has not seen, in order."""
        for producer_id, producer in self.by_id.items():
            for partition, lane in producer.lanes.items():
                there = table.lane(producer_id, partition)
                seen = (_NEVER, _NEVER) if there is None else (there.epoch, there.newest[-1].base_offset)
                new = [one for one in lane.newest if (lane.epoch, one.base_offset) > seen]
                if new:
                    yield [NumberedBatch(producer_id, lane.epoch, partition, one) for one in new]

    def spent_unseen_by(self, table: NumberedProducers) -> list[tuple[str, int]]:
        """What is spent here and not there. ``table`` had nothing but from here: of its ids that are gone here all is spent."""
        floors = {producer_id: producer.spent_epoch for producer_id, producer in self.by_id.items()}
        floors |= self.spent
        floors |= dict.fromkeys((there for there in (*table.by_id, *table.spent) if there not in floors), _LAST_EPOCH)
        return [
            (producer_id, epoch)
            for producer_id, epoch in floors.items()
            if epoch > (_NEVER if (there := table.spent_epoch(producer_id)) is None else there)
        ]

    def rows(self) -> tuple[list[_Row], list[tuple[str, int]]]:
        """What a checkpoint has of them."""
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
    """Producers under change."""

    def __init__(self, before: NumberedProducers) -> None:
        self._before = before
        self._by_id = dict(before.by_id)
        self._spent: dict[str, int] | None = None
        self.lane_count = before.lane_count
        self._producer_bytes = before.producer_bytes

    def pop(self, producer_id: str) -> NumberedProducer:
        """The producer, which is not here then; a new one where it is unknown or spent."""
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
        """As the most recently used."""
        self._by_id[producer_id] = producer
        self.lane_count += len(producer.lanes)
        self._producer_bytes += producer.memory_bytes

    def spend(self, producer_id: str, epoch: int) -> None:
        """All epochs up to this one count as used; lanes of no other are forgotten."""
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
        """Drop the spent ids that were issued first beyond the bound; the largest issue time of those."""
        known = self._before.spent if self._spent is None else self._spent
        surplus = len(known) - self._before.bounds.spent_max
        if surplus <= 0:
            return _NEVER
        spent = self._changed_spent()
        gone = heapq.nsmallest(surplus, spent)  # the issue time comes first in the text
        for producer_id in gone:
            del spent[producer_id]
        return issued_ms(gone[-1])

    def done(self) -> NumberedProducers:
        """The producers as they are now."""
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
_Row = tuple[str, int, int, list[tuple[int, int, list[Numbered]]]]
EncodedRow = tuple[str, _Epoch, _Count, list[tuple[_Count, _Epoch, _Batches]]]
EncodedSpent = tuple[str, _Epoch]


def numbered_of_rows(rows: Iterable[EncodedRow], spent: Iterable[EncodedSpent]) -> NumberedProducers:
    """The producers of a checkpoint. Raises ``ValueError`` for damaged ids."""
    edit = _Edit(NO_NUMBERED)
    for producer_id, spent_epoch, last_used_ms, lanes in rows:
        _check(producer_id)
        by_partition = {
            partition: Lane(epoch, tuple(Numbered(*one) for one in newest)) for partition, epoch, newest in lanes
        }
        edit.put(producer_id, NumberedProducer(MappingProxyType(by_partition), last_used_ms, spent_epoch))
    by_id = dict(spent)
    for producer_id in by_id:
        _check(producer_id)
    return replace(edit.done(), spent=MappingProxyType(by_id))


_SPENT_ENCODER: Final = msgspec.json.Encoder()
_SPENT_DECODER: Final = msgspec.json.Decoder(list[EncodedSpent])


def encode_spent(spent: Iterable[tuple[str, int]]) -> str:
    """The tag of a drain: JSON ``[[id, epoch], …]``."""
    return _SPENT_ENCODER.encode(list(spent)).decode()


def decode_spent(tag: str) -> list[tuple[str, int]]:
    """From ``encode_spent``. Raises ``ValueError`` for anything else."""
    spent = _SPENT_DECODER.decode(tag)
    for producer_id, _ in spent:
        _check(producer_id)
    return spent


def after(sequence: int, count: int) -> int:
    """The sequence behind so many records."""
    return (sequence + count) % SEQUENCES


def ahead(sequence: int, expected: int) -> int:
    """How far a sequence is ahead of the expected one; negative: how far it is behind."""
    distance = (sequence - expected) % SEQUENCES
    return distance if distance < SEQUENCES // 2 else distance - SEQUENCES


def _check(producer_id: str) -> None:
    if producer_id != numbered(number_of(producer_id)):
        raise ValueError(f"{producer_id!r} names a partition")
