"""Limits cut records off exactly, and count bytes as the contract does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.records.schema import BATCH_SCHEMA, HEADERS, TIMESTAMP
from log_format.records.size import head_within, record_bytes

_OPTIONAL_BYTES = st.none() | st.binary(max_size=20)
_HEADERS = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.text(max_size=5), "value": st.none() | st.binary(max_size=9)}), max_size=3
)
ROWS = st.lists(
    st.fixed_dictionaries({"key": _OPTIONAL_BYTES, "value": _OPTIONAL_BYTES, "headers": _HEADERS}), max_size=20
)


def size(row: dict[str, Any]) -> int:
    headers = sum(len(header["key"].encode()) + len(header["value"] or b"") for header in row["headers"] or [])
    return len(row["key"] or b"") + len(row["value"] or b"") + headers


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        [
            pa.array([0] * len(rows), pa.int64()).cast(TIMESTAMP),
            pa.array([row["key"] for row in rows], pa.binary()),
            pa.array([row["value"] for row in rows], pa.binary()),
            pa.array([row["headers"] for row in rows], HEADERS),
        ],
        schema=BATCH_SCHEMA,
    )


@given(rows=ROWS, first=st.integers(0, 5), bytes_max=st.integers(0, 200), records_max=st.integers(1, 25))
def test_cut_is_exact(rows: list[dict[str, Any]], first: int, bytes_max: int, records_max: int) -> None:
    """As many records as fit both limits, one more would not; one at least; slices and chunks count like whole tables."""
    whole = table(rows)
    pieces = pa.concat_tables([whole.slice(first, 7), whole.slice(min(first + 7, len(rows)))])
    rows = rows[first:]
    assert record_bytes(pieces).tolist() == [size(row) for row in rows]
    expected = 0
    while expected < min(len(rows), records_max) and (
        expected == 0 or sum(size(row) for row in rows[: expected + 1]) <= bytes_max
    ):
        expected += 1
    assert head_within(pieces, bytes_max=bytes_max, records_max=records_max).equals(pieces.slice(0, expected))


@pytest.mark.parametrize(("bytes_max", "expected"), [(7, 1), (8, 2), (11, 2), (12, 3), (13, 3)])
def test_bytes_max_is_inclusive(bytes_max: int, expected: int) -> None:
    """Records that fill the limit to the byte are within it."""
    records = table([{"key": b"k", "value": b"vvv", "headers": []}] * 3)
    assert head_within(records, bytes_max=bytes_max, records_max=10).num_rows == expected


def test_a_null_list_may_span_headers_that_are_not_there() -> None:
    """Arrow lets a null list span elements; they belong to no record and count for none."""
    lists = pa.array(
        [[{"key": "aa", "value": b"b"}], [{"key": "hidden", "value": b"x"}], [{"key": "c", "value": None}]], HEADERS
    )
    masked = pa.ListArray.from_arrays(lists.offsets, lists.values, type=HEADERS, mask=pa.array([False, True, False]))
    records = table([{"key": None, "value": b"v", "headers": None}] * 3).set_column(3, "headers", masked)
    assert record_bytes(records).tolist() == [4, 1, 2]
    assert record_bytes(records.slice(1)).tolist() == [1, 2]


def test_records_max_below_one_is_refused() -> None:
    """A reader that asks for nothing would never get on."""
    with pytest.raises(ValueError, match="records_max"):
        head_within(table([]), bytes_max=1, records_max=0)
