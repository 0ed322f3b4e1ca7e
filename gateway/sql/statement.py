"""A statement inside its process: the topics that it names, their records as tables, its answer. Only here DuckDB is used.

1. A statement is a single SELECT, or is refused. It names topics and its own tables; of table functions it may use only
   ``TABLE_FUNCTIONS``. So it can name no file, no setting, no other database, and no memory address.
2. DuckDB has no access to anything outside, loads nothing, and its configuration is locked.
3. Each of both would suffice. The limits of the process (``gateway.process.sql_statement``) are the fence that does not rely on
   DuckDB.
"""

from __future__ import annotations

import io
from typing import Any, Final

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from gateway.sql.task import (
    ANSWER_BYTES_MAX,
    FILE_ROWS_MAX,
    FRAME_BYTES_MAX,
    ROWS_MAX,
    Column,
    ParsedStatement,
    StatementAnswer,
)
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.sql import (
    parse_statement,
    quote_identifier,
    tables_read,
    to_json_value,
    topic_query,
    tree_nodes,
)

DATABASE_MEMORY: Final = "224MiB"
TABLE_FUNCTIONS: Final = frozenset(("generate_series", "json_each", "json_tree", "range", "unnest"))
ERROR_CHARACTERS_MAX: Final = 2_000
_SCHEMA: Final = RECORD_SCHEMA.insert(0, pa.field("topic", pa.string()))
_ROWS_PER_FETCH: Final = 64
_HEAD_BYTES: Final = 64 * 1024
"""Bytes of an answer in addition to its rows and the columns' names."""
_WARM_UP_QUERY: Final = """
    select 1.5::decimal(4, 2), 1::hugeint, 1.0::double, uuid(), 'a'::blob, '{}'::json, [1], {'a': 1}, map {'a': 1}, '101'::bit,
        date '2000-01-01', time '01:00', time '01:00'::timetz, timestamp '2000-01-01', timestamptz '2000-01-01', interval 1 day,
        timestamp_s '2000-01-01', timestamp_ms '2000-01-01', timestamp_ns '2000-01-01', 'a'::enum('a')
"""
"""Query that makes DuckDB load all libraries that values need: later no file can be opened."""


class Statement:
    """The only statement of its process."""

    def __init__(self) -> None:
        config: dict[str, str | bool | int | float | list[str]] = {
            "threads": "1",
            "memory_limit": DATABASE_MEMORY,
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "python_enable_replacements": "false",
            "TimeZone": "UTC",
        }
        self._database = duckdb.connect(":memory:", config=config)
        for setting in ("autoload_known_extensions", "allow_community_extensions", "enable_external_access"):
            self._database.execute(f"set {setting} = false")
        self._load("warm", [])
        self._database.execute(_WARM_UP_QUERY + " from warm").fetchall()
        self._database.execute(_WARM_UP_QUERY).fetchall()
        _build_file(self._database.sql("select 1 as one, 'a' as text, now() as now"))
        self._database.execute("set lock_configuration = true")
        self._text = ""

    def parse(self, text: str) -> ParsedStatement:
        """Parse the statement, and return the topics that it names."""
        self._text = text
        try:
            tree = parse_statement(self._database, text)
        except duckdb.Error as error:
            return ParsedStatement(error=_error_text(error))
        except RecursionError:
            return ParsedStatement(error="It is nested too deeply.")
        if tree.get("error"):
            what = tree.get("error_message", "")
            return ParsedStatement(
                error=what[:ERROR_CHARACTERS_MAX] if tree.get("error_type") == "parser" else "Only SELECT is allowed."
            )
        return ParsedStatement(error=what) if (what := _fault(tree)) else ParsedStatement(tuple(tables_read(tree)))

    def load(self, blocks: dict[str, list[pa.Table]]) -> str | None:
        """Make a table of each topic, whose blocks may be in any order. Return why that fails, or None."""
        try:
            for topic, tables in blocks.items():
                tables.sort(key=_place)
                self._load(topic, tables)
        except (duckdb.OutOfMemoryException, MemoryError):
            return "Its topics exceed its memory limit: ask for fewer records."
        except duckdb.Error as error:
            return _error_text(error)
        return None

    def run(self, *, as_file: bool = False) -> StatementAnswer:
        """Run the statement. ``as_file``: the answer is a Parquet file."""
        try:
            if as_file:
                return _build_file(self._database.sql(self._text))
            answer = self._database.execute(self._text)
            columns = tuple(Column(column[0], str(column[1])) for column in answer.description or ())
            return _build_answer(answer, columns)
        except (duckdb.OutOfMemoryException, MemoryError):
            return StatementAnswer(error="It exceeds its memory limit.")
        except RecursionError:
            return StatementAnswer(error="Its answer is nested too deeply.")
        except (duckdb.Error, pa.ArrowException) as error:
            return StatementAnswer(error=_error_text(error))

    def _load(self, topic: str, tables: list[pa.Table]) -> None:
        raw, database = quote_identifier(f"raw:{topic}"), self._database
        typed = [one for one in tables[0].schema if one.name not in RECORD_SCHEMA.names] if tables else []
        database.register("fetched", pa.schema([*_SCHEMA, *typed]).empty_table())
        database.execute(f"create temp table {raw} as select * from fetched")  # noqa: S608 - a quoted name
        while tables:
            table = tables.pop(0)
            topics = pa.repeat(pa.scalar(topic), table.num_rows)
            database.register("fetched", table.add_column(0, _SCHEMA.field(0), topics))
            database.execute(f"insert into {raw} select * from fetched")  # noqa: S608 - a quoted name
        database.unregister("fetched")
        database.execute(
            f"create temp view {quote_identifier(topic)} as {topic_query(raw, [one.name for one in typed])}"
        )


def _place(records: pa.Table) -> tuple[int, int]:
    """Return partition and offset of the first record; an empty block comes first."""
    return (records["partition"][0].as_py(), records["offset"][0].as_py()) if records.num_rows else (-1, -1)


def _fault(tree: Any) -> str | None:
    """Return why a parsed statement is not answered, or None."""
    if len(tree["statements"]) != 1:
        return "Exactly one SELECT is allowed."
    for node in tree_nodes(tree):
        if node.get("type") == "BASE_TABLE" and (node["schema_name"] or node["catalog_name"]):
            return "Tables are topics, without a schema. Quote names with dots."
        if (
            node.get("type") == "TABLE_FUNCTION"
            and node["function"].get("function_name", "").lower() not in TABLE_FUNCTIONS
        ):
            return f"Only these table functions are allowed: {', '.join(sorted(TABLE_FUNCTIONS))}."
    return None


def _build_answer(answer: duckdb.DuckDBPyConnection, columns: tuple[Column, ...]) -> StatementAnswer:
    kept: list[bytes] = []
    size = 0
    while rows := answer.fetchmany(_ROWS_PER_FETCH):
        for row in rows:
            data = msgspec.json.encode([to_json_value(value) for value in row])
            size += len(data) + 1
            if len(kept) == ROWS_MAX or size > ANSWER_BYTES_MAX:
                return _truncate(columns, kept, more=True)
            kept.append(data)
    return _truncate(columns, kept, more=False)


def _build_file(rows: duckdb.DuckDBPyRelation) -> StatementAnswer:
    table = pa.RecordBatchReader.from_stream(rows.limit(FILE_ROWS_MAX + 1)).read_all()
    sink = io.BytesIO()
    pq.write_table(table.slice(0, FILE_ROWS_MAX), sink)
    if sink.tell() > ANSWER_BYTES_MAX:
        return StatementAnswer(error=f"Its file exceeds {ANSWER_BYTES_MAX} bytes: select fewer rows or columns.")
    return StatementAnswer(file=sink.getvalue(), more=table.num_rows > FILE_ROWS_MAX)


def _truncate(columns: tuple[Column, ...], rows: list[bytes], *, more: bool) -> StatementAnswer:
    if len(msgspec.json.encode(columns)) > FRAME_BYTES_MAX - ANSWER_BYTES_MAX - _HEAD_BYTES:
        return StatementAnswer(error="The names of its columns exceed the limit of an answer.")
    return StatementAnswer(columns, msgspec.Raw(b"[" + b",".join(rows) + b"]"), more)


def _error_text(error: Exception) -> str:
    return str(error)[:ERROR_CHARACTERS_MAX]
