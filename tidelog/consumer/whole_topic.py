"""A range of a topic, from offset to offset, as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tidelog.types.record import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.consumer.consumer import Consumer

_WAIT_MS = 10_000


def tables_between(
    consumer: Consumer, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> Iterator[pa.Table]:
    """Yield the records in ``[begin, end)`` of each partition of one topic, in non-empty tables as of ``Consumer.poll_arrow``.

    Replaces the consumer's assignment. Raises as ``Consumer.poll``.
    """
    import pyarrow as pa  # noqa: PLC0415 - the SDK works without it

    ends = [0] * (1 + max((place.partition for place in end), default=0))
    for place, offset in end.items():
        ends[place.partition] = offset
    end_offsets = pa.array(ends, pa.int64())
    left = _assigned(consumer, begin, end)
    while left:
        table = consumer.poll_arrow(_WAIT_MS)
        if table.num_rows:
            table = table.filter(_before(table, end_offsets))
        if table.num_rows:
            yield table
        _pass_ended(consumer, left, end)


def _assigned(
    consumer: Consumer, begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> set[TopicPartition]:
    left = {place for place, offset in begin.items() if offset < end[place]}
    consumer.assign(left)
    for place in left:
        consumer.seek(place, begin[place])
    return left


def _pass_ended(consumer: Consumer, left: set[TopicPartition], end: Mapping[TopicPartition, int]) -> None:
    """Pause the partitions that are read to their end, and remove them from ``left``."""
    positions = consumer.positions()
    ended = {place for place in left if positions.get(place, 0) >= end[place]}
    consumer.pause(*ended)
    left -= ended


def _before(table: pa.Table, end_offsets: pa.Array) -> pa.ChunkedArray:
    """Return for each row whether its offset is before the end of its partition."""
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    return pc.less(table.column("offset"), pc.take(end_offsets, table.column("partition")))
