"""Tidelog's own tags on an ``add``, which describe its segment, and the statistics that every Delta reader uses.

Tags are JSON. Readers of Delta ignore them, and checkpoints keep them:

``tidelog.runs``    JSON ``[[partition, base offset, end offset, records, bytes, min timestamp ms, max timestamp ms], …]``
``tidelog.footer``  JSON ``[position of the Parquet footer, its CRC-32]``
``tidelog.rewritten``  JSON ``[times merged, ms at which its keys were compacted or null, tombstones left then]``, if rewritten
``tidelog.filters``  JSON ``[position of the filters on keys, their CRC-32]``, if there are any
``tidelog.layout``  JSON ``[id of its run, times rewritten in the archive, [columns by which it is ordered]]``, of a file of the
archive whose records are in another order than that of offsets
``tidelog.typed``  JSON ``["data", "key_data"]``: the typed columns by whose schemas every record was judged, if there are any
``tidelog.producers``  JSON ``[[producer id, epoch, sequence, [[partition, base offset, records], …]], …]``, if there are any

A drain without records has ``tidelog.producers`` as a tag of the commit (``commitInfo.tags``). The id of a Kafka client's
producer ends with ``-<partition>``, and its batch has one offset range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from log_format.delta.actions import Add, Remove
from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.segments.column_statistics import NO_STATISTICS, ColumnStatistics
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef, parse_segment_path
from log_format.topic.numbered_producers import decode_spent
from log_format.topic.producers import StampedBatch, decode_stamps, encode_stamps

TAG_RUNS: Final = "tidelog.runs"
TAG_FOOTER: Final = "tidelog.footer"
TAG_PRODUCERS: Final = "tidelog.producers"
TAG_REWRITTEN: Final = "tidelog.rewritten"
TAG_FILTERS: Final = "tidelog.filters"
TAG_TYPED: Final = "tidelog.typed"
TAG_LAYOUT: Final = "tidelog.layout"
TAG_FORGOTTEN: Final = "tidelog.forgotten"
"""Tag of a commit (``commitInfo.tags``): producers unknown to the topic may have been used here if issued up to this
time (ms)."""
TAG_SPENT: Final = "tidelog.spent"
"""Tag of a commit: JSON ``[[id, epoch], …]``. All epochs of these Kafka clients' producers up to the given ones may have been
used here."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PATH_SAFE: Final = "/-_.~"


_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_RunBytes = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


class Rewritten(NamedTuple):
    """The history of a rewritten segment: number of merges; time of the key compaction (ms since the epoch), and the tombstones
    left then."""

    times: _Count
    keys_compacted_at_ms: _Count | None = None
    tombstone_count: _Count = 0


class Layout(NamedTuple):
    """The order of the records in a file of the archive. Files of one run were written together, and together are in order."""

    run: str
    times: _Count
    """How often the archive's maintenance has rewritten the records in this order."""
    columns: tuple[str, ...]
    """Columns by which they are ordered, as ``table.cluster.by`` names them; none: by partition and offset."""


_decode_layout: Final = msgspec.json.Decoder(Layout).decode
_decode_rewritten: Final = msgspec.json.Decoder(Rewritten).decode
_decode_typed: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def add_segment(
    segment: SegmentRef,
    runs: Sequence[Run],
    *,
    modification_time_ms: int,
    data_change: bool,
    stamped: Sequence[StampedBatch] = (),
    rewritten: Rewritten | None = None,
    columns: ColumnStatistics = NO_STATISTICS,
    filters: KeyFilters | None = None,
    layout: Layout | None = None,
) -> Add:
    """Return the ``add`` of a segment, with statistics and tags.

    Args:
        segment: the segment in the store.
        runs: its runs.
        modification_time_ms: ms since the epoch.
        data_change: whether the records are new in the table.
        stamped: the idempotent requests in the segment.
        rewritten: how a rewrite made the segment; None for a flush.
        columns: statistics of the typed columns.
        filters: its filters on keys; None if it has none.
        layout: order of the records; None for that of offsets in each run.
    """
    return Add(
        path=quote(segment.path, safe=_PATH_SAFE),
        size=segment.size_bytes,
        modification_time=modification_time_ms,
        data_change=data_change,
        stats=statistics(runs, columns),
        tags={
            TAG_RUNS: _ENCODER.encode(
                [
                    (
                        run.partition,
                        run.base_offset,
                        run.end_offset,
                        run.record_count,
                        run.size_bytes,
                        run.min_timestamp_ms,
                        run.max_timestamp_ms,
                    )
                    for run in runs
                ]
            ).decode(),
            TAG_FOOTER: f"[{segment.footer_start},{segment.footer_crc32}]",
            **({TAG_PRODUCERS: encode_stamps(stamped)} if stamped else {}),
            **({TAG_REWRITTEN: _ENCODER.encode(rewritten).decode()} if rewritten is not None else {}),
            **({TAG_FILTERS: _ENCODER.encode(filters).decode()} if filters is not None else {}),
            **({TAG_LAYOUT: _ENCODER.encode(layout).decode()} if layout is not None else {}),
            **({TAG_TYPED: _ENCODER.encode(columns.judged).decode()} if columns.judged else {}),
        },
    )


def remove_segment(segment: SegmentRef, *, deletion_timestamp_ms: int, data_change: bool) -> Remove:
    """Return the ``remove`` of a segment."""
    return Remove(
        path=quote(segment.path, safe=_PATH_SAFE),
        deletion_timestamp=deletion_timestamp_ms,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values={},
        size=segment.size_bytes,
    )


_RunTuple = tuple[_Count, _Count, _Count, _Count, _RunBytes, _Count, _Count]
_RUNS_DECODER: Final = msgspec.json.Decoder(list[_RunTuple])
_FOOTER_DECODER: Final = msgspec.json.Decoder(tuple[_Count, _Count])


def decode_segment_tags(
    path: str, size_bytes: int, tag_runs: str | None, tag_footer: str | None
) -> tuple[SegmentRef, list[Run]]:
    """Return the segment and runs that an ``add`` names.

    Args:
        path: path as in the ``add``, URI-encoded.
        size_bytes: size in the ``add``.
        tag_runs: value of ``TAG_RUNS``, None without one.
        tag_footer: value of ``TAG_FOOTER``, None without one.

    Raises ``CorruptData`` if the tags are missing or unreadable.
    """
    plain = parse_segment_path(path)
    try:
        if tag_runs is None or tag_footer is None:
            raise ValueError("it has no tidelog tags, so it was not written by Tidelog")
        footer_start, footer_crc32 = _FOOTER_DECODER.decode(tag_footer)
        runs = [Run(*values) for values in _RUNS_DECODER.decode(tag_runs)]
    except (*DECODE_ERRORS, ValueError) as problem:
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem
    return SegmentRef(plain, size_bytes, footer_start, footer_crc32), runs


def decode_segment_add(add: Add) -> tuple[SegmentRef, list[Run]]:
    """Return the segment and runs of an ``add``, like ``decode_segment_tags``."""
    tags = add.tags or {}
    return decode_segment_tags(add.path, add.size, tags.get(TAG_RUNS), tags.get(TAG_FOOTER))


def decode_rewritten(path: str, tag: str | None) -> Rewritten:
    """Decode the ``tidelog.rewritten`` of an ``add``; None stands for records as flushed. Raises ``CorruptData``."""
    try:
        return Rewritten(0) if tag is None else _decode_rewritten(tag)
    except DECODE_ERRORS as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def decode_filters(path: str, tag: str | None) -> KeyFilters | None:
    """Decode the ``tidelog.filters`` of an ``add``. Raises ``CorruptData``."""
    try:
        return None if tag is None else KeyFilters(*_FOOTER_DECODER.decode(tag))
    except DECODE_ERRORS as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def decode_layout(path: str, tag: str | None) -> Layout | None:
    """Decode the ``tidelog.layout`` of an ``add``; None stands for the order of offsets. Raises ``CorruptData``."""
    try:
        return None if tag is None else _decode_layout(tag)
    except DECODE_ERRORS as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def decode_typed(path: str, tag: str | None) -> tuple[str, ...]:
    """Decode the ``tidelog.typed`` of an ``add``; None stands for records that no schema has judged. Raises ``CorruptData``."""
    try:
        return () if tag is None else _decode_typed(tag)
    except DECODE_ERRORS as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def decode_stamped_batches(path: str, tags: Mapping[str, str | None]) -> list[StampedBatch]:
    """Return the idempotent requests in an ``add`` with these tags. Raises ``CorruptData``."""
    tag = tags.get(TAG_PRODUCERS)
    try:
        return [] if tag is None else decode_stamps(tag)
    except ValueError as problem:
        plain = unquote(path)
        raise CorruptData(f"The log's entry for segment {plain} can't be used: {problem}.", segment=plain) from problem


def decode_spent_producers(tags: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the spent (id, epoch) of Kafka clients' producers in a commit with these tags. Raises ``CorruptData``."""
    try:
        return decode_spent(tags.get(TAG_SPENT, "[]"))
    except ValueError as problem:
        raise CorruptData(f"The log's {TAG_SPENT} can't be used: {problem}.") from problem


def statistics(runs: Sequence[Run], columns: ColumnStatistics = NO_STATISTICS) -> str:
    """Return the ``stats`` of an ``add`` with these runs and these statistics of typed columns."""
    first = runs[0]
    low, high, count = [*_lowest(first)], [*_highest(first)], first.record_count
    for run in runs[1:]:
        low, high = [*map(min, low, _lowest(run))], [*map(max, high, _highest(run))]
        count += run.record_count
    oldest = _iso(low[2])
    newest = oldest if low[2] == high[2] else _iso(high[2])
    least, largest, nulls = columns.nested()
    return _ENCODER.encode(
        {
            "numRecords": count,
            "minValues": {"partition": low[0], "offset": low[1], "timestamp": oldest, **least},
            "maxValues": {"partition": high[0], "offset": high[1], "timestamp": newest, **largest},
            "nullCount": {"partition": 0, "offset": 0, "timestamp": 0, **nulls},
        }
    ).decode()


def _lowest(run: Run) -> tuple[int, int, int]:
    return run.partition, run.base_offset, run.min_timestamp_ms


def _highest(run: Run) -> tuple[int, int, int]:
    return run.partition, run.end_offset - 1, run.max_timestamp_ms


def _iso(timestamp_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
