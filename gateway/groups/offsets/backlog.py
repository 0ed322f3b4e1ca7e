"""How much of a topic a group has not read: one rule for every list, metric and alarm.

1. A group continues at its committed offset. Offsets of a former topic of the name, or below 0, count as none.
2. Where nothing is committed it counts from the log start if a member subscribes to the topic. Its members may begin at the end
   instead (``auto.offset.reset``); that is their clients' setting, which no gateway knows before their first commit. Without a
   member nothing says that the group wants the partition: a client that chooses partitions by itself commits for these only.
3. Groups that read many partitions of which each has committed few cost what they have committed, not what the topic has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from log_format.groups.row import OffsetRow
from log_format.topic.state import TopicState

Positions = Mapping[int, int]
"""Partition -> the offset at which a group continues there."""


class TopicBacklog:
    """How much of a topic, at one version of its log, groups have not read yet. One object serves all groups."""

    def __init__(self, state: TopicState) -> None:
        self._state = state

    def positions(self, rows: Iterable[OffsetRow]) -> dict[int, int]:
        """Return where a group continues, by what it has committed for this incarnation of the topic."""
        state = self._state
        return {
            row.partition: row.position
            for row in rows
            if row.position is not None
            and row.topic_id == state.topic_id
            and 0 <= row.partition < state.partition_count
        }

    def record_count(self, positions: Positions, *, is_subscribed: bool) -> int:
        """Return the number of offsets that a group has not read."""
        state = self._state
        committed = sum(max(0, state.high_watermark(partition) - position) for partition, position in positions.items())
        if not is_subscribed:
            return committed
        return committed + self._record_count - sum(map(self.size, positions))

    def size(self, partition: int) -> int:
        """Return the number of offsets from the partition's log start to its end."""
        return self._state.high_watermark(partition) - self._state.log_start(partition)

    def oldest(self, positions: Positions, *, is_subscribed: bool) -> tuple[int, int] | None:
        """Return partition and offset where the oldest unread record seems to be; None if all are read."""
        state = self._state
        found = [
            (newest_ms, partition, first)
            for partition, position in positions.items()
            for first in (max(position, state.log_start(partition)),)
            if (newest_ms := state.manifest.newest_timestamp_ms(partition, first)) is not None
        ]
        if is_subscribed and (uncommitted := self.oldest_uncommitted(positions)) is not None:
            found.append(uncommitted)
        if not found:
            return None
        _, partition, first = min(found)
        return partition, first

    def oldest_uncommitted(self, positions: Positions) -> tuple[int, int, int] | None:
        """Return time, partition and log start of the partition whose first record seems oldest, of those that have records and
        no position; None without one."""
        return next((one for one in self._whole if one[1] not in positions), None)

    @cached_property
    def _record_count(self) -> int:
        return int((self._state.next_offsets - self._state.log_starts).sum())

    @cached_property
    def _whole(self) -> list[tuple[int, int, int]]:
        """The partitions with records, those whose first seem oldest first: time, partition, log start."""
        state = self._state
        return sorted(
            (newest_ms, partition, state.log_start(partition))
            for partition in range(state.partition_count)
            if (newest_ms := state.manifest.newest_timestamp_ms(partition, state.log_start(partition))) is not None
        )
