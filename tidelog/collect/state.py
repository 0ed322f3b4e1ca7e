"""State that the agent needs after it was killed, and its encoding.

1. ``files`` has the position up to which each file's lines are in the topic for certain.
2. ``intent`` is a request that may have been sent: its byte ranges, producer id, epoch and sequence. It is durable before the
   request is sent, so the next process sends the same bytes under the same sequence.
3. The encoding ends in a checksum; a damaged state is refused, never guessed at.
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
    """Identity of one file, and its progress in the topic.

    ``path``: the file's first name, which its records carry and which chooses their partition. ``last_path``: its newest name.
    A truncated file keeps its entry, with ``inode`` 0, so that its copy is recognized. ``gone_since_ms``: when a scan first
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
    """Bytes ``[start.offset, end.offset)`` of one file, and their tail.

    ``whole``: whether the last record is known to have ended there; else the rest of its line may follow.
    """

    file_id: int
    start: Position
    end: Position
    tail: Tail
    whole: bool
    crc32: int

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
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
    """Complete state. ``next_file_id`` is never reused, so a range identifies one file for ever."""

    topic: str
    next_file_id: int = 1
    files: tuple[FileState, ...] = ()
    intent: Intent | None = None


class StateDamaged(Exception):
    """The bytes differ from what was written."""


def encode_state(state: State) -> bytes:
    """Return the state as one line of JSON and its CRC-32."""
    # The standard library's JSON carries file names that are no UTF-8 (as lone surrogates).
    text = json.dumps(msgspec.to_builtins(state), separators=(",", ":")).encode()
    return b"tidelog-collect %d\n%s\n%08x\n" % (FORMAT, text, zlib.crc32(text))


def decode_state(data: bytes) -> State:
    """Return the state written by ``encode_state``. Raises ``StateDamaged`` for anything else."""
    try:
        header, text, checksum, rest = data.split(b"\n")
        if rest or header.split(b" ")[0] != b"tidelog-collect":
            raise StateDamaged("it is not a state file of tidelog collect")
        if header != b"tidelog-collect %d" % FORMAT:
            raise StateDamaged("it was written by another version of tidelog")
        if checksum != b"%08x" % zlib.crc32(text):
            raise StateDamaged("its checksum is wrong")
        return msgspec.convert(json.loads(text), State)
    except (ValueError, msgspec.ValidationError) as error:
        raise StateDamaged(f"it can't be read: {error}") from error
