"""Tables for the user, and the text in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich.cells import cell_len
from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from tidelog.cli.terminal.visible import visible_text

TEXT_WIDTH_MIN: Final = 16
"""Columns of a terminal below which folded text can't be read."""
_NAMES_SHOWN: Final = 5


class TextTable(Table):
    """Table whose cells are plain text: foreign text in a cell is neither markup, nor a line break, nor a terminal sequence."""

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row, as in any table."""
        super().add_row(*(text_cell(each) if isinstance(each, str) else each for each in cells), **more)


def text_cell(text: str) -> Text:
    """Return a cell or heading with this text."""
    return Text(visible_text(text, kept=""))


def table(*columns: str, numbers: Iterable[str] = ()) -> TextTable:
    """Return an empty table without lines; ``numbers`` are the last columns, aligned to the right.

    In a narrow terminal text goes on in the next line instead of being cut; a number, and a column ``id``, which is to be copied,
    stay in one (``fitted``).
    """
    made = TextTable(box=None, pad_edge=False)
    for heading in columns:
        made.add_column(heading, overflow="fold", no_wrap=heading == "id")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def fitted(shown: Table, width: int) -> RenderableType:
    """Return the table for a terminal of so many columns; where that is too narrow for it, a block of lines for each row.

    A table fits if each column has room for its numbers and ids, and for ``TEXT_WIDTH_MIN`` of its text.
    """
    needed = sum(map(_width_needed, shown.columns)) + max(0, len(shown.columns) - 1)
    if needed <= width or not shown.row_count:
        return shown
    headings = [str(each.header) for each in shown.columns]
    name_width = max(map(cell_len, headings))
    rows = zip(*(map(str, each.cells) for each in shown.columns), strict=True)
    blocks = (
        "\n".join(f"{heading:>{name_width}} = {cell}" for heading, cell in zip(headings, row, strict=True))
        for row in rows
    )
    return Text("\n\n".join(blocks))


def _width_needed(column: Column) -> int:
    heading, cells = str(column.header), [str(each) for each in column.cells]
    longest = max(map(cell_len, [heading, *cells]))
    return longest if column.no_wrap else min(longest, max(TEXT_WIDTH_MIN, cell_len(heading)))


def time_text(ms: int, timespec: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Return a time (milliseconds since the epoch) in ISO 8601, in UTC: ``2026-01-31T08:00:00Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def shortened(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
