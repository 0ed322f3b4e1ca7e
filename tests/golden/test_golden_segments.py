"""Segments of every released format stay readable for ever.

``segments/`` holds one segment a compression, all with the records of ``golden_records``, and beside each what the log says
of it. ``python tests/golden/test_golden_segments.py`` writes those that are missing and never touches one that is there. When
the format changes, add a generation to ``NAMES`` and keep the old ones, with their records.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.records.schema import HEADERS, RECORD_SCHEMA, TIMESTAMP
from log_format.segments.run import SegmentRef
from log_format.segments.segment import decode_footer, decode_row_groups, encode_segment

DIRECTORY = Path(__file__).parent / "segments"
NAMES = {f"1-{name}": name for name in ("zstd", "lz4", "snappy", "gzip", "uncompressed")}
"""File -> compression; the number is the generation."""
ROW_GROUP_BYTES_MAX = 2_000


def golden_records() -> pa.Table:
    """Three runs: every kind of null and empty, headers, bytes that are no UTF-8, repeated keys, a gap, late timestamps."""
    rows = [
        (0, 0, 0, None, None, None),
        (0, 1, 253_402_300_799_999, b"", b"", []),
        (
            0,
            2,
            1_763_683_200_000,
            b"key",
            b"value",
            [{"key": "trace", "value": b"ab"}, {"key": "trace", "value": None}],
        ),
        (0, 3, 1_763_683_199_999, b"\xff\xfe", b"\x00\x80", [{"key": "", "value": b"\xff"}]),
        *((1, 10 + n, 1_763_683_200_000 + n, b"N%d" % (n % 3), b'{"number": %d}' % n, None) for n in range(80)),
        *((9_999, 2**40 + 2 * n, 1_763_683_200_000 - n, b"%d" % n, bytes(range(n)), []) for n in range(60)),
    ]
    columns = list(zip(*rows, strict=True))
    return pa.table(
        [
            pa.array(columns[0], pa.int32()),
            pa.array(columns[1], pa.int64()),
            pa.array([1000 * milliseconds for milliseconds in columns[2]], pa.int64()).cast(TIMESTAMP),
            pa.array(columns[3], pa.binary()),
            pa.array(columns[4], pa.binary()),
            pa.array(columns[5], HEADERS),
        ],
        schema=RECORD_SCHEMA,
    )


def write_missing() -> list[str]:
    """Write what is missing; the names of what was written."""
    written = []
    for name, compression in NAMES.items():
        target = DIRECTORY / f"{name}.parquet"
        if not target.exists():
            DIRECTORY.mkdir(exist_ok=True)
            segment = encode_segment(golden_records(), compression=compression, row_group_bytes_max=ROW_GROUP_BYTES_MAX)
            target.write_bytes(segment.data)
            reference = {"footer_start": segment.footer_start, "footer_crc32": segment.footer_crc32}
            target.with_suffix(".json").write_text(json.dumps(reference) + "\n")
            written.append(name)
    return written


@pytest.mark.parametrize("name", NAMES)
def test_a_released_segment_is_readable(name: str) -> None:
    """The committed bytes give the committed records, by our reader and as ordinary Parquet."""
    path = DIRECTORY / f"{name}.parquet"
    data = path.read_bytes()
    ref = SegmentRef(path.name, len(data), **json.loads(path.with_suffix(".json").read_text()))
    footer = decode_footer(data[ref.footer_start :], ref)
    assert len(footer.row_groups) > len({group.partition for group in footer.row_groups}) == 3
    every = range(len(footer.row_groups))
    assert decode_row_groups(footer, every, data[4 : ref.footer_start]).equals(golden_records())
    assert pq.read_table(path).replace_schema_metadata(None).equals(golden_records())


def test_every_golden_file_has_its_test() -> None:
    """A file that no test reads would prove nothing, and a lost one would go unseen."""
    assert {path.stem for path in DIRECTORY.iterdir()} == set(NAMES)


if __name__ == "__main__":
    print(*(write_missing() or ["Nothing is missing."]), sep="\n")
