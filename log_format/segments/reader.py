"""Reading a segment's records by offsets from a store, with range requests.

Requests of one ``read``: a segment of at most ``whole_object_bytes_max`` whose footer is not cached is read as a whole, in one
GET. For any other segment the footer is one GET (none if it is cached), and each span of adjacent row groups is one GET. A span
ends where the limits should be reached, or at ``span_bytes_max``.

Everything returned is verified: the footer by the checksum in the log, row groups by the checksums in the footer. A missing,
truncated or damaged segment raises ``CorruptData`` with ``topic`` and ``segment`` (its path in the topic's table). A failing
store raises ``StoreUnavailable``. Thread-safe; no lock is held during a request.
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
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.size import head_within, record_bytes
from log_format.segments.download import read_footer, read_segment
from log_format.segments.footer import MAGIC, Footer, check_magic, decode_footer, missing_text, raise_corrupt
from log_format.segments.footer_cache import FooterCache
from log_format.segments.partial_decoding import DECODED_BYTES_MAX, decode_parts, estimate_decoded_bytes
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


class SegmentReader:
    """A reader of segments' records, one for all topics of a store.

    Args:
        store: where the segments are.
        footer_cache_bytes: limit of the memory of cached footers.
        whole_object_bytes_max: size up to which a segment with an unknown footer is read as a whole.
        span_bytes_max: limit of a request for row groups, unless one row group alone is larger.
        decoded_bytes_max: decoded size up to which a row group is decoded as a whole; a larger one in parts of an eighth of this.
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
        """Return the segment's records of ``partition`` from ``start_offset`` on, up to the limits: ``RECORD_SCHEMA``, by offset.

        Args:
            topic: the segment's topic.
            segment: must have records of the partition, as the log says.
            partition: the partition.
            start_offset: first offset to return.
            bytes_max: limit of keys, values and headers, but at least one record is returned if there is one. A caller that
                continues in another segment must cut the joined result again.
            records_max: limit of records, at least 1.
            end_offset: offset after the last one to return; None for no bound.

        The table is empty if the segment has none of these offsets. Raises ``CorruptData``, ``StoreUnavailable``.
        """
        with _errors_name_topic(topic, segment):
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
                for decoded in self._decode_span(opened, span):
                    part = _slice_offsets(decoded, start_offset, end)
                    if not part.num_rows:
                        continue  # frees the table that it was cut from
                    parts.append(part)
                    record_count += part.num_rows
                    bytes_count += int(record_bytes(part).sum())
                    if record_count >= records_max or (record_count and bytes_count >= bytes_max):
                        break
            if not parts:
                return RECORD_SCHEMA.empty_table()
            return head_within(pa.concat_tables(parts), bytes_max=bytes_max, records_max=records_max)

    def scan(
        self,
        topic: str,
        segment: SegmentRef,
        ranges: Sequence[OffsetRange],
        *,
        columns: Sequence[str] | None = None,
        typed: Sequence[pa.Field] = (),
    ) -> Iterator[pa.Table]:
        """Yield the segment's records in ``ranges``: ``RECORD_SCHEMA``, by partition and offset. For readers of much of a
        segment.

        Adjacent row groups of any partitions, up to ``span_bytes_max``, become one request and one table.

        Args:
            topic: the segment's topic.
            segment: the segment.
            ranges: at least one range, and at most one for each partition.
            columns, typed: as for ``decode_row_groups``.

        Raises ``CorruptData``, ``StoreUnavailable``, ``TypeConflict`` during iteration.
        """
        with _errors_name_topic(topic, segment):
            opened = self._open(topic, segment, ranges[0].partition)
            wanted = [
                (index, each)
                for each in sorted(ranges, key=lambda one: one.partition)
                for index in opened.footer.select(each.partition, each.start_offset, each.end_offset)
            ]
            for span in _adjacent_spans(opened.footer, wanted, self._span_bytes_max):
                decoded = opened.decode(range(span[0][0], span[-1][0] + 1), columns, typed)
                records = _filter_to_ranges(opened.footer, decoded, span)
                if records.num_rows:
                    yield records

    def find_timestamp(
        self, topic: str, segment: SegmentRef, partition: int, start_offset: int, timestamp_ms: int
    ) -> int | None:
        """Return the first offset from ``start_offset`` on whose record's timestamp is at least ``timestamp_ms``; None without
        one.

        "First" is by offset. Reads row groups whose largest timestamp is late enough, one by one, until one has such a record.
        Raises ``CorruptData``, ``StoreUnavailable``.
        """
        with _errors_name_topic(topic, segment):
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

    def _decode_span(self, opened: _OpenSegment, span: range) -> Iterator[pa.Table]:
        """Yield the records of ``span``: one table, or several if its only row group is too large to be decoded as a whole."""
        if not self._is_heavy(opened.footer, span[0]):
            yield opened.decode(span)
            return
        # One thread at a time: decoding one record of such a row group may take a hundred megabytes.
        with self._heavy:
            yield from decode_parts(opened.footer, span[0], opened.read_bytes(span), self._decoded_bytes_max // 8)

    def _is_heavy(self, footer: Footer, index: int) -> bool:
        return estimate_decoded_bytes(footer, index) > self._decoded_bytes_max

    def _span(self, footer: Footer, indices: range, start_offset: int, bytes_max: int, records_max: int) -> range:
        """Return the first of ``indices`` that should reach the limits: at least one row group, at most ``span_bytes_max``.

        A row group that is too large to be decoded as a whole is a span by itself. A row group that begins before
        ``start_offset`` counts only with its share after it. An estimate that is too low costs another request, one that is too
        high costs bytes.
        """
        start, _ = _byte_range(footer, indices)
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
        """Return the segment with its footer. Raises ``CorruptData``, also if it has no records of ``partition``."""
        key = f"{topic_root(topic)}{segment.path}"
        footer, body = self._footers.get(key), None
        if footer is None:
            if segment.size_bytes <= self._whole_object_bytes_max:
                body = memoryview(read_segment(self._store, key, segment))
                check_magic(body, segment)
                footer = decode_footer(body[segment.footer_start :], segment)
            else:
                footer = read_footer(self._store, key, segment)
            self._footers.put(key, footer)
        if not footer.select(partition, 0, _OFFSET_END):
            raise_corrupt(segment, f"it holds nothing of partition {partition}, against what the log says")
        return _OpenSegment(store=self._store, key=key, footer=footer, body=body)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenSegment:
    """A segment with its footer, and with all its bytes if they were read together with the footer."""

    store: ObjectReader
    key: str
    footer: Footer
    body: memoryview | None

    def decode(self, indices: range, columns: Sequence[str] | None = None, typed: Sequence[pa.Field] = ()) -> pa.Table:
        """Return the records of adjacent row groups."""
        return decode_row_groups(self.footer, indices, self.read_bytes(indices), columns=columns, typed=typed)

    def read_bytes(self, indices: range) -> memoryview:
        """Return the bytes of adjacent row groups in the form that ``decode_row_groups`` takes."""
        start, end = _byte_range(self.footer, indices)
        if self.body is not None:
            return self.body[:end]
        # The first row group begins right after the magic. If the magic is read with it, nothing has to be copied.
        return memoryview(self.store.get_range(self.key, 0 if start == len(MAGIC) else start, end))


def _byte_range(footer: Footer, indices: range) -> tuple[int, int]:
    return footer.row_groups[indices[0]].start, footer.row_groups[indices[-1]].end


def _adjacent_spans(
    footer: Footer, wanted: Iterable[tuple[int, OffsetRange]], bytes_max: int
) -> Iterator[list[tuple[int, OffsetRange]]]:
    """Yield spans of row groups without gaps between them, up to ``bytes_max`` unless one row group alone is larger."""
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


def _filter_to_ranges(footer: Footer, decoded: pa.Table, span: Sequence[tuple[int, OffsetRange]]) -> pa.Table:
    """Return the decoded records of ``span`` that are in their ranges; the table itself if all are."""
    groups = [(footer.row_groups[index], each) for index, each in span]
    if all(each.start_offset <= group.base_offset and group.end_offset <= each.end_offset for group, each in groups):
        return decoded
    parts: list[pa.Table] = []
    first = 0
    for group, each in groups:
        parts.append(_slice_offsets(decoded.slice(first, group.record_count), each.start_offset, each.end_offset))
        first += group.record_count
    return pa.concat_tables(parts)


def _slice_offsets(records: pa.Table, start_offset: int, end_offset: int) -> pa.Table:
    """Return the records of one partition with offsets in ``[start_offset, end_offset)``."""
    first, end = np.searchsorted(records.column("offset").to_numpy(), [start_offset, end_offset]).tolist()
    return records.slice(first, end - first)


@contextmanager
def _errors_name_topic(topic: str, segment: SegmentRef) -> Iterator[None]:
    """Add the topic to errors about the segment; a missing object is ``CorruptData``, too."""
    try:
        yield
    except ObjectMissing as problem:
        raise CorruptData(missing_text(segment), topic=topic, segment=segment.path) from problem
    except CorruptData as problem:
        problem.fields["topic"] = topic
        raise
