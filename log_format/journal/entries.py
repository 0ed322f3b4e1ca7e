"""Entries of a journal's commit: which topics' appends the journal accepts, and how far these topics are drained.

The commit's tag ``tidelog.journal`` (``commitInfo.tags``) is a JSON array of entries, in order; a long one is compressed with
zlib and encoded as base64. Entries apply before the commit's objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from log_format.delta.actions import Commit
from log_format.delta.tag_compression import compress_tag, decompress_tag
from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.limits import JOURNAL_TAG_BYTES_MAX, JOURNAL_TAG_PLAIN_BYTES_MAX, PARTITION_COUNT_MAX
from log_format.topic.producers import ProducerStamp, StampedBatch
from log_format.topic.state import TopicState

TAG_ENTRIES: Final = "tidelog.journal"

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=10**18 - 1)]
_Partitions = Annotated[int, msgspec.Meta(ge=1, le=PARTITION_COUNT_MAX)]


class Attach(msgspec.Struct, frozen=True, array_like=True, tag="attach", tag_field="kind"):
    """Entry: from now on the journal accepts appends of this topic under ``number``.

    If the journal knows the topic with the same ``first``, the journal's own next offsets, producers and transactions stay.
    Otherwise the entry's apply, which are the topic's at the version that attached it.
    """

    topic_id: str
    name: str
    number: _Number
    first: _Number
    partition_count: _Partitions
    settings: tuple[_Count, _Count, _Count]
    """``producer.id.expiration.ms``, ``drain.ms``, ``flush.bytes``."""
    next_offsets: list[_Count]
    producers: msgspec.Raw
    """Result of ``Producers.encoded``."""
    transactions: msgspec.Raw
    """Result of ``AppliedTransactions.encoded``."""


class Close(msgspec.Struct, frozen=True, array_like=True, tag="close", tag_field="kind"):
    """Entry: the journal accepts no appends of this topic under ``number`` or a smaller one, even if it never had the topic."""

    topic_id: str
    number: _Number


class Drained(msgspec.Struct, frozen=True, array_like=True, tag="drained", tag_field="kind"):
    """Entry: the topic's own table has its records below these offsets, by partition; later records came after ``up_to_ms``."""

    topic_id: str
    offsets: list[tuple[_Count, _Count]]
    up_to_ms: _Count


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release", tag_field="kind"):
    """Entry: the topic has left this journal. It is closed under ``number``, and all its records are drained or deleted."""

    topic_id: str
    number: _Number


class EmptyRequest(msgspec.Struct, frozen=True, array_like=True, tag="empty", tag_field="kind"):
    """Entry: an idempotent request without records."""

    topic_id: str
    producer_id: str
    epoch: _Count
    sequence: _Count


Entry = Attach | Close | Drained | Release | EmptyRequest

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[Entry])


def attach_entry(state: TopicState) -> Attach:
    """Return the entry that attaches a topic, from the state of its own log with that attachment."""
    assert state.attachment is not None
    config = state.config
    return Attach(
        topic_id=state.existing_id,
        name=state.topic,
        number=state.attachment.number,
        first=state.attachment.first,
        partition_count=state.partition_count,
        settings=(
            config.integer("producer.id.expiration.ms"),
            config.integer("drain.ms"),
            config.integer("flush.bytes"),
        ),
        next_offsets=state.next_offsets.tolist(),
        producers=msgspec.Raw(state.producers.encoded()),
        transactions=msgspec.Raw(state.transactions.encoded()),
    )


def attach_entry_bytes(state: TopicState) -> int:
    """Return a lower bound of the size of the entry that ``attach_entry`` returns in a commit, without making the entry."""
    return 500 + 20 * state.partition_count + state.producers.memory_bytes + state.transactions.memory_bytes


def encode_entries(entries: Sequence[Entry]) -> str:
    """Return the tag of a commit with these entries."""
    return compress_tag(_ENCODER.encode(entries), plain_bytes_max=JOURNAL_TAG_PLAIN_BYTES_MAX)


def decode_entries(commit: Commit) -> list[Entry]:
    """Return the entries of a journal's commit. Raises ``CorruptData``."""
    tag = commit.tags.get(TAG_ENTRIES)
    try:
        entries = [] if tag is None else _DECODER.decode(decompress_tag(tag, bytes_max=JOURNAL_TAG_BYTES_MAX))
        for entry in entries:
            if isinstance(entry, EmptyRequest):
                StampedBatch(ProducerStamp(entry.producer_id, entry.epoch, entry.sequence), ()).check()
    except (*DECODE_ERRORS, ValueError) as problem:
        raise CorruptData(f"A journal's commit can't be used: {problem}.") from problem
    return entries
