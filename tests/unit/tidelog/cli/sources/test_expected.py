"""A bar over files has an end, and one over standard input has none."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.cli.sources.expected import ExpectedLines
from tidelog.cli.sources.lines import STANDARD_STREAM, read_lines
from tidelog.cli.sources.parquet import row_count


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_number_of_lines_is_told_from_what_was_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Exactly at the end, and about so much after the first of several files, also where they are compressed."""
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(pack(b"".join(b"line %d\n" % number for number in range(1000))))
    expected = ExpectedLines(paths)
    assert expected.total is None
    totals = [expected.total for _ in expected.counted(read_lines(paths, expected.count_bytes))]
    assert totals == [2000, 2000]


@pytest.mark.parametrize("other", ["-", "pipe"])
def test_what_has_no_size_has_no_end(tmp_path: Path, other: str) -> None:
    """Also beside a file that has one."""
    (tmp_path / "a").write_bytes(b"1\n2\n")
    os.mkfifo(tmp_path / "pipe")
    expected = ExpectedLines([tmp_path / "a", STANDARD_STREAM if other == "-" else tmp_path / other])
    for _ in expected.counted(read_lines([tmp_path / "a"], expected.count_bytes)):
        assert expected.total is None


def test_parquet_says_how_many_rows_it_has(tmp_path: Path) -> None:
    """Without a row being read; a file that is none has no number, and is refused when it is read."""
    for name in ("a", "b"):
        pq.write_table(pa.table({"n": list(range(7))}), tmp_path / name)
    (tmp_path / "c").write_bytes(b"x")
    assert row_count([tmp_path / "a", tmp_path / "b"]) == 14
    assert row_count([tmp_path / "a", tmp_path / "c"]) is None
