"""A record expires at the time in its header ``expires_at``; a malformed header is no time."""

from __future__ import annotations

import pyarrow as pa
import pytest

from log_format.records.expiry import NEVER_MS, expired_mask, expiry_times_ms
from log_format.records.schema import HEADERS


@pytest.mark.parametrize(
    ("headers", "time_ms"),
    [
        ([("expires_at", b"1763683200000")], 1763683200000),
        ([("a", b"1"), ("expires_at", b"0")], 0),
        ([("expires_at", b"007")], 7),
        ([("expires_at", b"999999999999999")], 999999999999999),
        ([("expires_at", b"5"), ("expires_at", b"9")], 9),
        ([("expires_at", b"5"), ("expires_at", b"soon")], 5),
        ([("expires_at", b"1000000000000000")], NEVER_MS),
        ([("expires_at", b"-1")], NEVER_MS),
        ([("expires_at", b"1.5")], NEVER_MS),
        ([("expires_at", b"1\n")], NEVER_MS),
        ([("expires_at", b"")], NEVER_MS),
        ([("expires_at", None)], NEVER_MS),
        ([("expires_at", b"\xff1")], NEVER_MS),
        ([("expires_at", "١".encode())], NEVER_MS),
        ([("Expires_At", b"1")], NEVER_MS),
        ([], NEVER_MS),
        (None, NEVER_MS),
    ],
)
def test_the_header(headers: list[tuple[str, bytes | None]] | None, time_ms: int) -> None:
    """Decimal digits are a time; the last header that is one counts; every other is ignored."""
    column = pa.chunked_array([pa.array([None, headers, [("a", b"2")]], HEADERS)])
    assert expiry_times_ms(column).tolist() == [NEVER_MS, time_ms, NEVER_MS]


def test_records_whose_time_has_come() -> None:
    """The moment itself is past; chunks and slices do not matter."""
    lists = [[("expires_at", b"%d" % time_ms)] for time_ms in (9, 10, 11)]
    column = pa.chunked_array([pa.array(lists, HEADERS), pa.array([], HEADERS), pa.array([None, *lists], HEADERS)])
    assert expired_mask(column, 10).tolist() == [True, True, False, False, True, True, False]
    assert expired_mask(column.slice(2, 4), 10).tolist() == [False, False, True, True]
    assert expired_mask(pa.chunked_array([], HEADERS), 10).tolist() == []
