"""A consumer's committed offsets, and commits."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.arguments import check_partitions
from tidelog.consumer.group_session import GroupSession
from tidelog.consumer.offset_committer import OnCommit
from tidelog.consumer.parts import ConsumerParts
from tidelog.consumer.positions import Positions
from tidelog.consumer.settings import ConsumerSettings
from tidelog.deadline import Deadline
from tidelog.types.group import GroupMetadata, NextOffset
from tidelog.types.record import TopicPartition


class GroupPositions(Positions):
    """``Positions``, plus the committed offsets of the consumer's group. Without a group, these calls raise ``RuntimeError``."""

    def __init__(self, parts: ConsumerParts, settings: ConsumerSettings) -> None:
        super().__init__(parts, settings)
        self._group = parts.group

    def positions(self) -> dict[TopicPartition, int]:
        """Return the offset of the next record to be polled, for each partition with a known position."""
        with self._alone():
            return self._assignment.positions()

    def commit(
        self, offsets: Mapping[TopicPartition, NextOffset] | None = None, *, metadata: str | None = None
    ) -> None:
        """Commit offsets for the group, all or none; the partitions' next owner continues there. Retried automatically.

        Args:
            offsets: the next offset to read of each partition, as a number or ``OffsetAndMetadata``. None: ``positions``.
            metadata: up to 4 KiB of text stored with offsets that have none of their own.

        Raises ``StaleGeneration``, ``UnknownMember`` or ``FencedMember`` if the partitions went to other members meanwhile, and
        other ``GatewayError``s. After an error nothing is committed, except perhaps with ``OutcomeUnknown``.
        """
        with self._alone():
            self._in_group().committer.commit(self.positions() if offsets is None else offsets, metadata)

    def commit_async(
        self, offsets: Mapping[TopicPartition, NextOffset] | None = None, callback: OnCommit | None = None
    ) -> None:
        """Commit as ``commit``, in a background thread. Commits run one at a time: the next commit, and ``close``, wait for it.

        ``callback(offsets, error)`` is called in that thread, with None for no error; without a callback an error is logged.
        """
        with self._alone():
            meant = dict(self.positions() if offsets is None else offsets)
            self._in_group().committer.commit_later(meant, callback)

    def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Return the group's committed offsets of these partitions (none given: of all assigned); None if there is none."""
        check_partitions(partitions, "committed({})")
        with self._alone():
            group = self._in_group()
            places = partitions or tuple(self._assignment)
            known = group.committed(places, Deadline(self._settings.api_timeout_ms))
            return {place: known[place].offset if place in known else None for place in places}

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Continue these partitions (none given: all assigned) at the committed offsets, else by the reset policy."""
        check_partitions(partitions, "seek_to_committed({})")
        with self._alone():
            self._in_group()
            for place in self._named(partitions):
                self._assignment[place].seek(None)
                self._assignment[place].is_looked_up = False

    def lag(self) -> dict[TopicPartition, int]:
        """Return the number of offsets between the position and the current end, by assigned partition with a known position."""
        with self._alone():
            positions = self.positions()
            ends = self._reader.offsets(positions)
            return {place: max(0, ends[place].high_watermark - position) for place, position in positions.items()}

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's group and member, for ``Producer.send_offsets_to_transaction``."""
        group = self._in_group()
        topic_ids = self._assignment.topic_ids(self._assignment)
        return msgspec.structs.replace(group.metadata, topic_ids=topic_ids)

    def _in_group(self) -> GroupSession:
        if self._group is None:
            raise RuntimeError("the consumer has no group")
        return self._group
