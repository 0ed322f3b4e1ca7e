"""Tables on standard output, in the format that the command was asked for.

A format for programs has values instead of texts: numbers without separators, and null for an empty or missing number. Facts that
stand above a command's tables are left out then, and a verdict below them goes to standard error (``console.output``).
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable
from typing import Any, Final

import msgspec
from rich.table import Table
from rich.text import Text

from tidelog.cli.terminal.console import output, reading_a_store
from tidelog.cli.terminal.table_format import TableFormat, chosen_format, is_for_people
from tidelog.cli.terminal.tables import fitted
from tidelog.cli.terminal.visible import visible_text

_NUMBER: Final = re.compile(r"-?([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?")
_Rows = list[list[Any]]


def print_tables(*tables: Table) -> None:
    """Write a command's tables, with an empty line between two. Raises ``ValueError`` if the format can't have them."""
    format_ = chosen_format()
    if format_ is TableFormat.PARQUET:
        _write_parquet(tables)
        return
    for index, each in enumerate(tables):
        if index and format_ is not TableFormat.NDJSON:
            sys.stdout.write("\n")
        if format_ is TableFormat.TABLE:
            console = output()
            console.print(fitted(each, console.width))
        else:
            names, rows = _values(each)
            sys.stdout.write(_text(format_, names, rows))


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write what a command says above its tables, name by name; nothing in a format for programs, where ``--json`` has it."""
    if is_for_people(chosen_format()):
        listed = list(facts)
        width = max(len(name) for name, _ in listed)
        console = output()
        for name, text in listed:
            console.print(Text(f"{name:{width}}  {visible_text(text, kept='')}"))
        console.print()


def _text(format_: TableFormat, names: list[str], rows: _Rows) -> str:
    if format_ is TableFormat.VERTICAL:
        width = max(map(len, names), default=0)
        blocks = (
            "".join(f"{name:>{width}} = {_shown(value)}\n" for name, value in zip(names, row, strict=True))
            for row in rows
        )
        return "\n".join(blocks)
    if format_ is TableFormat.NDJSON:
        objects = (dict(zip(names, row, strict=True)) for row in rows)
        return "".join(msgspec.json.encode(each).decode() + "\n" for each in objects)
    written = io.StringIO()
    writer = csv.writer(written, delimiter="\t" if format_ is TableFormat.TSV else ",", lineterminator="\n")
    writer.writerows([names, *([_shown(value) for value in row] for row in rows)])
    return written.getvalue()


def _write_parquet(tables: tuple[Table, ...]) -> None:
    if len(tables) != 1:
        raise ValueError("This command writes several tables, and a Parquet file has one: choose another --format.")
    if sys.stdout.isatty():
        raise ValueError("Parquet is no text: send standard output to a file.")
    with reading_a_store():
        import pyarrow as pa  # noqa: PLC0415 - only this format needs it
        import pyarrow.parquet as pq  # noqa: PLC0415
    names, rows = _values(tables[0])
    columns = [_of_one_type([row[index] for row in rows]) for index in range(len(names))]
    written = io.BytesIO()
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), written)
    sys.stdout.buffer.write(written.getvalue())
    sys.stdout.buffer.flush()


def _of_one_type(values: list[Any]) -> list[Any]:
    """Return the values; as texts if one of them is a text."""
    if not any(isinstance(value, str) for value in values):
        return values
    return [None if value is None else str(value) for value in values]


def _values(table: Table) -> tuple[list[str], _Rows]:
    """Return the headings and the rows' values: numbers of columns that are aligned to the right, else texts."""
    names = [_plain(each.header) or f"column {index}" for index, each in enumerate(table.columns, 1)]
    columns = [[_value(_plain(cell), each.justify == "right") for cell in each.cells] for each in table.columns]
    return names, [list(row) for row in zip(*columns, strict=True)]


def _value(text: str, is_number: bool) -> Any:
    if not is_number:
        return text
    if text in {"", "-"}:
        return None
    if not _NUMBER.fullmatch(text):
        return text
    digits = text.replace(",", "")
    return float(digits) if "." in digits else int(digits)


def _plain(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
