"""Begin and end within a topic: ``--from``, ``--last`` and ``--until``, as offsets of each partition."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelog.admin import Admin
from tidelog.cli.terminal.units import duration_ms
from tidelog.types.record import TopicPartition
from tidelog.types.topic import PartitionOffsets

_BEGINNING = frozenset({"beginning", "earliest"})
_END = frozenset({"end", "latest"})
_POSITIONS = re.compile(r"[0-9]+:[0-9]+(,[0-9]+:[0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Offsets ``[begin, end)`` of each partition; ``end`` as of the time of asking."""

    begin: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionSpec:
    """Position in every partition, by exactly one of: a word, an offset, a time, offsets by partition, the number of last
    records."""

    word: str = ""
    offset: int | None = None
    timestamp_ms: int | None = None
    positions: Mapping[int, int] | None = None
    last: int | None = None

    def offset_in(self, partition: int, found: PartitionOffsets) -> int:
        """Return the offset at which to begin in a partition described by ``found``."""
        if self.last is not None:
            return max(found.log_start_offset, found.high_watermark - self.last)
        if self.positions is not None:
            return self.positions.get(partition, found.log_start_offset)
        if self.timestamp_ms is not None:
            return found.high_watermark if found.offset is None else found.offset
        if self.offset is not None:
            return self.offset
        return found.high_watermark if self.word == "end" else found.log_start_offset

    def end_in(self, partition: int, found: PartitionOffsets) -> int:
        """Return the offset before which to end in a partition. One that ``positions`` does not name is read to its end."""
        if self.positions is not None:
            return self.positions.get(partition, found.high_watermark)
        return self.offset_in(partition, found)


def parse_position(text: str, option: str = "--from") -> PositionSpec:
    """Parse ``--from`` or ``--until``. A duration, such as ``1h``, is a time before now. Raises ``ValueError``."""
    if text in _BEGINNING | _END:
        return PositionSpec(word="end" if text in _END else "beginning")
    if text.startswith("-") and text[1:].isdecimal():
        return PositionSpec(last=int(text[1:]))
    if text.isdecimal():
        return PositionSpec(offset=int(text))
    if _POSITIONS.fullmatch(text):
        pairs = [pair.partition(":") for pair in text.split(",")]
        positions = {int(partition): int(offset) for partition, _, offset in pairs}
        if len(positions) < len(pairs):
            raise ValueError(f"{option} {text!r} names a partition twice")
        return PositionSpec(positions=positions)
    try:
        return PositionSpec(timestamp_ms=past_ms(text))
    except ValueError:
        raise ValueError(
            f"{option} {text!r} is not earliest, latest, an offset, -N, PARTITION:OFFSET,…, a duration (1h), a time or "
            "@milliseconds"
        ) from None


def past_ms(text: str) -> int:
    """Return a time as milliseconds since the epoch: ``@`` and that number, a duration before now (``1h``), or ISO 8601.

    Raises ``ValueError``.
    """
    if text.startswith("@") and text[1:].isdecimal():
        return int(text[1:])
    span_ms = duration_ms(text)
    return milliseconds(text) if span_ms is None else max(0, time.time_ns() // 1_000_000 - span_ms)


def milliseconds(text: str) -> int:
    """Return an ISO 8601 time as milliseconds since the epoch; without a zone it is UTC. Raises ``ValueError``."""
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp() * 1000)


def resolve_range(
    admin: Admin, topic: str, where: PositionSpec, partitions: Iterable[int] | None, until: PositionSpec | None = None
) -> Range:
    """Return the range from ``where`` to the current end, or to ``until`` if that is earlier, in these partitions (None: all).

    Raises ``UnknownTopic``, ``UnknownPartition``.
    """
    wanted = sorted(set(partitions)) if partitions else None
    offsets = admin.offsets(topic, wanted, timestamp_ms=where.timestamp_ms)
    if where.positions is not None and not where.positions.keys() <= offsets.keys():
        unknown = min(where.positions.keys() - offsets.keys())
        raise ValueError(f"--from names partition {unknown}, which the topic lacks or --partition excludes")
    begin = {TopicPartition(topic, each): where.offset_in(each, found) for each, found in offsets.items()}
    end = {TopicPartition(topic, each): found.high_watermark for each, found in offsets.items()}
    if until is not None:
        ends = offsets
        if until.timestamp_ms is not None:
            ends = admin.offsets(topic, wanted, timestamp_ms=until.timestamp_ms)
        for place, high_watermark in end.items():
            last = until.end_in(place.partition, ends[place.partition])
            # An end before the beginning means that there is nothing to read.
            end[place] = max(min(high_watermark, last), min(begin[place], high_watermark))
    return Range(begin=begin, end=end)
