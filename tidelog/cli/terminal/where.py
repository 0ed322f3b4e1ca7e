"""Where in a topic to begin: what ``--from`` and ``--last`` say, as an offset for each partition."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelog.admin import Admin
from tidelog.types.record import TopicPartition
from tidelog.types.topic import PartitionOffsets

_POSITIONS = re.compile(r"[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets ``[begin, end)`` of each partition; ``end`` is what was there when it was asked for."""

    begin: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where to begin in every partition. One of: a word, an offset, a time, ``positions`` by partition, the last few
    records.
    """

    word: str = ""
    offset: int | None = None
    timestamp_ms: int | None = None
    positions: Mapping[int, int] | None = None
    last: int | None = None

    def offset_in(self, partition: int, found: PartitionOffsets) -> int:
        """Where to begin in a partition of which the gateway says ``found``."""
        if self.last is not None:
            return max(found.log_start_offset, found.high_watermark - self.last)
        if self.positions is not None:
            return self.positions.get(partition, found.log_start_offset)
        if self.timestamp_ms is not None:
            return found.high_watermark if found.offset is None else found.offset
        if self.offset is not None:
            return self.offset
        return found.high_watermark if self.word == "end" else found.log_start_offset


def parse_where(text: str) -> Where:
    """What ``--from`` says. Raises ``ValueError`` when it says nothing."""
    if text in {"beginning", "end"}:
        return Where(word=text)
    if text.isdecimal():
        return Where(offset=int(text))
    if text.startswith("@") and text[1:].isdecimal():
        return Where(timestamp_ms=int(text[1:]))
    if _POSITIONS.fullmatch(text):
        pairs = [pair.partition(":") for pair in text.split(",")]
        positions = {int(partition): int(offset) for partition, _, offset in pairs}
        if len(positions) < len(pairs):
            raise ValueError(f"--from {text!r} names a partition twice")
        return Where(positions=positions)
    try:
        return Where(timestamp_ms=milliseconds(text))
    except ValueError:
        raise ValueError(
            f"--from {text!r} is not beginning, end, an offset, PARTITION:OFFSET,…, a time or @milliseconds"
        ) from None


def milliseconds(text: str) -> int:
    """An ISO 8601 time as milliseconds since the epoch; without a zone it is UTC. Raises ``ValueError``."""
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)


def find(admin: Admin, topic: str, where: Where, partitions: Iterable[int] | None) -> Range:
    """The range from ``where`` to what is there now, in these partitions (None: all).

    Raises ``UnknownTopic``, ``UnknownPartition``.
    """
    wanted = sorted(set(partitions)) if partitions else None
    offsets = admin.offsets(topic, wanted, timestamp_ms=where.timestamp_ms)
    if where.positions is not None and not where.positions.keys() <= offsets.keys():
        unknown = min(where.positions.keys() - offsets.keys())
        raise ValueError(f"--from names partition {unknown}, which is not among those that are read")
    return Range(
        begin={TopicPartition(topic, each): where.offset_in(each, found) for each, found in offsets.items()},
        end={TopicPartition(topic, each): found.high_watermark for each, found in offsets.items()},
    )
