"""Records that a queue gave, with the ranges of their offsets: for clients that name offsets, and for messages between gateways.

A message between gateways is msgpack, with the records as Arrow's stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from gateway.queues.received import Delivered, Received, ReceiveRequest
from gateway.queues.settlement import Result, Settlement
from log_format.errors import DECODE_ERRORS, ErrorCode, TidelogError

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Maximum bytes of one gateway's request to another: 10,000 settlements take a part of it."""
PASSED_BYTES_MAX: Final = 1024 * 1024
"""Bytes of records in one answer between gateways; a first record that is larger comes all the same."""
ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
M = TypeVar("M")


class TakenPart(msgspec.Struct, frozen=True):
    """Records of one partition (``RECORD_SCHEMA``) with one delivery ``count``, and the ranges of their offsets."""

    topic: str
    partition: int
    records: pa.Table
    ranges: Sequence[tuple[int, int]]
    count: int
    lease: str


class TakenRecords(msgspec.Struct, frozen=True):
    """Records in the order of offsets; locked for ``lock_ms``."""

    parts: Sequence[TakenPart]
    lock_ms: int
    size_bytes: int


class TakeRequest(msgspec.Struct, frozen=True):
    """One gateway's request to receive from another's queue."""

    queue: str
    wish: ReceiveRequest


class SettleRequest(msgspec.Struct, frozen=True):
    """One gateway's settlements of records of another's queue."""

    queue: str
    settlements: list[Settlement]


class Refusal(msgspec.Struct, frozen=True):
    """Reason why another gateway refused a request."""

    code: ErrorCode
    detail: str

    @classmethod
    def of(cls, error: TidelogError) -> Refusal:
        """Return the refusal to send for an error."""
        return cls(error.code, error.detail)


class TakeAnswer(msgspec.Struct, frozen=True):
    """Answer to ``TakeRequest``. ``taken_records`` is None if it is refused."""

    taken: TakenRecords | None = None
    refusal: Refusal | None = None


class SettleAnswer(msgspec.Struct, frozen=True):
    """Answer to ``SettleRequest``. ``results`` is None if it is refused."""

    results: list[Result] | None = None
    refusal: Refusal | None = None


def taken_records(received: Received, lock_ms: int) -> TakenRecords:
    """Return the message for an answer of this gateway's queues."""
    parts = [
        TakenPart(one.topic, one.share.partition, one.records, _ranges(one), one.held.count + 1, lease.lease_id)
        for one, lease in received.parts
    ]
    parts.sort(key=lambda part: (part.topic, part.partition, part.ranges[0]))
    return TakenRecords(parts, lock_ms, received.size_bytes)


def encode_message(message: object) -> bytes:
    """Return the bytes of a message to another gateway."""
    return msgspec.msgpack.encode(message, enc_hook=_stream)


def decode_message(data: bytes, kind: type[M]) -> M:
    """Return a message of one of the four kinds. Raises ``ValueError`` for anything else."""
    try:
        message: M = _DECODERS[kind].decode(data)
    except (*DECODE_ERRORS, pa.ArrowInvalid) as error:
        raise ValueError(str(error)) from error
    return message


def _stream(value: object) -> bytes:
    assert isinstance(value, pa.Table)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write_table(value)
    return bytes(sink.getvalue())


def _table(kind: type, data: bytes) -> pa.Table:
    assert kind is pa.Table
    return pa.ipc.open_stream(data).read_all()


_DECODERS: Final[dict[type, Any]] = {
    kind: msgspec.msgpack.Decoder(kind, dec_hook=_table)
    for kind in (TakeRequest, SettleRequest, TakeAnswer, SettleAnswer)
}
"""Decoders by kind, created once at import: msgspec ends the process if two threads create a class's first decoder at the same
time."""


def _ranges(one: Delivered) -> list[tuple[int, int]]:
    """Return ranges of adjacent offsets that have a record."""
    if one.offsets is None:
        return [(one.held.first, one.held.last)]
    breaks = np.flatnonzero(np.diff(one.offsets) != 1) + 1
    return [(int(some[0]), int(some[-1])) for some in np.split(one.offsets, breaks)]
