"""DuckDB reads a Delta table in a bucket by its extension, on Delta's Rust kernel. ``S3``: settings of a secret."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_delta
import duckdb_extension_httpfs
from rows import answer


def main() -> None:
    """Answer each version that the command line names."""
    connection = duckdb.connect()
    for package in (duckdb_extension_httpfs, duckdb_extension_delta):
        (extension,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    connection.execute(f"CREATE SECRET (TYPE s3, {os.environ['S3']})")

    def read(version: int) -> Sequence[Any]:
        connection.execute(f"ATTACH '{os.environ['TABLE']}' AS at{version} (TYPE delta, VERSION {version})")
        columns = 'partition, "offset", epoch_ms("timestamp"), key, value'
        return connection.execute(f"SELECT {columns} FROM at{version}").fetchall()

    answer(read)


main()
