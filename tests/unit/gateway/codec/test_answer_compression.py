"""Whether compressing an answer is worth it, told by a sample of its beginning."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from gateway.codec.answer_compression import is_worthwhile
from gateway.codec.arrow_answer import arrow_pieces
from log_format.records.schema import RECORD_SCHEMA

ROWS = 4_000


def first_piece(value: Callable[[int], bytes]) -> bytes:
    """The schema and the first batch of an Arrow answer, as they are sent together."""
    columns = {
        "partition": pa.array(np.zeros(ROWS, np.int32)),
        "offset": pa.array(np.arange(ROWS)),
        "timestamp": pa.array(np.full(ROWS, 1_763_683_200_000_000)).cast(pa.timestamp("us", tz="UTC")),
        "key": pa.array([f"key-{row}".encode() for row in range(ROWS)], pa.binary()),
        "value": pa.array([value(row) for row in range(ROWS)], pa.binary()),
        "headers": pa.array([[]] * ROWS, RECORD_SCHEMA.field("headers").type),
    }
    pieces = arrow_pieces(pa.table([columns[name] for name in RECORD_SCHEMA.names], schema=RECORD_SCHEMA))
    return next(pieces) + next(pieces)


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_random_values_between_columns_that_shrink_are_not_compressed(encoding: str) -> None:
    """Offsets begin an Arrow batch and empty headers end it: they shrink to nothing, and are a fortieth of it."""
    assert not is_worthwhile(encoding, first_piece(lambda _: os.urandom(1024)))


@pytest.mark.parametrize("encoding", ["zstd", "gzip"])
def test_lines_of_a_log_are_compressed(encoding: str) -> None:
    """They shrink to a fraction."""
    assert is_worthwhile(
        encoding, first_piece(lambda row: f"2026-11-23T00:{row % 60:02}:00Z INFO request {row} done ".encode() * 20)
    )
