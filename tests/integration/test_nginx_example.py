"""The example that takes nginx's access logs to a Spark table."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.loaded import loaded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "nginx-logs"
HEADERS = "array<struct<key:string,value:binary>>"


def test_the_generator_writes_and_rotates(tmp_path: Path) -> None:
    """As many lines as asked for, in the files that logrotate would leave."""
    options = ["--lines", "25", "--rotate-every", "10", "--lines-per-second", "10000"]
    subprocess.run([sys.executable, EXAMPLE / "generate.py", tmp_path, *options], check=True, timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["access.log", "access.log.1", "access.log.2.gz"]
    assert len((tmp_path / "access.log").read_text().splitlines()) == 5


@pytest.mark.timeout(280)
def test_lines_become_rows(spark: SparkSession) -> None:
    """A line of the generator, and any of nginx's, is taken apart; another line is kept as it is; both name their place."""
    lines = [
        loaded(EXAMPLE / "generate.py").line(random.Random(1)).rstrip("\n"),
        '2001:db8::1 - ada [31/Jan/2025:08:09:10 +0100] "POST /api?x=1 HTTP/2.0" 201 - "https://example.org/" "curl/8"',
        "2025/01/31 08:09:10 [error] something else",
    ]
    rows = [
        (0, number, line.encode(), [("file", b"access.log"), ("line", str(number + 1).encode())])
        for number, line in enumerate(lines)
    ]
    records = spark.createDataFrame(rows, f"partition int, offset long, value binary, headers {HEADERS}")
    generated, posted, other = loaded(EXAMPLE / "to_table.py").requests(records).orderBy("offset").collect()
    assert (generated.method, generated.line, generated.file_line) == ("GET", None, 1)
    assert generated.bytes >= 100
    assert posted.time.astimezone(UTC) == datetime(2025, 1, 31, 7, 9, 10, tzinfo=UTC)
    assert (posted.address, posted.path, posted.status, posted.bytes) == ("2001:db8::1", "/api?x=1", 201, None)
    assert (posted.referrer, posted.agent) == ("https://example.org/", "curl/8")
    assert (other.line, other.status, other.file, other.file_line) == (lines[2], None, "access.log", 3)
