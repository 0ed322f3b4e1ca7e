"""Offsets -> records, from a store, by ranges.

Requests of one ``read``. A segment of at most ``whole_object_bytes_max`` whose footer isn't cached is read whole, in one get. Of
any other the footer is one get (none when cached), and each span of adjacent row groups needed is one get. A span ends where
the limits should be reached, or at ``span_bytes_max``.

Everything returned was checked: the footer by the checksum in the log, row groups by those in the footer. A missing, truncated
or damaged segment raises ``CorruptData`` with ``topic`` and ``segment`` (its path in the topic's table). A failing store raises
its ``StoreUnavailable``. Thread-safe; no lock is held during a request.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from log_format.errors import CorruptData, ObjectMissing
from log_format.layout import topic_root
from log_format.limits import FOOTER_CACHE_BYTES, READ_SPAN_BYTES_MAX, SEGMENT_WHOLE_BYTES_MAX
from log_format.records.cut import cut
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.size import record_bytes
from log_format.segments.download import read_footer, read_segment
from log_format.segments.footer import MAGIC, Footer, RowGroup, corrupt, decode_footer, decode_magic
from log_format.segments.footer_cache import FooterCache
from log_format.segments.parts import DECODED_BYTES_MAX, decode_parts, decoded_bytes
from log_format.segments.run import SegmentRef
from log_format.segments.segment import decode_row_groups
from log_format.store import ObjectReader

_OFFSET_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets ``[start_offset, end_offset)`` of one partition."""

    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class TimestampRange:
    """The timestamps ``[first_ms, last_ms]``, milliseconds since the epoch."""

    first_ms: int
    last_ms: int

    def meets(self, group: RowGroup) -> bool:
        """Whether the row group may hold a record of this range."""
        return group.max_timestamp_ms >= self.first_ms and group.min_timestamp_ms <= self.last_ms


class SegmentReader:
    """Reads records out of segments; one for all topics of a store.

    ``footer_cache_bytes`` bounds the memory of cached footers; ``whole_object_bytes_max`` is the size up to which a segment
    with an unknown footer is read whole; ``span_bytes_max`` bounds a request for row groups, unless one alone is larger;
    ``decoded_bytes_max`` is the size up to which a row group is decoded whole. Parts of a larger one have an eighth of it.
    """

    def __init__(
        self,
        store: ObjectReader,
        *,
        footer_cache_bytes: int = FOOTER_CACHE_BYTES,
        whole_object_bytes_max: int = SEGMENT_WHOLE_BYTES_MAX,
        span_bytes_max: int = READ_SPAN_BYTES_MAX,
        decoded_bytes_max: int = DECODED_BYTES_MAX,
    ) -> None:
        self._store = store
        self._footers = FooterCache(footer_cache_bytes)
        self._whole_object_bytes_max = whole_object_bytes_max
        self._span_bytes_max = span_bytes_max
        self._decoded_bytes_max = decoded_bytes_max
        self._heavy = threading.Lock()

    def read(
        self,
        topic: str,
        segment: SegmentRef,
        partition: int,
        start_offset: int,
        *,
        bytes_max: int,
        records_max: int,
        end_offset: int | None = None,
    ) -> pa.Table:
        """The segment's records of ``partition`` from ``start_offset`` on, up to the limits: ``RECORD_SCHEMA``, by offset.

        ``end_offset`` (exclusive) bounds the offsets when given. At most ``records_max`` (at least 1) records and ``bytes_max``
        bytes of keys, values and headers, but at least one record when there is one. A caller that reads on in another
        segment must cut that result again. The segment must hold the partition, as the log says it does. The table is empty
        when the segment has none of these offsets.

        Raises ``CorruptData``, ``StoreUnavailable``.
        """
        with _naming(topic, segment):
            opened = self._open(topic, segment, partition)
            end = _OFFSET_END if end_offset is None else end_offset
            indices = opened.footer.select(partition, start_offset, end)
            parts: list[pa.Table] = []
            record_count = bytes_count = 0
            while indices and record_count < records_max and (bytes_count < bytes_max or record_count == 0):
                span = self._span(
                    opened.footer, indices, start_offset, bytes_max - bytes_count, records_max - record_count
                )
                indices = indices[len(span) :]
                for decoded in self._decoded(opened, span):
                    part = _between(decoded, start_offset, end)
                    if not part.num_rows:
                        continue  # frees the table that it was cut from
                    parts.append(part)
                    record_count += part.num_rows
                    bytes_count += int(record_bytes(part).sum())
                    if record_count >= records_max or (record_count and bytes_count >= bytes_max):
                        break
            if not parts:
                return RECORD_SCHEMA.empty_table()
            return cut(pa.concat_tables(parts), bytes_max=bytes_max, records_max=records_max)

    def scan(
        self,
        topic: str,
        segment: SegmentRef,
        ranges: Sequence[OffsetRange],
        *,
        timestamps: TimestampRange | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.Table]:
        """The segment's records in ``ranges``: ``RECORD_SCHEMA``, by partition and offset.

        For a reader of much of a segment. Adjacent row groups of any partitions, up to ``span_bytes_max``, are one request
        and one table. ``ranges`` has at least one range, one for a partition. ``timestamps`` skips row groups without such a
        record; it does not filter the records of the others. ``columns`` as for ``decode_row_groups``.

        Raises ``CorruptData``, ``StoreUnavailable`` while it is iterated.
        """
        with _naming(topic, segment):
            opened = self._open(topic, segment, ranges[0].partition)
            groups = opened.footer.row_groups
            wanted = [
                (index, each)
                for each in sorted(ranges, key=lambda one: one.partition)
                for index in opened.footer.select(each.partition, each.start_offset, each.end_offset)
                if timestamps is None or timestamps.meets(groups[index])
            ]
            for span in _adjacent(opened.footer, wanted, self._span_bytes_max):
                decoded = opened.decode(range(span[0][0], span[-1][0] + 1), columns)
                records = _inside(opened.footer, decoded, span)
                if records.num_rows:
                    yield records

    def find_timestamp(
        self, topic: str, segment: SegmentRef, partition: int, start_offset: int, timestamp_ms: int
    ) -> int | None:
        """The first offset from ``start_offset`` on whose record's timestamp is at least ``timestamp_ms``; None without one.

        "First" is by offset. Reads row groups whose largest timestamp is late enough, one by one, until one has such a
        record. Raises ``CorruptData``, ``StoreUnavailable``.
        """
        with _naming(topic, segment):
            opened = self._open(topic, segment, partition)
            for index in opened.footer.select(partition, start_offset, _OFFSET_END):
                if opened.footer.row_groups[index].max_timestamp_ms < timestamp_ms:
                    continue
                records = opened.decode(range(index, index + 1), columns=())
                offsets = records.column("offset").to_numpy()
                timestamps = records.column("timestamp").to_numpy().view(np.int64)
                found = np.flatnonzero((offsets >= start_offset) & (timestamps >= timestamp_ms * 1000))
                if len(found):
                    return int(offsets[found[0]])
            return None

    def _decoded(self, opened: _OpenSegment, span: range) -> Iterator[pa.Table]:
        """The records of ``span``: one table, or several for one row group that would become too large."""
        if not self._is_heavy(opened.footer, span[0]):
            yield opened.decode(span)
            return
        # One at a time: one record of such a row group may take a hundred megabytes while it is decoded.
        with self._heavy:
            yield from decode_parts(opened.footer, span[0], opened.bytes_of(span), self._decoded_bytes_max // 8)

    def _is_heavy(self, footer: Footer, index: int) -> bool:
        return decoded_bytes(footer, index) > self._decoded_bytes_max

    def _span(self, footer: Footer, indices: range, start_offset: int, bytes_max: int, records_max: int) -> range:
        """The head of ``indices`` that should reach the limits: at least one row group, at most ``span_bytes_max``.

        A row group that is too large to decode whole is alone.

        A row group that begins before ``start_offset`` counts only with its share from there on. A low guess costs another
        request, a high one costs bytes.
        """
        start, _ = _bytes_of(footer, indices)
        bytes_expected = records_expected = 0.0
        for count, index in enumerate(indices):
            group = footer.row_groups[index]
            reached = bytes_expected >= bytes_max or records_expected >= records_max
            if count and (reached or group.end - start > self._span_bytes_max or self._is_heavy(footer, index)):
                return indices[:count]
            if self._is_heavy(footer, index):
                return indices[:1]
            share = (group.end_offset - max(start_offset, group.base_offset)) / (group.end_offset - group.base_offset)
            bytes_expected += share * group.uncompressed_bytes
            records_expected += share * group.record_count
        return indices

    def _open(self, topic: str, segment: SegmentRef, partition: int) -> _OpenSegment:
        """The segment with its footer. Raises ``CorruptData``, also when it has no records of ``partition``."""
        key = f"{topic_root(topic)}{segment.path}"
        footer, body = self._footers.get(key), None
        if footer is None:
            if segment.size_bytes <= self._whole_object_bytes_max:
                body = memoryview(read_segment(self._store, key, segment))
                decode_magic(body, segment)
                footer = decode_footer(body[segment.footer_start :], segment)
            else:
                footer = read_footer(self._store, key, segment)
            self._footers.put(key, footer)
        if not footer.select(partition, 0, _OFFSET_END):
            corrupt(segment, f"it holds nothing of partition {partition}, against what the log says")
        return _OpenSegment(store=self._store, key=key, footer=footer, body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenSegment:
    """A segment with its footer, and with all its bytes when they were read with it."""

    store: ObjectReader
    key: str
    footer: Footer
    body: memoryview | None

    def decode(self, indices: range, columns: Sequence[str] | None = None) -> pa.Table:
        """The records of adjacent row groups."""
        return decode_row_groups(self.footer, indices, self.bytes_of(indices), columns=columns)

    def bytes_of(self, indices: range) -> memoryview:
        """The bytes of adjacent row groups, as ``decode_row_groups`` takes them."""
        start, end = _bytes_of(self.footer, indices)
        if self.body is not None:
            return self.body[:end]
        # The first row group begins right after the magic: read with it, nothing has to be copied.
        return memoryview(self.store.get_range(self.key, 0 if start == len(MAGIC) else start, end))


def _bytes_of(footer: Footer, indices: range) -> tuple[int, int]:
    return footer.row_groups[indices[0]].start, footer.row_groups[indices[-1]].end


def _adjacent(
    footer: Footer, wanted: Iterable[tuple[int, OffsetRange]], bytes_max: int
) -> Iterator[list[tuple[int, OffsetRange]]]:
    """Row groups without gaps between them, up to ``bytes_max`` unless one alone is larger."""
    span: list[tuple[int, OffsetRange]] = []
    for index, each in wanted:
        if span:
            size_bytes = footer.row_groups[index].end - footer.row_groups[span[0][0]].start
            if index != span[-1][0] + 1 or size_bytes > bytes_max:
                yield span
                span = []
        span.append((index, each))
    if span:
        yield span


def _inside(footer: Footer, decoded: pa.Table, span: Sequence[tuple[int, OffsetRange]]) -> pa.Table:
    """The decoded records of ``span`` that are in their ranges; the table itself when all are."""
    groups = [(footer.row_groups[index], each) for index, each in span]
    if all(each.start_offset <= group.base_offset and group.end_offset <= each.end_offset for group, each in groups):
        return decoded
    parts: list[pa.Table] = []
    first = 0
    for group, each in groups:
        parts.append(_between(decoded.slice(first, group.record_count), each.start_offset, each.end_offset))
        first += group.record_count
    return pa.concat_tables(parts)


def _between(records: pa.Table, start_offset: int, end_offset: int) -> pa.Table:
    """The records of one partition with offsets in ``[start_offset, end_offset)``."""
    first, end = np.searchsorted(records.column("offset").to_numpy(), [start_offset, end_offset]).tolist()
    return records.slice(first, end - first)


@contextmanager
def _naming(topic: str, segment: SegmentRef) -> Iterator[None]:
    """Make errors about the segment name it and its topic; a missing object is one of them."""
    try:
        yield
    except ObjectMissing as problem:
        raise CorruptData(f"Segment {segment.path} is missing.", topic=topic, segment=segment.path) from problem
    except CorruptData as problem:
        problem.fields["topic"] = topic
        raise
