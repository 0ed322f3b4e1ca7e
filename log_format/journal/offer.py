"""The offer of an object in a journal's table by one gateway to another: everything that a commit needs, except the records.

Offers are JSON arrays. The gateway that offers the object has judged its batches by their topics' settings. The gateway that
commits it judges everything that depends on the journal. Topics are in the order of the object's records; so are a topic's runs.
Batches are in order of arrival.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from log_format.journal.entries import Attach
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.producers import ProducerStamp, StampedBatch

OFFER_BYTES_MAX: Final = 2 * 1024 * 1024
"""Size above which an offer is not sent: the gateway that has put an object with so many runs commits it itself."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Positive = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
_Version = Annotated[int, msgspec.Meta(ge=-1, le=2**53)]


class OfferedBatch(msgspec.Struct, frozen=True, array_like=True):
    """The parts of one request's batch, with the names of ``topic.append.Batch``."""

    counts: tuple[tuple[_Count, _Positive], ...]
    stamp: ProducerStamp | None
    expected_offset: _Count | None
    transaction: TransactionStamp | None

    @property
    def has_valid_stamp(self) -> bool:
        """Whether a producer can have sent the batch."""
        try:
            if self.stamp is not None:
                StampedBatch(
                    self.stamp, tuple(AppendedRange(partition, 0, count) for partition, count in self.counts)
                ).check()
        except ValueError:
            return False
        return True


class OfferedTopic(msgspec.Struct, frozen=True, array_like=True):
    """The records of one topic. ``attach``: set if the sender knows of no attachment under ``number``."""

    topic_id: str
    number: _Positive
    attach: Attach | None
    runs: tuple[tuple[_Count, _Positive, _Count, _Count, _Count], ...]
    """Partition, number of records, stored bytes, oldest and newest timestamp of each run."""
    batches: tuple[OfferedBatch, ...]

    def attaching(self) -> Attach:
        """Return the entry that attaches the topic, for ``Judging.topic``."""
        assert self.attach is not None
        return self.attach

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the number of records in the batches must be judged."""
        for batch in self.batches:
            if batch.stamp is not None or batch.expected_offset is not None or batch.transaction is not None:
                return False
        return True

    @property
    def is_whole(self) -> bool:
        """Whether the batches' records are exactly those of the runs."""
        counts: dict[int, int] = {}
        for batch in self.batches:
            if batch.stamp is not None and not batch.has_valid_stamp:
                return False
            for partition, count in batch.counts:
                counts[partition] = counts.get(partition, 0) + count
        for partition, count, *_ in self.runs:
            if counts.pop(partition, 0) != count:
                return False
        is_attached = self.attach is None or (self.attach.topic_id, self.attach.number) == (self.topic_id, self.number)
        return is_attached and not counts


class Offer(msgspec.Struct, frozen=True, array_like=True):
    """An object in the store, named by its path in the journal's table."""

    path: str
    size_bytes: _Positive
    footer_start: _Count
    footer_crc32: _Count
    record_count: _Positive
    offered_at: _Version
    """Version of the journal that the sender knew before it named the object."""
    staged_at_ms: _Count
    """Time by the sender's clock, before the object was put."""
    topics: tuple[OfferedTopic, ...]

    @property
    def run_count(self) -> int:
        """Number of runs in the object."""
        return sum(len(one.runs) for one in self.topics)

    @property
    def attach_bytes(self) -> int:
        """Size of the producers and transactions of the topics that the offer attaches."""
        attached = [one.attach for one in self.topics if one.attach is not None]
        return sum(len(bytes(one.producers)) + len(bytes(one.transactions)) for one in attached)


class OfferAnswer(msgspec.Struct, frozen=True, array_like=True):
    """The answer that a commit has the whole object: the base offset of each of its runs, in their order."""

    version: _Count
    bases: tuple[_Count, ...]


_ENCODER: Final = msgspec.json.Encoder()
_OFFER_DECODER: Final = msgspec.json.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0, le=10_000)], Offer])
_ANSWER_DECODER: Final = msgspec.json.Decoder(OfferAnswer)


def encode_offer(journal: int, offer: Offer) -> bytes:
    """Encode an offer to a journal."""
    return _ENCODER.encode((journal, offer))


def decode_offer(data: bytes) -> tuple[int, Offer]:
    """Return the number of the journal, and the offer to it. Raises ``ValueError``."""
    journal, offer = _OFFER_DECODER.decode(data)
    if not all(one.is_whole for one in offer.topics):
        raise ValueError("the batches are not those of the runs")
    return journal, offer


def encode_answer(taken: OfferAnswer) -> bytes:
    """Encode the answer to an offer."""
    return _ENCODER.encode(taken)


def decode_answer(data: bytes) -> OfferAnswer:
    """Decode the answer to an offer. Raises ``ValueError``."""
    return _ANSWER_DECODER.decode(data)
