"""What the agent must know after it was killed, and its bytes.

1. ``files`` has the position up to which each file's lines are in the topic for certain.
2. ``intent`` is a request that may have been sent: which bytes of which files it holds, and under which producer id, epoch and
   sequence. It is on the disk before the request is sent, so the next process sends the same bytes under the same sequence.
3. The bytes end in a checksum; a damaged state is refused, never guessed at.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Final

import msgspec

from tidelog.calls.producers import ProducerIdentity
from tidelog.collect.position import Position, Tail

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """One file: which it is, and how far it is in the topic.

    ``path`` is its first name: its records carry it, and it chooses their partition. ``last_path`` is its newest name. A
    truncated file keeps its entry, with ``inode`` 0, so that its copy is recognised. ``gone_since_ms``: when a scan first
    missed it, milliseconds since the epoch.
    """

    id: int
    device: int
    inode: int
    path: str
    last_path: str
    compression: str | None
    position: Position
    head: bytes
    tail: Tail
    gone_since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The bytes ``[start.offset, end.offset)`` of one file, and the last of them.

    ``whole``: the last record is known to have ended there; else the rest of its line may follow.
    """

    file_id: int
    start: Position
    end: Position
    tail: Tail
    whole: bool
    crc32: int

    @property
    def size_bytes(self) -> int:
        """How many bytes."""
        return self.end.offset - self.start.offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A request that may have been sent."""

    producer: ProducerIdentity
    sequence: int
    record_count: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is kept. ``next_file_id`` is never given out twice, so a range names one file for ever."""

    topic: str
    next_file_id: int = 1
    files: tuple[FileState, ...] = ()
    intent: Intent | None = None


class StateDamaged(Exception):
    """The bytes are not what was written."""


def encode_state(state: State) -> bytes:
    """One line of JSON and its CRC-32."""
    # The standard library's JSON carries file names that are no UTF-8 (as lone surrogates).
    text = json.dumps(msgspec.to_builtins(state), separators=(",", ":")).encode()
    return b"tidelog-collect %d\n%s\n%08x\n" % (FORMAT, text, zlib.crc32(text))


def decode_state(data: bytes) -> State:
    """What ``encode_state`` wrote. Raises ``StateDamaged`` for anything else."""
    try:
        header, text, checksum, rest = data.split(b"\n")
        if rest or header.split(b" ")[0] != b"tidelog-collect":
            raise StateDamaged("it is no state file of tidelog collect")
        if header != b"tidelog-collect %d" % FORMAT:
            raise StateDamaged("another version of tidelog wrote it")
        if checksum != b"%08x" % zlib.crc32(text):
            raise StateDamaged("its checksum is wrong")
        return msgspec.convert(json.loads(text), State)
    except (ValueError, msgspec.ValidationError) as error:
        raise StateDamaged(f"it can't be read: {error}") from error
