"""Rows of text are what joining their parts one by one gives, in whatever way they are made."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.codec.text_rows import Numbers, Parts, join_rows, text_of

MANY = 300
"""Rows enough for the ways of large answers."""
NUMBERS_MAX = 2**63 - 1


def expected(parts: Parts, count: int) -> list[str | None]:
    columns = [
        [part] * count if isinstance(part, str) else part.to_pylist() if isinstance(part, pa.Array) else part.tolist()
        for part in parts
    ]
    return [None if None in row else "".join(map(str, row)) for row in zip(*columns, strict=True)]


def numbers(first: int, step: int, count: int = MANY) -> Numbers:
    """Up and down again, so that neither the first nor the last is the largest."""
    middle = count // 2
    return np.concatenate([np.arange(middle), np.arange(count - middle)[::-1]]) * step + first


def column(count: int, *, nulls: bool = False) -> pa.Array:
    return pa.array(
        [None if nulls and row % 3 == 0 else "é" * (row % 5) + str(row) for row in range(count)], pa.string()
    )


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, MANY])
@pytest.mark.parametrize("nulls", [False, True])
def test_texts_numbers_and_columns(count: int, nulls: bool) -> None:
    """Each row has its own of every part, in order; a row with a null is null. Slices of columns are as good as columns."""
    whole = column(count + 7)
    parts: Parts = [
        "é",
        "<",
        numbers(41, 1, count),
        whole.slice(7),
        "|",
        "|",
        column(count, nulls=nulls),
        numbers(5, 0, count),
        ">",
    ]
    assert join_rows(parts).to_pylist() == expected(parts, count)
    assert join_rows(parts[2:4]).to_pylist() == expected(parts[2:4], count)
    assert join_rows([parts[-2], "x"]).to_pylist() == ["5x"] * count


@pytest.mark.parametrize(
    "first", [0, 1, 8, 9_990, 10_000, 99_999_950, 123_456_789_012, 1_763_683_200_000, 10**18, NUMBERS_MAX - 10**9]
)
@pytest.mark.parametrize("step", [0, 1, 7, 9_999, 1_234_567])
def test_numbers_of_any_length(first: int, step: int) -> None:
    """However many digits they have or share, also where some have more than others."""
    parts: Parts = [",", numbers(first, step), ":", numbers(first, 0), numbers(7, step)]
    assert join_rows(parts).to_pylist() == expected(parts, MANY)


@given(st.integers(1, 19), st.randoms(use_true_random=False))
def test_numbers_of_equal_length(digits: int, rng: object) -> None:
    """Whatever they are."""
    least, most = 10 ** (digits - 1), min(10**digits - 1, NUMBERS_MAX)
    drawn = np.array([rng.randint(least, most) for _ in range(MANY)])  # type: ignore[attr-defined]
    assert join_rows([drawn, "."]).to_pylist() == [f"{number}." for number in drawn.tolist()]


def test_the_bytes_of_rows() -> None:
    """Of all of them, also of a slice."""
    rows = join_rows([numbers(1, 1), column(MANY)])
    assert bytes(text_of(rows)).decode() == "".join(rows.to_pylist())
    assert bytes(text_of(rows.slice(3, 70))).decode() == "".join(rows.to_pylist()[3:73])
    assert bytes(text_of(rows.slice(0, 0))) == b""
