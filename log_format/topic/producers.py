"""What a topic remembers of its producers, so that a request is in the log once (KIP-98, "Idempotent producer guarantees").

Of each producer: its epoch, its last sequence, and the places of its newest requests. All of it follows from the log: a commit's
``add`` names its stamped requests, so every gateway that replays it knows the same.

Forgetting never allows a duplicate. Dropped are producers unused for the topic's ``producer.id.expiration.ms``, and the least
recently used beyond ``PRODUCERS_PER_TOPIC_MAX``. The largest issue time of a dropped id is kept. An unknown id is accepted only
when it was issued later, since then it was never here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from log_format import limits
from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.appended import Appended, Duplicate
from log_format.topic.producer_id import issued_ms


class ProducerStamp(NamedTuple):
    """The request in a batch: the ``sequence``-th of the producer's ``epoch`` to this topic, from 0."""

    producer_id: str
    epoch: int
    sequence: int


class StampedBatch(NamedTuple):
    """A stamped request in the log, and its places (none when it had no records)."""

    stamp: ProducerStamp
    places: tuple[Appended, ...]


class Remembered(NamedTuple):
    """One of a producer's newest requests."""

    sequence: int
    places: tuple[Appended, ...]


class Producer(NamedTuple):
    """One producer's state. ``newest``: its last requests, in order, at most ``PRODUCER_REQUESTS_REMEMBERED``."""

    epoch: int
    last_sequence: int
    newest: tuple[Remembered, ...]
    last_used_ms: int


@dataclass(frozen=True, slots=True)
class Producers:
    """The producers of a topic at one version."""

    by_id: Mapping[str, Producer]
    """Least recently used first."""
    forgotten_issued_ms: int
    """The largest issue time of a dropped id; -1 without one."""
    memory_bytes: int = 0
    """About how much memory they take."""

    def __len__(self) -> int:
        """How many producers are remembered."""
        return len(self.by_id)

    def expected_sequence(self, producer_id: str, epoch: int) -> int:
        """The sequence that the producer's next request of this epoch must have."""
        producer = self.by_id.get(producer_id)
        return producer.last_sequence + 1 if producer is not None and producer.epoch == epoch else 0

    def with_batches(self, batches: Iterable[StampedBatch], now_ms: int, expiration_ms: int) -> Producers:
        """The memory after a commit with these batches. ``now_ms``: the commit's own time."""
        by_id, size = dict(self.by_id), self.memory_bytes
        for (producer_id, epoch, sequence), places in sorted(batches, key=lambda batch: batch.stamp):
            producer = by_id.pop(producer_id, None)
            newest = producer.newest if producer is not None and producer.epoch == epoch else ()
            newest = (*newest, Remembered(sequence, places))[-limits.PRODUCER_REQUESTS_REMEMBERED :]
            size -= 0 if producer is None else _memory_bytes(producer)
            by_id[producer_id] = Producer(epoch, sequence, newest, now_ms)
            size += _memory_bytes(by_id[producer_id])
        forgotten = self.forgotten_issued_ms
        for producer_id in _to_forget(by_id, now_ms - expiration_ms):
            size -= _memory_bytes(by_id.pop(producer_id))
            forgotten = max(forgotten, issued_ms(producer_id))
        return Producers(MappingProxyType(by_id), forgotten, size)

    def with_forgotten(self, issued_ms_max: int) -> Producers:
        """Ids issued up to then that are not here may have been used."""
        return Producers(self.by_id, max(self.forgotten_issued_ms, issued_ms_max), self.memory_bytes)

    def encoded(self) -> bytes:
        """As JSON, for a checkpoint."""
        rows = [
            (producer_id, p.epoch, p.last_sequence, p.last_used_ms, [(r.sequence, _plain(r.places)) for r in p.newest])
            for producer_id, p in self.by_id.items()
        ]
        return _ENCODER.encode((self.forgotten_issued_ms, rows))


NO_PRODUCERS: Final = Producers(MappingProxyType({}), -1)

_PlainPlaces = list[tuple[int, int, int]]
_ProducerRow = tuple[str, int, int, int, list[tuple[int, _PlainPlaces]]]
_ENCODER: Final = msgspec.json.Encoder()
_CHECKPOINT_DECODER: Final = msgspec.json.Decoder(tuple[int, list[_ProducerRow]])
_TAG_DECODER: Final = msgspec.json.Decoder(list[tuple[str, int, int, _PlainPlaces]])


def decode_producers(data: bytes) -> Producers:
    """The memory from ``Producers.encoded``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    forgotten, rows = _CHECKPOINT_DECODER.decode(data)
    by_id = {
        producer_id: Producer(
            epoch,
            last_sequence,
            tuple(Remembered(sequence, _places(plain)) for sequence, plain in newest),
            last_used_ms,
        )
        for producer_id, epoch, last_sequence, last_used_ms, newest in rows
    }
    for producer_id in by_id:
        issued_ms(producer_id)
    return Producers(MappingProxyType(by_id), forgotten, sum(map(_memory_bytes, by_id.values())))


def encode_stamps(batches: Iterable[StampedBatch]) -> str:
    """The tag of an ``add`` with these: JSON ``[[id, epoch, sequence, [[partition, base offset, count], …]], …]``."""
    return _ENCODER.encode([(*stamp, _plain(places)) for stamp, places in batches]).decode()


def decode_stamps(tag: str) -> list[StampedBatch]:
    """The batches from ``encode_stamps``. Raises ``ValueError`` (``msgspec.DecodeError``) for anything else."""
    batches = [
        StampedBatch(ProducerStamp(producer_id, epoch, sequence), _places(plain))
        for producer_id, epoch, sequence, plain in _TAG_DECODER.decode(tag)
    ]
    for batch in batches:
        issued_ms(batch.stamp.producer_id)
    return batches


class SequenceCheck:
    """Judges the stamped batches of one flush, one after another, by a topic's memory.

    ``assume_order``: accepts batches that are ahead, since those before them are about to be committed.
    """

    def __init__(self, producers: Producers, now_ms: int, expiration_ms: int, *, assume_order: bool = False) -> None:
        self._producers = producers
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._assume_order = assume_order
        self._taken: dict[tuple[str, int], int] = {}
        """(id, epoch) -> the last sequence in this flush."""
        self._newest_taken: dict[str, int] = {}
        """id -> the newest epoch in this flush."""

    def judge(self, stamp: ProducerStamp) -> Duplicate | TidelogError | None:
        """None: the request is the producer's next one. Not for a request that this flush took: it has no places yet."""
        producer_id, epoch, sequence = stamp
        known = self._producers.by_id.get(producer_id)
        if known is not None and self._now_ms - known.last_used_ms > self._expiration_ms:
            return _unknown(stamp, "was not used for too long and is forgotten")
        if known is None and issued_ms(producer_id) <= self._producers.forgotten_issued_ms:
            return _unknown(stamp, "may have been used here and is forgotten")
        newest_epoch = max(self._newest_taken.get(producer_id, -1), known.epoch if known is not None else -1)
        if epoch < newest_epoch:
            return fenced(producer_id, epoch, newest_epoch)
        if known is not None and epoch == known.epoch:
            for remembered in known.newest:
                if remembered.sequence == sequence:
                    return Duplicate(remembered.places)
        expected = self._taken.get((producer_id, epoch), self._producers.expected_sequence(producer_id, epoch) - 1) + 1
        if sequence == expected or (sequence > expected and self._assume_order):
            return None
        return out_of_order(stamp, expected)

    def take(self, stamp: ProducerStamp) -> None:
        """The batch will be appended: later ones are judged accordingly."""
        self._taken[stamp.producer_id, stamp.epoch] = stamp.sequence
        self._newest_taken[stamp.producer_id] = max(stamp.epoch, self._newest_taken.get(stamp.producer_id, stamp.epoch))


def out_of_order(stamp: ProducerStamp, expected: int) -> TidelogError:
    """The refusal of a request that is not the producer's next one; retryable when earlier ones are missing."""
    ahead = stamp.sequence > expected
    what = "those before it are missing" if ahead else "it is too old to tell where its records are"
    return RequestRefused(
        f"Request {stamp.sequence} of producer {stamp.producer_id} is out of order: the next one is {expected}; {what}.",
        code=ErrorCode.SEQUENCE_OUT_OF_ORDER,
        retryable=ahead,
        expected_sequence=expected,
    )


def fenced(producer_id: str, epoch: int, newest_epoch: int) -> TidelogError:
    """The refusal of an older epoch."""
    return RequestRefused(
        f"Epoch {epoch} of producer {producer_id} is fenced: epoch {newest_epoch} has begun.",
        code=ErrorCode.FENCED_PRODUCER,
    )


def _unknown(stamp: ProducerStamp, why: str) -> TidelogError:
    return RequestRefused(
        f"Producer {stamp.producer_id} {why}. Get a new one with POST /v1/producers.", code=ErrorCode.UNKNOWN_PRODUCER
    )


def _to_forget(by_id: Mapping[str, Producer], oldest_ms: int) -> list[str]:
    """The ids to drop: the first ones, since ids are in order of their last use."""
    surplus = len(by_id) - limits.PRODUCERS_PER_TOPIC_MAX
    dropped = []
    for index, (producer_id, producer) in enumerate(by_id.items()):
        if index >= surplus and producer.last_used_ms >= oldest_ms:
            break
        dropped.append(producer_id)
    return dropped


def _memory_bytes(producer: Producer) -> int:
    """Measured on CPython 3.11, rounded up."""
    return 512 + sum(128 + 192 * len(remembered.places) for remembered in producer.newest)


def _plain(places: tuple[Appended, ...]) -> _PlainPlaces:
    return [(place.partition, place.base_offset, place.count) for place in places]


def _places(plain: _PlainPlaces) -> tuple[Appended, ...]:
    return tuple(Appended(*place) for place in plain)
