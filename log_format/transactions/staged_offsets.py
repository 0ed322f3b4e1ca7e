"""Offsets of a group in an open transaction: one object for each request, next to the staged records.

The name is like that of staged records, with the group instead of the topic, and ends in ``.json``. If two requests of a
transaction name the same partition of a group, the later one counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from log_format.errors import DECODE_ERRORS, CorruptData

SUFFIX: Final = ".json"


class StagedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The next offset to read in a partition."""

    topic: str
    partition: int
    offset: int
    metadata: str | None = None
    leader_epoch: int = -1
    """Leader epoch as a Kafka client sent it; absent in older objects."""
    topic_id: str | None = None
    """Incarnation that the offset is for; None: the one at the commit."""


class StagedOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """One request's offsets of a group, to be committed with the transaction."""

    group: str
    member_id: str | None
    generation: int | None
    offsets: tuple[StagedOffset, ...]


_DECODER: Final = msgspec.json.Decoder(StagedOffsets)


def encode_offsets(staged: StagedOffsets) -> bytes:
    """Encode the object."""
    return msgspec.json.encode(staged)


def decode_offsets(data: bytes, key: str) -> StagedOffsets:
    """Decode the result of ``encode_offsets``. Raises only ``CorruptData``."""
    try:
        return _DECODER.decode(data)
    except DECODE_ERRORS as problem:
        raise CorruptData(f"{key} holds no staged offsets: {problem}.", object=key) from problem
