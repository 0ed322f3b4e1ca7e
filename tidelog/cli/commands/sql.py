"""``tidelog sql``: SQL queries of topics, answered by DuckDB in this process."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from log_format.errors import TidelogError
from log_format.records.sql import parse_statement, quote_identifier, tables_read, to_json_value, topic_query
from tidelog.admin import Admin
from tidelog.cli.commands.consume import FromOption, UntilOption
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    CommandFailed,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    output,
    print_json,
    progress,
    reporting,
)
from tidelog.cli.terminal.positions import Range, parse_position, resolve_range
from tidelog.cli.terminal.tables import TextTable, text_cell
from tidelog.cli.terminal.visible import visible_text
from tidelog.consumer.consumer import Consumer
from tidelog.consumer.whole_topic import tables_between

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    from log_format.schemas.columns.codec import RecordReaders

NEEDED: Final = ("duckdb", "numpy", "pyarrow")
ROWS_SHOWN_MAX: Final = 1_000
"""Number of rows in a terminal's table: more rows are for a program."""
_ROWS_AT_ONCE: Final = 1_000


def sql(
    query: Annotated[str, typer.Argument(help="A query in DuckDB's SQL. Its tables are topics.")],
    *,
    from_: FromOption = None,
    until: UntilOption = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="DuckDB's limit of memory; what exceeds it goes to temporary files.")
    ] = "1GB",
    as_json: Annotated[bool, typer.Option("--json", help="Write each row as a line of JSON.")] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Query topics in SQL. Each topic that the query names is read once, up to its current end.

    A topic has the columns topic, partition, offset, timestamp, key, value, headers, key_bytes and value_bytes. key and value
    are text, and null where the bytes are no UTF-8. A typed topic also has data, key_data and data_error. Quote names with dots
    or dashes. Reads no other data over the network.

    \b
    Examples:
      tidelog sql 'select count(*), max(timestamp) from orders'
      tidelog sql 'select data.id, sum(data.amount) from sales group by 1'
      tidelog sql "select try_cast(value as json)->>'amount' as amount, count(*) from orders group by 1" --from 1h
      tidelog sql 'select "key", count(*) as records from orders group by 1 order by 2 desc limit 10' --json
    """
    with reporting(as_json=as_json):
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise CommandFailed(f"SQL needs {', '.join(missing)}: pip install 'tidelog[sql]'")
        begin = parse_position(from_ or "earliest")
        end = None if until is None else parse_position(until, "--until")
        settings: dict[str, Any] = {"bootstrap_servers": url, "token_file": token_file}
        with (
            tempfile.TemporaryDirectory(prefix="tidelog-sql-") as directory,
            _database(memory, Path(directory)) as database,
            Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin,
        ):
            try:
                for topic in _topics(database, query):
                    range_ = resolve_range(admin, topic, begin, None, end)
                    _load(database, topic, range_, settings, _readers(admin, topic), shown=not as_json)
                answer = database.execute(query)
                if as_json:
                    for row in _rows(answer):
                        print_json(row)
                else:
                    _show(answer)
            except _duckdb().Error as error:
                raise ValueError(str(error)) from error


def _database(memory: str, directory: Path) -> duckdb.DuckDBPyConnection:
    """Open an empty database in memory, which fetches no extensions. Raises ``ValueError``."""
    config = {
        "memory_limit": memory,
        "temp_directory": str(directory),
        "autoinstall_known_extensions": "false",
        "python_enable_replacements": "false",
        "TimeZone": "UTC",
    }
    try:
        database: duckdb.DuckDBPyConnection = _duckdb().connect(":memory:", config=config)
    except _duckdb().Error as error:
        raise ValueError(f"--memory {memory!r}: {error}") from error
    return database


def _topics(database: duckdb.DuckDBPyConnection, query: str) -> list[str]:
    tree = parse_statement(database, query)
    if tree.get("error"):  # another statement, such as a pivot; or invalid SQL, which its execution reports
        return sorted(name.strip('"') for name in database.get_table_names(query))
    return tables_read(tree)


def _load(
    database: duckdb.DuckDBPyConnection,
    topic: str,
    range_: Range,
    settings: dict[str, Any],
    readers: RecordReaders | None,
    *,
    shown: bool,
) -> None:
    """Copy the topic into a table, and create a view with its name over it; ``readers`` give it typed columns."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    from tidelog.bodies.fetched_table import FETCHED_SCHEMA  # noqa: PLC0415 - needs pyarrow

    raw, name = quote_identifier(f"raw:{topic}"), quote_identifier(topic)
    typed = [] if readers is None else readers.columns.fields()
    database.register("fetched", pa.schema([*FETCHED_SCHEMA, *typed]).empty_table())
    database.execute(f"create temp table {raw} as select * from fetched")  # noqa: S608 - a quoted name
    with (
        Consumer(auto_offset_reset="none", **settings) as consumer,
        progress(f"from {topic}", shown=shown) as bar,
    ):
        task = bar.add_task("records", total=sum(range_.end[each] - range_.begin[each] for each in range_.end))
        for table in tables_between(consumer, range_.begin, range_.end):
            _insert(database, raw, table if readers is None else _with_columns(table, readers))
            bar.advance(task, table.num_rows)
    database.unregister("fetched")
    database.execute(f"create temp view {name} as {topic_query(raw, [one.name for one in typed])}")


def _readers(admin: Admin, topic: str) -> RecordReaders | None:
    """Return the readers of a topic's schemas; None without any, or, with a note, if they can't be had."""
    from tidelog.schemas.record_readers import record_readers  # noqa: PLC0415 - needs pyarrow

    try:
        return record_readers(admin.schemas(), admin.describe_topic(topic).config)
    except (TidelogError, ValueError) as error:
        note(f"{topic} has no column data, since its schemas can't be used: {error}")
        return None


def _with_columns(table: pa.Table, readers: RecordReaders) -> pa.Table:
    """Add the typed columns. All columns are one chunk: DuckDB reads a table chunk by chunk, and no struct in a struct from its
    middle."""
    table = table.combine_chunks()
    typed, _ = readers.typed(table)
    for field, column in zip(typed.schema, typed.columns, strict=True):
        table = table.append_column(field, column)
    return table


def _insert(database: duckdb.DuckDBPyConnection, raw: str, table: pa.Table) -> None:
    database.register("fetched", table)
    database.execute(f"insert into {raw} select * from fetched")  # noqa: S608 - a quoted name


def _rows(answer: duckdb.DuckDBPyConnection) -> Iterator[dict[str, Any]]:
    names = [column[0] for column in answer.description or ()]
    while found := answer.fetchmany(_ROWS_AT_ONCE):
        for row in found:
            yield {name: to_json_value(value) for name, value in zip(names, row, strict=True)}


def _show(answer: duckdb.DuckDBPyConnection) -> None:
    table = TextTable(box=None, pad_edge=False)
    for column in answer.description or ():
        table.add_column(text_cell(column[0]))
    found = answer.fetchmany(ROWS_SHOWN_MAX + 1)
    for row in found[:ROWS_SHOWN_MAX]:
        table.add_row(*(_shown(value) for value in row))
    output().print(table)
    if len(found) > ROWS_SHOWN_MAX:
        note(f"There are more than {ROWS_SHOWN_MAX:,} rows: --json writes all of them.")


def _shown(value: Any) -> Text:
    return Text("" if value is None else visible_text(str(to_json_value(value))))


def _duckdb() -> Any:
    """Import and return DuckDB, an optional library."""
    import duckdb  # noqa: PLC0415

    return duckdb
