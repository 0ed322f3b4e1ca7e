"""``tidelog sql``: SQL queries of topics, answered by DuckDB in this process; without a query, a shell."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tidelog.admin import Admin
from tidelog.cli.commands.consume import FromOption, UntilOption
from tidelog.cli.sql.answers import AnswerFormat
from tidelog.cli.sql.line_editing import line_editing
from tidelog.cli.sql.shell import Shell
from tidelog.cli.sql.topic_database import TopicDatabase, memory_database
from tidelog.cli.terminal.console import (
    STREAM_TIMEOUT_S,
    CommandFailed,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    reporting,
)
from tidelog.cli.terminal.positions import parse_position

NEEDED: Final = ("duckdb", "numpy", "pyarrow")


def sql(
    query: Annotated[
        str | None,
        typer.Argument(
            help="Statements in DuckDB's SQL, separated by semicolons. Their tables are topics. Default: what standard input "
            "has; at a terminal, a shell."
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Run the statements and dot commands of this file."),
    ] = None,
    from_: FromOption = None,
    until: UntilOption = None,
    memory: Annotated[
        str, typer.Option(metavar="SIZE", help="DuckDB's limit of memory; what exceeds it goes to temporary files.")
    ] = "1GB",
    format_: Annotated[AnswerFormat, typer.Option("--format", help="How answers are written.")] = AnswerFormat.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Write each row as a line of JSON: --format json.")] = False,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = STREAM_TIMEOUT_S,
) -> None:
    """Query topics in SQL, or open a shell. Each topic that a statement names is read once, up to its current end.

    A topic has the columns topic, partition, offset, timestamp, key, value, headers, key_bytes and value_bytes. key and value
    are text, and null where the bytes are not UTF-8. A typed topic also has data, key_data and data_error. Quote names with dots
    or dashes. 'show tables' lists the topics. Nothing else is read over the network.

    \b
    Examples:
      tidelog sql                                            # a shell: .help
      tidelog sql 'select count(*), max(timestamp) from orders'
      tidelog sql 'select data.id, sum(data.amount) from sales group by 1'
      tidelog sql "select try_cast(value as json)->>'amount' as amount, count(*) from orders group by 1" --from 1h
      tidelog sql 'select "key", count(*) as records from orders group by 1 order by 2 desc limit 10' --json
      tidelog sql -f report.sql --format csv > report.csv
    """
    with reporting(as_json=as_json):
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise CommandFailed(f"SQL needs {', '.join(missing)}: pip install 'tidelog[sql]'")
        if query is not None and file is not None:
            raise ValueError("Statements and --file can't be given together.")
        chosen = AnswerFormat.JSON if as_json else format_
        begin = parse_position(from_ or "earliest")
        end = None if until is None else parse_position(until, "--until")
        settings: dict[str, Any] = {"bootstrap_servers": url, "token_file": token_file}
        with (
            memory_database(memory) as database,
            Admin(url, token_file=token_file, timeout_ms=timeout * 1000) as admin,
        ):
            topics = TopicDatabase(database, admin, settings, begin, end, shown=chosen is not AnswerFormat.JSON)
            if query is None and file is None and sys.stdin.isatty():
                note("Tables are topics. Statements end with a semicolon; .help explains the rest.")
                shell = Shell(topics, format_=chosen)
                with line_editing(shell.completion()) as lines:
                    shell.run(lines.read, lines.end)
                return
            text = query if query is not None else sys.stdin.read() if file is None else file.read_text()
            Shell(topics, format_=chosen).run_script(text)
