"""Reading all records of a segment, a bounded piece at a time, for example for a rewrite.

A segment of at most ``span_bytes_max`` is one request. For a larger one the footer is one request, and so is each span of
adjacent row groups. Everything is verified as in ``reader``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from log_format.errors import CorruptData, ObjectMissing
from log_format.layout import topic_root
from log_format.limits import READ_SPAN_BYTES_MAX
from log_format.segments.download import read_footer, read_segment
from log_format.segments.footer import Footer, check_magic, decode_footer, missing_text
from log_format.segments.run import SegmentRef
from log_format.segments.segment import decode_row_groups
from log_format.store import ObjectStore


def scan_segment(
    store: ObjectStore,
    topic: str,
    segment: SegmentRef,
    *,
    row_groups: Sequence[int] | None = None,
    span_bytes_max: int = READ_SPAN_BYTES_MAX,
) -> Iterator[pa.Table]:
    """Yield the records, sorted by partition and offset, a few row groups at a time: ``RECORD_SCHEMA``, and the segment's typed
    columns.

    Args:
        store: where the segment is.
        topic: the segment's topic.
        segment: the segment.
        row_groups: indices of those to read, in their order; None for all.
        span_bytes_max: limit of a request, and of what is decoded as one table, unless a row group alone is larger.

    Raises ``CorruptData`` (also if the segment is missing), ``StoreUnavailable``.
    """
    key = f"{topic_root(topic)}{segment.path}"
    try:
        if segment.size_bytes <= span_bytes_max and row_groups is None:
            body = memoryview(read_segment(store, key, segment))
            check_magic(body, segment)
            footer = decode_footer(body[segment.footer_start :], segment)
            for piece in _decodable(footer, range(len(footer.row_groups)), span_bytes_max):
                yield decode_row_groups(footer, piece, body[: footer.row_groups[piece.stop - 1].end], with_typed=True)
            return
        footer = read_footer(store, key, segment)
        for span in _spans(footer, span_bytes_max, row_groups):
            start, end = footer.row_groups[span.start].start, footer.row_groups[span.stop - 1].end
            body = memoryview(store.get_range(key, start, end))
            for piece in _decodable(footer, span, span_bytes_max):
                first, last = footer.row_groups[piece.start], footer.row_groups[piece.stop - 1]
                yield decode_row_groups(footer, piece, body[first.start - start : last.end - start], with_typed=True)
    except ObjectMissing:
        raise CorruptData(missing_text(segment), topic=topic, segment=segment.path) from None


def _spans(footer: Footer, bytes_max: int, chosen: Sequence[int] | None) -> Iterator[range]:
    """Yield spans of adjacent row groups of at most ``bytes_max`` stored bytes, but at least one row group."""
    for adjacent in [range(len(footer.row_groups))] if chosen is None else _adjacent(chosen):
        yield from _group_by_size(adjacent, lambda index: footer.row_groups[index].size_bytes, bytes_max)


def _adjacent(indices: Sequence[int]) -> Iterator[range]:
    """Yield the runs of numbers that follow each other."""
    first = 0
    for at, index in enumerate(indices):
        if at + 1 == len(indices) or indices[at + 1] != index + 1:
            yield range(indices[first], index + 1)
            first = at + 1


def _decodable(footer: Footer, span: range, bytes_max: int) -> Iterator[range]:
    """Cut the span so that no part has more than ``bytes_max`` decompressed bytes, which may be many times the stored ones."""
    return _group_by_size(span, lambda index: int(footer.metadata.row_group(index).total_byte_size), bytes_max)


def _group_by_size(groups: range, size_bytes: Callable[[int], int], bytes_max: int) -> Iterator[range]:
    first, total_bytes = groups.start, 0
    for index in groups:
        size = size_bytes(index)
        if index > first and total_bytes + size > bytes_max:
            yield range(first, index)
            first, total_bytes = index, 0
        total_bytes += size
    yield range(first, groups.stop)
