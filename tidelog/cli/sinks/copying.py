"""From a consumer to a sink, and how far it came: shared by ``consume`` and ``tail``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.progress import Progress

from tidelog.cli.sinks.sinks import Sink
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.where import Range
from tidelog.consumer.consumer import Consumer
from tidelog.types.record import TopicPartition

_WAIT_MS = 10_000
_FILTERED_WAIT_MS = 100
"""Before the end, where the last records may be left out: how long a poll goes on that has none."""


@dataclass(slots=True, kw_only=True)
class Copied:
    """How many records were written, and by partition the offset to go on at. Holds after every step, also a failed one."""

    filtered: bool = False
    """Whether the consumer leaves records out."""
    record_count: int = 0
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    lasts: bool = False
    """Whether what was written is where it should be, whole."""

    def next_offsets(self) -> str:
        """For ``--from``."""
        return ",".join(f"{place.partition}:{offset}" for place, offset in sorted(self.positions.items()))


def copy(
    consumer: Consumer,
    range_: Range,
    sink: Sink,
    copied: Copied,
    *,
    follow: bool,
    records_max: int | None,
    interrupts: Interrupts,
    bar: Progress,
) -> None:
    """Write records until the range's end (``follow``: for ever), or until ``records_max`` are written.

    Raises ``KeyboardInterrupt``, and what polls and the sink raise. ``copied``
    then says how far it came.
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
    while left and (records_max is None or copied.record_count < records_max):
        sink.fetch(consumer, wait_ms, None if records_max is None else records_max - copied.record_count)
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
