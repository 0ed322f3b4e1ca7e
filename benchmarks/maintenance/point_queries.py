"""A reader of a Delta table in a process of its own, for ``cluster``: how many bytes a query for one customer reads.

``read READER TABLE CUSTOMER`` and ``files TABLE`` print JSON; Spark does ``copy TABLE TARGET`` and ``zorder TABLE FILE-BYTES``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder

from spark_pipeline import session

Query = Callable[[str, str], int]
"""Function of the query's kind (``column`` or ``key``) and the customer that returns the number of rows."""


def main(arguments: list[str]) -> None:
    """Do one command."""
    command, *rest = arguments
    if command == "read":
        print(json.dumps(_read(*rest)))
    elif command == "files":
        print(json.dumps(_files(*rest)))
    else:
        _spark(command, *rest)


def _read(reader: str, path: str, customer: str) -> dict[str, int]:
    queries = {"duckdb": _duckdb, "deltalake": _deltalake, "pyarrow": _pyarrow, "spark": _by_spark}
    query = queries[reader](path)
    found = {}
    for kind in ("column", "key"):
        for _ in range(2):
            before = _bytes_read()
            count = query(kind, customer)
            found[kind] = _bytes_read() - before
            assert count == 100, (reader, kind, count)
    return found


def _bytes_read() -> int:
    """Return the bytes that this process and its children have read by system calls."""
    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        text = Path(f"/proc/{process.pid}/io").read_text()
        total += int(dict(line.split(": ") for line in text.splitlines())["rchar"])
    return total


def _files(path: str) -> dict[str, int]:
    sizes = [Path(uri).stat().st_size for uri in DeltaTable(path).file_uris()]
    return {"count": len(sizes), "bytes": sum(sizes)}


def _duckdb(path: str) -> Query:
    files = DeltaTable(path).file_uris()

    def query(kind: str, customer: str) -> int:
        condition = f"data.customer = '{customer}'" if kind == "column" else f"key = '{customer}'::blob"
        with duckdb.connect() as database:
            database.execute("set enable_external_file_cache = false")
            return len(database.execute(f"select * from read_parquet({files}) where {condition}").fetchall())

    return query


def _deltalake(path: str) -> Query:
    def query(kind: str, customer: str) -> int:
        condition = f"data['customer'] = '{customer}'" if kind == "column" else f"key = X'{customer.encode().hex()}'"
        asked = QueryBuilder().register("t", DeltaTable(path)).execute(f"select * from t where {condition}")
        return sum(batch.num_rows for batch in asked)

    return query


def _pyarrow(path: str) -> Query:
    def query(kind: str, customer: str) -> int:
        is_wanted = (
            ds.field("data", "customer") == customer if kind == "column" else ds.field("key") == customer.encode()
        )
        return int(DeltaTable(path).to_pyarrow_dataset().to_table(filter=is_wanted).num_rows)

    return query


def _by_spark(path: str) -> Query:
    table = _session().read.format("delta").load(path)

    def query(kind: str, customer: str) -> int:
        condition = f"data.customer = '{customer}'" if kind == "column" else f"key = X'{customer.encode().hex()}'"
        return len(table.where(condition).collect())

    return query


def _session() -> Any:
    spark = session("/")
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _spark(command: str, table: str, argument: str) -> None:
    spark = _session()
    if command == "copy":
        spark.read.format("delta").load(table).write.format("delta").save(argument)
    else:
        spark.conf.set("spark.databricks.delta.optimize.maxFileSize", argument)
        spark.sql(f"OPTIMIZE delta.`{table}` ZORDER BY (data.customer)")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
