"""A note that settlements of a queue belong to a transaction: one object for each request, next to the staged records.

The settlements are pending in ``system/queues`` under ``pending_id``. The name is that of staged offsets, with the queue instead
of the group.
"""

from __future__ import annotations

from typing import Final

import msgspec

from log_format.errors import DECODE_ERRORS, CorruptData


class StagedSettlements(msgspec.Struct, frozen=True, kw_only=True):
    """The settlements of one request, or of a queue's own transaction of records and settlements."""

    queue: str
    pending_id: str


_DECODER: Final = msgspec.json.Decoder(StagedSettlements)
_PREFIX: Final = b'{"queue":'


def is_settlements(data: bytes) -> bool:
    """Return whether a staged object is such a note; offsets of a group begin differently."""
    return data.startswith(_PREFIX)


def encode_settlements(staged: StagedSettlements) -> bytes:
    """Encode the object."""
    return msgspec.json.encode(staged)


def decode_settlements(data: bytes, key: str) -> StagedSettlements:
    """Decode the result of ``encode_settlements``. Raises only ``CorruptData``."""
    try:
        return _DECODER.decode(data)
    except DECODE_ERRORS as problem:
        raise CorruptData(f"{key} holds no staged settlements: {problem}.", object=key) from problem
