"""Tables for a user, and what their cells say."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.cli.terminal.visible import visible_text


class TextTable(Table):
    """Its cells are text, whoever wrote it: nothing in one is markup, breaks its line, or makes a terminal act."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """As of any table."""
        super().add_row(*(text_cell(each) if isinstance(each, str) else each for each in cells), **more)


def text_cell(text: str) -> Text:
    """A cell, or a heading."""
    return Text(visible_text(text, kept=""))


def table(*columns: str, numbers: Iterable[str] = ()) -> TextTable:
    """An empty table without lines; ``numbers`` are the last columns, aligned to the right."""
    made = TextTable(*columns, box=None, pad_edge=False)
    for heading in numbers:
        made.add_column(heading, justify="right")
    return made


def time_text(ms: int) -> str:
    """A time (Unix, milliseconds) in ISO 8601, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def counted(number: int, what: str) -> str:
    """The number with its noun, which gets an s unless it is one."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
