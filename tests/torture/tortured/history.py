"""What clients saw of a run, in memory and as lines of JSON: the only thing that the checker trusts beside the final log.

Times are seconds of one monotonic clock, taken before a request was sent and after its answer was read.
"""

from __future__ import annotations

import threading
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

KEYS = 16
"""Few enough that every key comes again soon."""


def key_of(value: str) -> str:
    """The key that the record with this value is sent with."""
    return f"key-{zlib.crc32(value.encode()) % KEYS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where values are: they have the offsets ``base_offset`` and following, in order."""

    topic: str
    partition: int
    base_offset: int
    values: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One thing that a client wanted to be in the log, and what it learned of it.

    ``outcome``: ``acknowledged`` (then ``places``), ``refused`` (promised never to appear), ``aborted`` (as well), ``unknown``.
    ``values`` by topic and partition as sent; those of a transaction appear together or not at all.
    """

    client: str
    kind: str
    values: dict[str, dict[int, list[str]]]
    outcome: str
    started: float
    ended: float
    places: list[Place] = field(default_factory=list)
    attempts: int = 1
    duplicate: bool = False
    atomic: bool = False
    is_placed: bool = True
    """Whether an acknowledgement says where the values are: Kafka's transactions are told no offsets."""
    why: str = ""
    meant: str = ""
    """The topic id by which the writer named the topic; empty: it was named by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One poll of one reader, from ``offset``."""

    client: str
    topic: str
    partition: int
    offset: int
    values: list[str]
    offsets: list[int]
    next_offset: int
    high_watermark: int
    started: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that was done to the service."""

    what: str
    at: float


class History:
    """Safe from any thread."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, event: Write | Read | Fault) -> None:
        """Remember one event."""
        with self._lock:
            match event:
                case Write():
                    self.writes.append(event)
                case Read():
                    self.reads.append(event)
                case Fault():
                    self.faults.append(event)

    def fault(self, what: str) -> None:
        """Something is done to the service now."""
        self.add(Fault(what=what, at=time.monotonic()))

    def save(self, path: Path) -> None:
        """One line of JSON for each event."""
        with path.open("wb") as out:
            for event in (*self.faults, *self.writes, *self.reads):
                out.write(msgspec.json.encode(event) + b"\n")
