"""All records of a segment, a bounded piece at a time: for whoever reads the whole of it once, such as a rewrite.

A segment of at most ``READ_SPAN_BYTES_MAX`` is one request; of a larger one the footer is one, and each span of adjacent
row groups. Everything is checked as in ``segment_reader``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from log_format.errors import CorruptData, ObjectMissing
from log_format.layout import topic_root
from log_format.limits import READ_SPAN_BYTES_MAX
from log_format.run import SegmentRef
from log_format.segment import decode_row_groups
from log_format.segment_bytes import read_footer, read_segment
from log_format.segment_footer import Footer, decode_footer, decode_magic
from log_format.store import ObjectStore


def scan_segment(store: ObjectStore, topic: str, segment: SegmentRef) -> Iterator[pa.Table]:
    """The records in order of partition and offset (``RECORD_SCHEMA``), a few row groups at a time.

    Raises ``CorruptData`` (also when the segment is missing), ``StoreUnavailable``.
    """
    key = f"{topic_root(topic)}{segment.path}"
    try:
        if segment.size_bytes <= READ_SPAN_BYTES_MAX:
            body = memoryview(read_segment(store, key, segment))
            decode_magic(body, segment)
            footer = decode_footer(body[segment.footer_start :], segment)
            groups = footer.row_groups
            yield decode_row_groups(footer, range(len(groups)), body[: groups[-1].end])
            return
        footer = read_footer(store, key, segment)
        for span in _spans(footer):
            start, end = footer.row_groups[span.start].start, footer.row_groups[span.stop - 1].end
            yield decode_row_groups(footer, span, store.get_range(key, start, end))
    except ObjectMissing:
        raise CorruptData(f"Segment {segment.path} is missing.", topic=topic, segment=segment.path) from None


def _spans(footer: Footer) -> Iterator[range]:
    """Adjacent row groups of at most ``READ_SPAN_BYTES_MAX`` stored bytes, but at least one."""
    first, size_bytes = 0, 0
    for index, group in enumerate(footer.row_groups):
        if index > first and size_bytes + group.size_bytes > READ_SPAN_BYTES_MAX:
            yield range(first, index)
            first, size_bytes = index, 0
        size_bytes += group.size_bytes
    yield range(first, len(footer.row_groups))
