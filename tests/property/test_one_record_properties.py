"""One record has the bytes that Arrow's writer gives, whatever the record, its place and the compression."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from log_format.records.schema import TIMESTAMP_MS_MAX
from log_format.records.single import PlacedRecord, SingleRecord
from log_format.segments.one_record import ONE_RECORD_BYTES_MAX, encode_one
from log_format.segments.segment import encode_segment

COMPRESSIONS = st.sampled_from(["zstd", "lz4", "snappy", "gzip", "uncompressed"])
NUMBERS = st.integers(0, 62).flatmap(lambda bits: st.integers(0, 2**bits))
"""As many small ones as large ones: the bytes of a number grow with it."""
BYTES = st.none() | st.binary(max_size=200) | st.builds(lambda part, times: part * times, st.binary(), st.integers(0, 90))
TIMES = NUMBERS.map(lambda number: min(number, TIMESTAMP_MS_MAX))


@given(st.integers(0, 9_999), NUMBERS, TIMES, BYTES, BYTES, COMPRESSIONS)
@example(0, 0, 0, None, b"v" * ONE_RECORD_BYTES_MAX, "zstd")
@example(1, 2**63 - 2, TIMESTAMP_MS_MAX, b"", bytes(range(256)) * (ONE_RECORD_BYTES_MAX // 256), "uncompressed")
def test_bytes_of_arrow(
    partition: int, offset: int, time_ms: int, key: bytes | None, value: bytes | None, compression: str
) -> None:
    """A segment of one record is byte for byte Arrow's, and so is what its commit says of it."""
    placed = PlacedRecord(partition, offset, SingleRecord(time_ms, key, value))
    assert encode_one(placed, compression=compression) == encode_segment(placed.table(), compression=compression)
