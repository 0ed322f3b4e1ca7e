"""Numbers of every width are read the same, one by one, all at once, and as they were written."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.records import varints

_WIDTHS = st.integers(0, 63).flatmap(lambda bits: st.integers(-(2**bits), 2**bits - 1))


@given(st.lists(_WIDTHS, min_size=1, max_size=40), st.integers(0, 9))
def test_numbers_are_read_as_they_were_written(numbers: list[int], gap_bytes: int) -> None:
    """All at once and one by one give each number, and the position behind it, whatever bytes follow."""
    rows, sizes = varints.encode(np.array(numbers, np.int64))
    pieces = [
        row[:size].tobytes() + b"\xff" * gap_bytes
        for row, size in zip(rows, np.broadcast_to(sizes, len(rows)), strict=True)
    ]
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    data = b"".join(pieces) + bytes(varints.VARINT_BYTES_MAX)
    values, behind = varints.read(np.frombuffer(data, np.uint8), starts)
    assert values.tolist() == numbers
    assert (behind - starts).tolist() == [len(piece) - gap_bytes for piece in pieces]
    assert [varints.read_one(data, int(start)) for start in starts] == list(zip(numbers, behind.tolist(), strict=True))


def test_a_number_without_an_end_is_malformed() -> None:
    """More than 10 bytes that continue are no number, also beside others that are."""
    data = np.frombuffer(b"\x02" + b"\xff" * 11 + bytes(varints.VARINT_BYTES_MAX), np.uint8)
    with pytest.raises(varints.Malformed):
        varints.read(data, np.array([0, 1]))
