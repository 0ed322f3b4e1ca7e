"""Tables for the user, and the text in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.cli.terminal.visible import visible_text

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

    In a narrow terminal text goes on in the next line instead of being cut; a column ``id`` stays in one, to be copied.
    """
    made = TextTable(box=None, pad_edge=False)
    for heading in columns:
        made.add_column(heading, overflow="fold", no_wrap=heading == "id")
    for heading in numbers:
        made.add_column(heading, justify="right", overflow="fold")
    return made


def time_text(ms: int, timespec: Literal["seconds", "milliseconds"] = "seconds") -> str:
    """Return a time (milliseconds since the epoch) in ISO 8601, in UTC: ``2026-01-31T08:00:00Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def counted(number: int, what: str) -> str:
    """Return the number with its noun, which gets an s unless the number is one."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shortened(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
