"""Copying from a member of a group to a sink.

Records are written before their offsets are committed. So after a crash the last records come again, and none is missing.
"""

from __future__ import annotations

import time
from typing import Final

from rich.progress import Progress

from tidelog.admin import Admin
from tidelog.cli.sinks.copying import CopyProgress, Fetching
from tidelog.cli.sinks.sinks import Sink
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.positions import Range
from tidelog.consumer.consumer import Consumer
from tidelog.types.record import TopicPartition

_WAIT_MS: Final = 1_000
_COMMIT_EVERY_S: Final = 1.0
"""Interval of commits: about this much is written again after a crash. A commit may take a good part of it."""


class GroupCopy:
    """Copying of a group's records. Without ``commits_on_the_way``, as for a file, only an explicit ``commit`` commits."""

    def __init__(self, copied: CopyProgress, *, commits_on_the_way: bool) -> None:
        self._copied = copied
        self._commits_on_the_way = commits_on_the_way
        self._committed: dict[TopicPartition, int] = {}
        self._committed_at = time.monotonic()

    def revoked(self, consumer: Consumer) -> None:
        """Commit for revoked partitions, while the group still accepts it."""
        if self._commits_on_the_way:
            self.commit(consumer)

    def commit(self, consumer: Consumer) -> None:
        """Commit the written records of the partitions still owned, if the output is durable. Raises ``GatewayError``."""
        if not (self._commits_on_the_way or self._copied.lasts):
            return
        held = consumer.assignment()
        positions = {place: offset for place, offset in self._copied.positions.items() if place in held}
        changed = {place: offset for place, offset in positions.items() if self._committed.get(place) != offset}
        if changed:
            consumer.commit(changed)
            self._committed |= changed
        self._committed_at = time.monotonic()

    def run(
        self,
        consumer: Consumer,
        sink: Sink,
        group: GroupEnd | None,
        *,
        records_max: int | None,
        interrupts: Interrupts,
        bar: Progress,
    ) -> None:
        """Write records until the group is at its end (None: for ever), or until ``records_max`` are written."""
        copied = self._copied
        task = bar.add_task("records", total=records_max)
        fetching = Fetching(follows=group is None)
        while records_max is None or copied.record_count < records_max:
            left = None if records_max is None else records_max - copied.record_count
            found = fetching.fetch(sink, consumer, _WAIT_MS, left)
            if found is None:
                continue
            with interrupts.held():
                for place, (count, next_offset) in sink.write(None if group is None else group.ends).items():
                    copied.record_count += count
                    copied.positions[place] = next_offset
                if copied.filtered:
                    # The consumer's positions are committable: everything that it handed out is written.
                    ends = {} if group is None else group.ends
                    for place, position in consumer.positions().items():
                        copied.positions[place] = min(position, ends.get(place, position))
                if self._commits_on_the_way and time.monotonic() - self._committed_at >= _COMMIT_EVERY_S:
                    self.commit(consumer)
            bar.update(task, completed=copied.record_count)
            if group is not None and group.is_reached(consumer, found):
                return


class GroupEnd:
    """End of a topic at the command's start, and whether the group's members together have read up to it."""

    def __init__(self, admin: Admin, group: str, range_: Range) -> None:
        """Store the range, which reaches from the log starts to the current ends."""
        self._admin = admin
        self._group = group
        self.ends = range_.end
        self._unread = {place for place, end in range_.end.items() if range_.begin[place] < end}

    def is_reached(self, consumer: Consumer, found_count: int) -> bool:
        """Return whether nothing is left. Other members' commits are requested when there is nothing to read here."""
        positions = consumer.positions()
        left = {place for place in self._unread if positions.get(place, -1) < self.ends[place]}
        if not left or found_count:
            return not left
        committed = self._admin.group_offsets(self._group)
        return all(place in committed and committed[place].offset >= self.ends[place] for place in left)
