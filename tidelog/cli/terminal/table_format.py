"""The format of tables, chosen once for the command that runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from typing import Annotated, Final

import typer


class TableFormat(StrEnum):
    """Format of a table on standard output."""

    TABLE = "table"
    VERTICAL = "vertical"
    """A line for each column, and an empty one after each row."""
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    """The command's whole answer as one JSON value: the same as ``--json``."""
    NDJSON = "ndjson"
    """A JSON object for each row."""
    PARQUET = "parquet"


FormatOption = Annotated[
    TableFormat, typer.Option("--format", help="How tables are written; json: the same as --json.")
]

_CHOSEN: Final[ContextVar[TableFormat]] = ContextVar("table format", default=TableFormat.TABLE)


def chosen_format() -> TableFormat:
    """Return the format of the command that runs."""
    return _CHOSEN.get()


def is_for_people(format_: TableFormat) -> bool:
    """Return whether people read the format, so that other lines may stand beside the rows."""
    return format_ in (TableFormat.TABLE, TableFormat.VERTICAL)


@contextmanager
def choosing(format_: TableFormat) -> Iterator[None]:
    """Write the block's tables in this format."""
    token = _CHOSEN.set(format_)
    try:
        yield
    finally:
        _CHOSEN.reset(token)
