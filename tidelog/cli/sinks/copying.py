"""Copying from a consumer to a sink, with its progress; shared by ``consume`` and ``tail``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.progress import Progress

from tidelog.cli.sinks.sinks import Sink
from tidelog.cli.terminal.console import note
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.positions import Range
from tidelog.consumer.consumer import Consumer
from tidelog.errors import OffsetOutOfRange, UnknownTopic
from tidelog.types.record import TopicPartition

_WAIT_MS = 10_000
RECREATION_WAIT_S = 30
"""Seconds for which a followed topic may be missing: it is usually recreated right after its deletion."""
_GONE_PAUSE_S = 0.2
_FILTERED_WAIT_MS = 100
"""Waiting time of a poll before the end if the last records may be filtered out."""


@dataclass(slots=True, kw_only=True)
class CopyProgress:
    """Progress: number of written records, and the next offset by partition. Valid after every step, even a failed one."""

    filtered: bool = False
    """Whether the consumer filters records."""
    record_count: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    lasts: bool = False
    """Whether everything written is durable, under its final name."""

    def next_offsets(self) -> str:
        """Return the positions in the form of ``--from``."""
        return ",".join(f"{place.partition}:{offset}" for place, offset in sorted(self.positions.items()))


@dataclass(slots=True)
class Fetching:
    """Fetches for a sink. If it ``follows``, it tolerates that a topic is deleted and soon recreated."""

    follows: bool
    _gone_since_s: float | None = None

    def fetch(self, sink: Sink, consumer: Consumer, wait_ms: int, records_max: int | None) -> int | None:
        """Fetch as ``Sink.fetch``; return None while a topic is missing, when there is nothing to write.

        Raises ``UnknownTopic`` when it is missing for ``RECREATION_WAIT_S``, and as ``Sink.fetch``.
        """
        try:
            found = sink.fetch(consumer, wait_ms, records_max)
        except UnknownTopic as gone:
            now_s = time.monotonic()
            if self._gone_since_s is None:
                self._gone_since_s = now_s
                if self.follows:
                    note(f"{gone.detail} Waiting up to {RECREATION_WAIT_S} s for it to be recreated.")
            if not self.follows or now_s - self._gone_since_s > RECREATION_WAIT_S:
                raise
            time.sleep(_GONE_PAUSE_S)
            return None
        except OffsetOutOfRange:
            positions = consumer.positions()
            lost = [place for place in consumer.assignment() if place not in positions]
            if not self.follows or not lost:
                raise  # the records were deleted
            consumer.seek_to_beginning(*lost)  # of the recreated topic
            return None
        self._gone_since_s = None
        return found


def copy(
    consumer: Consumer,
    range_: Range,
    sink: Sink,
    copied: CopyProgress,
    *,
    follow: bool,
    records_max: int | None,
    interrupts: Interrupts,
    bar: Progress,
) -> None:
    """Write records until the range's end (``follow``: for ever), or until ``records_max`` are written.

    Raises ``KeyboardInterrupt``, and what polls and the sink raise. ``copied`` always has the progress.
    """
    ends: Mapping[TopicPartition, int] | None = None if follow else range_.end
    copied.positions.update(range_.begin)
    left = {place for place, begin in range_.begin.items() if ends is None or begin != ends[place]}
    consumer.assign(range_.begin)
    for place, position in range_.begin.items():
        consumer.seek(place, position)
    consumer.pause(*(range_.begin.keys() - left))
    task = bar.add_task("records", total=records_max)
    wait_ms = _FILTERED_WAIT_MS if copied.filtered and not follow else _WAIT_MS
    fetching = Fetching(follows=follow)
    while left and (records_max is None or copied.record_count < records_max):
        wanted = None if records_max is None else records_max - copied.record_count
        if fetching.fetch(sink, consumer, wait_ms, wanted) is None:
            continue
        with interrupts.held():
            for place, (count, next_offset) in sink.write(ends).items():
                copied.record_count += count
                copied.positions[place] = next_offset
        bar.update(task, completed=copied.record_count)
        if ends is not None:
            reached = {place for place in left if consumer.position(place) >= ends[place]}
            for place in reached if records_max is None or copied.record_count < records_max else ():
                copied.positions[place] = ends[place]
            consumer.pause(*reached)
            left -= reached
