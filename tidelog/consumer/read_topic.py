"""``read_topic``: a topic, or a range of it, as Arrow tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, Unpack

from tidelog import limits
from tidelog.arguments import check_topics, require_pyarrow
from tidelog.calls.topics import describe_topic, partition_offsets
from tidelog.consumer.consumer import Consumer
from tidelog.consumer.settings import HistoryMode
from tidelog.consumer.whole_topic import tables_between
from tidelog.deadline import Deadline
from tidelog.http.credentials import ConnectionSettings
from tidelog.http.transport import Transport
from tidelog.types.filter import Filter
from tidelog.types.record import TopicPartition
from tidelog.types.topic import Partition, PartitionOffsets

if TYPE_CHECKING:
    import pyarrow as pa

Where = Literal["earliest", "latest"] | int | datetime | timedelta | Mapping[int, int]
"""Place in each partition: ``"earliest"``, ``"latest"``, an offset (negative: counted back from the end), a datetime with a
time zone, or a timedelta before now.

A mapping gives offsets by partition; partitions that it does not name are read whole.
"""


def read_topic(
    topic: str,
    bootstrap_servers: str | Sequence[str] | None = None,
    *,
    start: Where = "earliest",
    end: Where = "latest",
    partitions: Iterable[int] | None = None,
    filter: Filter | None = None,  # noqa: A002 - as the HTTP API has it
    history: HistoryMode = "auto",
    store: str | None = None,
    **connection: Unpack[ConnectionSettings],
) -> Iterator[pa.Table]:
    """Yield the records from ``start`` up to ``end``, exclusive, both as of this call, in tables of some megabytes each.

    ::

        for table in read_topic("orders", start=timedelta(hours=1)):
            print(table.num_rows)

    Columns are those of ``Consumer.poll_arrow``. The records of a partition come in order. About two tables are in memory at a
    time, however long the topic is; ``pyarrow.concat_tables(read_topic(…))`` holds all of it. ``partitions``: read only these.
    ``history``, ``store`` and ``connection`` as for ``Consumer``.

    Raises ``UnknownTopic``, ``UnknownPartition``, ``ModuleNotFoundError`` without pyarrow, ``ValueError`` for a datetime
    without a time zone; during iteration, what ``Consumer.poll`` raises. Closing the iterator closes its connections.
    """
    require_pyarrow("read_topic")
    check_topics([topic])
    wanted = None if partitions is None else sorted(set(partitions))
    transport = Transport(bootstrap_servers, request_timeout_ms=limits.REQUEST_TIMEOUT_MS, **connection)
    try:
        begins, ends = _places(transport, topic, start, wanted), _places(transport, topic, end, wanted, is_end=True)
    finally:
        transport.close()
    consumer = Consumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        filter=filter,
        history=history,
        store=store,
        **connection,
    )
    return _tables(consumer, begins, ends)


def _tables(
    consumer: Consumer, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> Iterator[pa.Table]:
    with consumer:
        yield from tables_between(consumer, begins, ends)


def _places(
    transport: Transport, topic: str, where: Where, partitions: list[int] | None, *, is_end: bool = False
) -> dict[TopicPartition, int]:
    timestamp_ms = _timestamp_ms(where)
    found: dict[int, PartitionOffsets | Partition] = {}
    if timestamp_ms is None or partitions is None:
        described = describe_topic(transport, topic, Deadline(limits.API_TIMEOUT_MS))
        found = {each.partition: each for each in described.partitions}
    if timestamp_ms is not None or (partitions is not None and not found.keys() >= set(partitions)):
        for number in partitions or found:
            place, deadline = TopicPartition(topic, number), Deadline(limits.API_TIMEOUT_MS)
            found[number] = partition_offsets(transport, place, timestamp_ms, deadline)
    return {
        TopicPartition(topic, number): _offset(where, number, found[number], is_end=is_end)
        for number in (sorted(found) if partitions is None else partitions)
    }


def _offset(where: Where, number: int, found: PartitionOffsets | Partition, *, is_end: bool) -> int:
    first, last = found.log_start_offset, found.high_watermark
    if isinstance(where, datetime | timedelta):
        return last if isinstance(found, Partition) or found.offset is None else found.offset
    if isinstance(where, Mapping):
        where = where.get(number, "latest" if is_end else "earliest")
    if isinstance(where, int):
        return min(max(first, where if where >= 0 else last + where), last)
    return last if where == "latest" else first


def _timestamp_ms(where: Where) -> int | None:
    if isinstance(where, timedelta):
        return max(0, round((time.time() - where.total_seconds()) * 1000))
    if isinstance(where, datetime):
        if where.tzinfo is None:
            raise ValueError(f"{where} has no time zone: write {where!r}.astimezone(), or give it a tzinfo")
        return max(0, round(where.timestamp() * 1000))
    if isinstance(where, str) and where not in {"earliest", "latest"}:
        raise ValueError(f"{where!r} is not 'earliest', 'latest', an offset, a time or a timedelta")
    return None
