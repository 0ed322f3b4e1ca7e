"""Offsets of a group in an open transaction: one object for each request, beside the staged records.

The name is that of staged records with the group instead of the topic, and ends in ``.json``. When two requests of a
transaction name one partition of a group, the later counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from log_format.errors import CorruptData

SUFFIX: Final = ".json"


class StagedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset to read of a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    leader_epoch: int = -1
    """As a Kafka client sent it; absent in older objects."""
    topic_id: str | None = None
    """The incarnation that it is for; None: the one at the commit."""


class StagedOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """One request's offsets of a group, to be committed with the transaction."""

    group: str
    member_id: str | None
    generation: int | None
    offsets: tuple[StagedOffset, ...]


_DECODER: Final = msgspec.json.Decoder(StagedOffsets)


def encode_offsets(staged: StagedOffsets) -> bytes:
    """The object's bytes."""
    return msgspec.json.encode(staged)


def decode_offsets(data: bytes, key: str) -> StagedOffsets:
    """The offsets from ``encode_offsets``. Raises only ``CorruptData``."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise CorruptData(f"{key} holds no staged offsets: {problem}.", object=key) from problem
