"""What a journal's commit says beside its objects: which topics' appends it takes, and how far they are in their own tables.

The commit's tag ``tidelog.journal`` (``commitInfo.tags``) is a JSON array of these, in order; a long one is compressed with zlib,
as base64. They count before the commit's objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from log_format.delta.actions import Commit
from log_format.delta.packed import packed, unpacked
from log_format.errors import CorruptData
from log_format.limits import JOURNAL_TAG_BYTES_MAX, JOURNAL_TAG_PLAIN_BYTES_MAX, PARTITION_COUNT_MAX
from log_format.topic.producers import ProducerStamp, StampedBatch
from log_format.topic.state import TopicState

TAG_ENTRIES: Final = "tidelog.journal"

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Number = Annotated[int, msgspec.Meta(ge=1, le=10**18 - 1)]
_Partitions = Annotated[int, msgspec.Meta(ge=1, le=PARTITION_COUNT_MAX)]


class Attach(msgspec.Struct, frozen=True, array_like=True, tag="attach", tag_field="kind"):
    """From now on the journal takes appends of this topic under ``number``.

    Where the journal knows the topic by the same ``first``, it goes on from its own next offsets, producers and transactions;
    else from these, which are the topic's at the version that attached it.
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
    """``Producers.encoded``."""
    transactions: msgspec.Raw
    """``AppliedTransactions.encoded``."""


class Close(msgspec.Struct, frozen=True, array_like=True, tag="close", tag_field="kind"):
    """The journal takes no appends of this topic under ``number`` or a smaller one, also where it never took any."""

    topic_id: str
    number: _Number


class Drained(msgspec.Struct, frozen=True, array_like=True, tag="drained", tag_field="kind"):
    """The topic's own table has its records below these offsets, by partition; what is not there came after ``up_to_ms``."""

    topic_id: str
    offsets: list[tuple[_Count, _Count]]
    up_to_ms: _Count


class Release(msgspec.Struct, frozen=True, array_like=True, tag="release", tag_field="kind"):
    """The topic is not at this journal any more: closed under ``number``, and wholly in its own table or deleted."""

    topic_id: str
    number: _Number


class EmptyRequest(msgspec.Struct, frozen=True, array_like=True, tag="empty", tag_field="kind"):
    """An idempotent request without records."""

    topic_id: str
    producer_id: str
    epoch: _Count
    sequence: _Count


Entry = Attach | Close | Drained | Release | EmptyRequest

_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[Entry])


def attach(state: TopicState) -> Attach:
    """The entry for an attached topic, from its own log's state at a version with that attachment."""
    assert state.topic_id is not None
    assert state.attachment is not None
    config = state.config
    return Attach(
        topic_id=state.topic_id,
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


def attach_bytes(state: TopicState) -> int:
    """At least the length of ``attach`` in a commit, without making it."""
    return 500 + 20 * state.partition_count + state.producers.memory_bytes + state.transactions.memory_bytes


def encode_entries(entries: Sequence[Entry]) -> str:
    """The tag of a commit with these."""
    return packed(_ENCODER.encode(entries), plain_bytes_max=JOURNAL_TAG_PLAIN_BYTES_MAX)


def entries_of(commit: Commit) -> list[Entry]:
    """The entries of a commit of a journal. Raises ``CorruptData``."""
    tag = commit.tags.get(TAG_ENTRIES)
    try:
        entries = [] if tag is None else _DECODER.decode(unpacked(tag, bytes_max=JOURNAL_TAG_BYTES_MAX))
        for entry in entries:
            if isinstance(entry, EmptyRequest):
                StampedBatch(ProducerStamp(entry.producer_id, entry.epoch, entry.sequence), ()).check()
    except (ValueError, RecursionError) as problem:
        raise CorruptData(f"A journal's commit can't be used: {problem}.") from problem
    return entries
