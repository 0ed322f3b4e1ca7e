"""Answers of DuckDB on standard output, in the format that was asked for."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from log_format.records.sql import to_json_value
from tidelog.cli.sql import duckbox
from tidelog.cli.sql.interruptible import interruptible
from tidelog.cli.terminal.console import note, output, print_json
from tidelog.cli.terminal.tables import TextTable, fitted, text_cell
from tidelog.cli.terminal.visible import visible_text

if TYPE_CHECKING:
    import duckdb

_RowWriter = Callable[[tuple[Any, ...]], object]
ROWS_SHOWN_MAX: Final = 1_000
"""Number of rows in a terminal's table: more rows are for a program."""
_NUMBER: Final = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL\(.*\))$")
_ROWS_AT_ONCE: Final = 1_000


class AnswerFormat(StrEnum):
    """Format of an answer's rows."""

    TABLE = "table"
    DUCKBOX = "duckbox"
    """As DuckDB's own shell draws it."""
    LINE = "line"
    """A line for each column, and an empty one after each row: for wide rows."""
    CSV = "csv"
    MARKDOWN = "markdown"
    JSON = "json"
    """A JSON object a line."""


def write_answer(answer: duckdb.DuckDBPyConnection, format_: AnswerFormat, *, rows_max: int | None = None) -> int:
    """Write the rows; return their number.

    ``rows_max``: how many a table or a box shows, which says that there are more; None: as many as is usual.
    """
    names = [column[0] for column in answer.description or ()]
    if format_ is AnswerFormat.TABLE:
        return _write_table(answer, rows_max or ROWS_SHOWN_MAX)
    if format_ is AnswerFormat.DUCKBOX:
        return _write_box(answer, rows_max or duckbox.ROWS_SHOWN_MAX)
    write = _WRITERS[format_](names)
    count = 0
    while found := _next_rows(answer, _ROWS_AT_ONCE):
        for row in found:
            write(row)
        count += len(found)
    return count


def _next_rows(answer: duckdb.DuckDBPyConnection, count: int) -> list[Any]:
    return interruptible(answer, lambda: answer.fetchmany(count))


def _write_table(answer: duckdb.DuckDBPyConnection, rows_max: int) -> int:
    table = TextTable(box=None, pad_edge=False)
    for name, type_, *_ in answer.description or ():
        is_number = _NUMBER.match(str(type_)) is not None
        table.add_column(text_cell(name), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    found = _next_rows(answer, rows_max + 1)
    for row in found[:rows_max]:
        table.add_row(*(Text(_shown(value)) for value in row))
    console = output()
    console.print(fitted(table, console.width))
    if len(found) > rows_max:
        note(f"There are more than {rows_max:,} rows: .maxrows shows more, --json or --format csv writes all of them.")
    return len(found[:rows_max])


def _write_box(answer: duckdb.DuckDBPyConnection, rows_max: int) -> int:
    columns = [
        duckbox.BoxColumn(
            name=visible_text(name, kept=""), type=str(type_), is_number=_NUMBER.match(str(type_)) is not None
        )
        for name, type_, *_ in answer.description or ()
    ]
    box = duckbox.Box(columns, rows_max=rows_max)
    while found := _next_rows(answer, _ROWS_AT_ONCE):
        for row in found:
            box.add(["NULL" if value is None else visible_text(str(to_json_value(value)), kept="") for value in row])
    console = output()
    for line in box.lines(console.width if console.is_terminal else None):
        sys.stdout.write(line + "\n")
    return box.row_count


def _json_writer(names: list[str]) -> _RowWriter:
    return lambda row: print_json({name: to_json_value(value) for name, value in zip(names, row, strict=True)})


def _line_writer(names: list[str]) -> _RowWriter:
    shown = [visible_text(name, kept="") for name in names]
    width = max(map(len, shown), default=0)
    return lambda row: sys.stdout.write(
        "".join(f"{name:>{width}} = {_shown(value)}\n" for name, value in zip(shown, row, strict=True)) + "\n"
    )


def _csv_writer(names: list[str]) -> _RowWriter:
    """Write RFC 4180, but with line feeds; null is an empty field."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    return lambda row: writer.writerow("" if value is None else to_json_value(value) for value in row)


def _markdown_writer(names: list[str]) -> _RowWriter:
    def write(cells: Iterable[str]) -> None:
        escaped = (cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells)
        sys.stdout.write(f"| {' | '.join(escaped)} |\n")

    write(names)
    write("---" for _ in names)
    return lambda row: write(map(_shown, row))


_WRITERS: Final[dict[AnswerFormat, Callable[[list[str]], _RowWriter]]] = {
    AnswerFormat.JSON: _json_writer,
    AnswerFormat.LINE: _line_writer,
    AnswerFormat.CSV: _csv_writer,
    AnswerFormat.MARKDOWN: _markdown_writer,
}


def _shown(value: Any) -> str:
    return "" if value is None else visible_text(str(to_json_value(value)))
