"""DuckDB reads a topic by the Iceberg catalog, with the credentials that come with the table.

Its extensions come as packages; DuckDB itself would fetch them from its own server.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_httpfs
import duckdb_extension_iceberg
from rows import answer


def _connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    for package in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg):
        (extension,) = Path(package.__file__).parent.rglob("*.duckdb_extension")
        found.execute(f"LOAD '{extension}'")
    found.execute(f"CREATE SECRET tidelog (TYPE iceberg, TOKEN '{os.environ['TOKEN']}')")
    found.execute(f"ATTACH '' AS tidelog (TYPE iceberg, SECRET tidelog, ENDPOINT '{os.environ['URL']}/iceberg')")
    return found


def main() -> None:
    """Answer each version that the command line names."""
    connection = _connection()

    def read(version: int) -> Sequence[Any]:
        columns = 'partition, "offset", epoch_ms("timestamp"), key, value'
        name = f'tidelog.topics."{os.environ["TOPIC"]}"'
        return connection.execute(f"SELECT {columns} FROM {name} AT (VERSION => {version})").fetchall()

    answer(read)


main()
