"""What a consumer's group has committed, and committing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.arguments import check_partitions
from tidelog.consumer.assignment import Assignment
from tidelog.consumer.committing import OnCommit
from tidelog.consumer.group_reading import GroupReading
from tidelog.consumer.positions import Positions
from tidelog.consumer.reader import Reader
from tidelog.deadline import Deadline
from tidelog.http.transport import Transport
from tidelog.types.group import GroupMetadata, NextOffset
from tidelog.types.record import TopicPartition


class GroupPositions(Positions):
    """``Positions``, and those of its group where it has one. Without one these calls raise ``RuntimeError``."""

    def __init__(
        self,
        transport: Transport,
        assignment: Assignment,
        reader: Reader,
        group: GroupReading | None,
        *,
        api_timeout_ms: float,
    ) -> None:
        super().__init__(transport, assignment, reader, api_timeout_ms=api_timeout_ms)
        self._group = group
        self._group_assigns = group is not None and group.is_member

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record that a poll returns, of each partition where it is known."""
        with self._alone():
            return self._assignment.positions()

    def commit(
        self, offsets: Mapping[TopicPartition, NextOffset] | None = None, *, metadata: str | None = None
    ) -> None:
        """Commit these for the group, all or none; the partitions' next member goes on there. None: ``positions``.

        ``offsets``: the next to read of each partition, as a number or ``OffsetAndMetadata``. ``metadata``: up to 4 KiB of text
        that is kept with those that have none. Repeated by itself, which changes nothing. Raises ``StaleGeneration``,
        ``UnknownMember``, ``FencedMember`` when the partitions went to other members meanwhile, and other ``GatewayError``s.
        Nothing is committed then, unless it is ``OutcomeUnknown``.
        """
        with self._alone():
            self._in_group().committing.commit(self.positions() if offsets is None else offsets, metadata)

    def commit_async(
        self, offsets: Mapping[TopicPartition, NextOffset] | None = None, callback: OnCommit | None = None
    ) -> None:
        """As ``commit``, in a thread beside this one. One is under way at a time: the next commit, and ``close``, wait for it.

        ``callback(offsets, error)`` is called in that thread, with None for no error; without one an error is logged.
        """
        with self._alone():
            meant = dict(self.positions() if offsets is None else offsets)
            self._in_group().committing.commit_later(meant, callback)

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """The group's committed offsets of these partitions (none named: of the assigned ones); None: it has none."""
        check_partitions(partitions, "committed({})")
        with self._alone():
            group = self._in_group()
            places = partitions or tuple(self._assignment)
            known = group.committed(places, Deadline(self._api_timeout_ms))
            return {place: known[place].offset if place in known else None for place in places}

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go on at the committed offsets, else as for a new partition; none named: in all assigned partitions."""
        check_partitions(partitions, "seek_to_committed({})")
        with self._alone():
            self._in_group()
            for place in self._named(partitions):
                self._assignment[place].seek(None)
                self._assignment[place].is_looked_up = False

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets are before the end now, by assigned partition with a known position."""
        with self._alone():
            positions = self.positions()
            ends = self._reader.offsets(positions)
            return {place: max(0, ends[place].high_watermark - position) for place, position in positions.items()}

    def group_metadata(self) -> GroupMetadata:
        """This consumer's group and member, for ``Producer.send_offsets_to_transaction``."""
        group = self._in_group()
        topic_ids = self._assignment.topic_ids(self._assignment)
        return msgspec.structs.replace(group.metadata, topic_ids=topic_ids)

    def _in_group(self) -> GroupReading:
        if self._group is None:
            raise RuntimeError("the consumer has no group")
        return self._group
