"""Messages between a gateway and its readers: a task, a head, then the body in frames.

Each task has a socket of its own. The gateway writes the task as one frame. The reader answers with the head as one frame, then
the body's frames, and an empty one at the end. An answer that ends without the empty frame was cut short.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from gateway.stores.counted import Counted

LENGTH: Final = struct.Struct("<I")
"""Length in front of each frame."""


class PlannedRun(msgspec.Struct, frozen=True, array_like=True):
    """``[start_offset, end_offset)`` of the partition in one segment, which the other fields identify as in ``SegmentRef``."""

    path: str
    size_bytes: int
    footer_start: int
    footer_crc32: int
    start_offset: int
    end_offset: int


class Task(msgspec.Struct, frozen=True, array_like=True):
    """A read of records of one partition: at least one run, and the runs follow each other without a gap.

    ``kind``: the answer's media type. ``encoding``: the content encoding that the client accepts, if any.
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
    """Outcome of a task. Without records no body follows; ``damage`` or ``trouble`` (of the store) may say why.

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
"""Most bytes of a task's frame, and of a head's."""
TASKS: Final = msgspec.msgpack.Decoder(Task)
HEADS: Final = msgspec.msgpack.Decoder(Head)


def frame(message: Task | Head) -> bytes:
    """Return the message as one frame."""
    data = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(data)) + data
