"""Segments of records that say where they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP
from log_format.segments.footer import Footer
from log_format.segments.segment import EncodedSegment, decode_footer

PATH = "segments/some.parquet"
START_MS = 1_763_683_200_000


def make_records(
    counts: dict[int, int], *, value_bytes: int = 10, key: bytes | None = None, headers: bool = False
) -> pa.Table:
    """``counts`` records of each partition, from offset 1000 * partition on, one a second."""
    partitions = np.repeat(np.array(list(counts), dtype=np.int32), list(counts.values()))
    offsets = np.concatenate([1000 * partition + np.arange(count) for partition, count in counts.items()])
    total = len(partitions)
    return pa.table(
        [
            pa.array(partitions),
            pa.array(offsets),
            pa.array((START_MS + 1000 * np.arange(total)) * 1000).cast(TIMESTAMP),
            pa.array([b"key-%d" % index if key is None else key for index in range(total)], pa.binary()),
            pa.array([b"%0*d" % (value_bytes, index) for index in range(total)], pa.binary()),
            pa.array(
                [[{"key": "trace", "value": b"%d" % index}] if headers else None for index in range(total)], HEADERS
            ),
        ],
        schema=RECORD_SCHEMA,
    )


def footer_of(segment: EncodedSegment) -> Footer:
    return decode_footer(segment.data[segment.footer_start :], segment.ref(PATH))


def row_group_bytes(segment: EncodedSegment, footer: Footer, index: int) -> bytes:
    return segment.data[footer.row_groups[index].start : footer.row_groups[index].end]
