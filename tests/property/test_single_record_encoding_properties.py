"""One record has the bytes that Arrow's writer gives, whatever it is, wherever it lies and however it is compressed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log_format.records.schema import TIMESTAMP_MS_MAX
from log_format.records.single import RecordAtOffset, SingleRecord
from log_format.segments.segment import encode_segment
from log_format.segments.single_record_encoding import (
    ONE_RECORD_BYTES_MAX,
    derive_template,
    encode_probes,
    encode_single_record,
)

COMPRESSIONS = ("zstd", "lz4", "snappy", "gzip", "uncompressed")
NUMBERS = st.integers(0, 62).flatmap(lambda bits: st.integers(0, 2**bits))
"""As many small ones as large ones: the bytes of a number grow with it."""
BYTES = (
    st.none() | st.binary(max_size=200) | st.builds(lambda part, times: part * times, st.binary(), st.integers(0, 90))
)
TIMES = NUMBERS.map(lambda number: min(number, TIMESTAMP_MS_MAX))


@given(st.integers(0, 9_999), NUMBERS, TIMES, BYTES, BYTES, st.sampled_from(COMPRESSIONS))
@example(0, 0, 0, None, b"v" * ONE_RECORD_BYTES_MAX, "zstd")
@example(1, 2**63 - 2, TIMESTAMP_MS_MAX, b"", bytes(range(256)) * (ONE_RECORD_BYTES_MAX // 256), "uncompressed")
def test_bytes_of_arrow(
    partition: int, offset: int, time_ms: int, key: bytes | None, value: bytes | None, compression: str
) -> None:
    """A segment of one record is byte for byte Arrow's, and so is what its commit says of it."""
    placed = RecordAtOffset(partition, offset, SingleRecord(time_ms, key, value))
    assert encode_single_record(placed, compression=compression) == encode_segment(
        placed.table(), compression=compression
    )


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_arrow_is_the_one_that_is_known(compression: str) -> None:
    """With the locked Arrow no record is left to Arrow: else the test above compares Arrow with itself."""
    assert derive_template(compression, encode_probes(compression)) is not None


@pytest.mark.parametrize("number", range(3))
def test_another_arrow_writes_by_itself(number: int) -> None:
    """Where one byte of one probe is another, as with another Arrow, nothing is encoded here."""
    probes = encode_probes("zstd")
    data = bytearray(probes[number].data)
    data[probes[number].footer_start // 2] ^= 1
    probes[number] = replace(probes[number], data=bytes(data))
    assert derive_template("zstd", probes) is None
