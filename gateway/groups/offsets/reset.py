"""Reset of the offsets of a group without members."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.engine.bounds import PARTITIONS_PER_STEP
from gateway.engine.open_topic import OpenTopic
from gateway.engine.partition_reader import PartitionReader
from gateway.groups.bounds import GROUP_PARTITIONS_MAX
from gateway.groups.offsets.committed import CommittedOffsets, NextOffset, offsets_after
from gateway.groups.offsets.incarnations import Incarnations, Key, offsets_of_incarnations
from log_format.errors import ErrorCode, RequestRefused
from log_format.groups.changes import not_empty_error
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetTo:
    """Target of a reset: exactly one field is given."""

    word: Literal["earliest", "latest"] | None = None
    timestamp_ms: int | None = None
    offset: int | None = None
    shift: int | None = None


class Reset:
    """Resets of groups' offsets. Used on the event loop only."""

    def __init__(self, committed: CommittedOffsets, incarnations: Incarnations, reading: PartitionReader) -> None:
        self._committed = committed
        self._incarnations = incarnations
        self._reading = reading

    async def move(
        self,
        group: Group,
        name: str,
        topics: Sequence[str] | None,
        partitions: Sequence[Key] | None,
        to: ResetTo,
        *,
        preview: bool = False,
    ) -> list[OffsetRow]:
        """Move offsets of a group without members, clamped to the log; return all offsets of the group.

        Args:
            group: the group as ``CommittedOffsets.group`` returned it.
            topics: topics of which all partitions are moved.
            partitions: further partitions to move.
            preview: whether nothing is committed; offsets that would move then have commit time 0.

        Raises ``RequestRefused`` (``GROUP_NOT_EMPTY``, ``UNKNOWN_TOPIC``, ``UNKNOWN_PARTITION``, ``NO_COMMITTED_OFFSET`` for a
        shift), ``BackOff``, ``OutcomeUnknown``.
        """
        if group.row is not None and group.row.members:
            raise not_empty_error(name)
        keys = list(partitions or ())
        names = sorted({*(topics or ()), *(topic for topic, _ in keys)})
        opened = {topic: await self._incarnations.existing(topic) for topic in names}
        keys += [(topic, number) for topic in topics or () for number in range(opened[topic][1].partition_count)]
        if len(keys) > GROUP_PARTITIONS_MAX:
            raise RequestRefused(
                f"{len(keys)} partitions are too many for one request: the most is {GROUP_PARTITIONS_MAX}."
            )
        ids = await self._incarnations.ids(group.offsets)
        valid = offsets_of_incarnations(group, ids)
        wanted = []
        for number, key in enumerate(dict.fromkeys(keys), 1):
            wanted.append(await self._moved(name, key, to, valid.get(key), opened[key[0]][0]))
            if number % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
        if preview:
            return [row for _, row in sorted((valid | {one.key: _planned(name, one) for one in wanted}).items())]
        try:
            group = await self._committed.commit(name, wanted, None, None)
        except RequestRefused as refusal:
            raise not_empty_error(name) if refusal.code == ErrorCode.STALE_GENERATION else refusal from None
        return offsets_after(group, ids, [group.offsets[one.key] for one in wanted if one.key in group.offsets])

    async def _moved(self, name: str, key: Key, to: ResetTo, row: OffsetRow | None, topic: OpenTopic) -> NextOffset:
        state = topic.require_partition(key[1])
        start, end = state.log_start(key[1]), state.high_watermark(key[1])
        if to.word is not None:
            offset = start if to.word == "earliest" else end
        elif to.timestamp_ms is not None:
            found = await self._reading.offset_of_timestamp(topic, state, key[1], to.timestamp_ms)
            offset = end if found is None else found
        elif to.offset is not None:
            offset = to.offset
        else:
            position = None if row is None else row.position
            if position is None:
                raise RequestRefused(
                    f"Group {name!r} has no committed offset for {key[0]}/{key[1]} that could be shifted.",
                    code=ErrorCode.NO_COMMITTED_OFFSET,
                )
            offset = position + (to.shift or 0)
        return NextOffset(topic=key[0], partition=key[1], offset=min(max(offset, start), end), topic_id=state.topic_id)


def _planned(name: str, one: NextOffset) -> OffsetRow:
    return OffsetRow(
        group=name,
        topic=one.topic,
        partition=one.partition,
        topic_id=one.topic_id or "",
        offset=one.offset,
        metadata=one.metadata,
        member=None,
        committed_at_ms=0,
    )
