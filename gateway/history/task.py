"""What passes between a gateway and its readers: a task, a head, then the body in frames.

Each task has a socket of its own. The gateway writes the task as one frame. The reader answers with the head as one frame, then
the body's frames, and an empty one at the end. An answer that ends without that was cut short.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from gateway.counted_store import Counted

LENGTH: Final = struct.Struct("<I")
"""Before each frame."""


class PlannedRun(msgspec.Struct, frozen=True, array_like=True):
    """``[start_offset, end_offset)`` of the partition in one segment, which the other fields name as ``SegmentRef`` does."""

    path: str
    size_bytes: int
    footer_start: int
    footer_crc32: int
    start_offset: int
    end_offset: int


class Task(msgspec.Struct, frozen=True, array_like=True):
    """Records of one partition: the runs follow each other without a gap, and there is one at least.

    ``kind``: the answer's media type. ``encoding``: the content encoding that the client wants, if any.
    """

    topic: str
    topic_id: str
    partition: int
    runs: tuple[PlannedRun, ...]
    records_max: int
    bytes_max: int
    kind: str
    encoding: str | None
    high_watermark: int
    log_start_offset: int


class Damage(msgspec.Struct, frozen=True, array_like=True):
    """A segment that is missing or damaged, in the words of ``CorruptData``."""

    detail: str
    segment: str


class Head(msgspec.Struct, frozen=True, array_like=True):
    """How a task went. Without records no body follows; ``damage`` or ``trouble`` (the store's) may say why.

    ``asked``: the requests to the store since the reader's last head.
    """

    next_offset: int
    record_count: int = 0
    size_bytes: int = 0
    encoding: str | None = None
    damage: Damage | None = None
    trouble: str | None = None
    asked: tuple[Counted, ...] = ()


FRAME_BYTES_MAX: Final = 1024 * 1024
"""Of a task, and of a head."""
TASKS: Final = msgspec.msgpack.Decoder(Task)
HEADS: Final = msgspec.msgpack.Decoder(Head)


def framed(message: Task | Head) -> bytes:
    """As one frame."""
    data = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(data)) + data
