"""Tables for a user, and what their cells say."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.table import Table


def table(*columns: str, numbers: Iterable[str] = ()) -> Table:
    """An empty table without lines; ``numbers`` are the last columns, aligned to the right."""
    made = Table(*columns, box=None, pad_edge=False)
    for heading in numbers:
        made.add_column(heading, justify="right")
    return made


def time_text(ms: int) -> str:
    """A time (Unix, milliseconds) in ISO 8601, to the second."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")


def counted(number: int, what: str) -> str:
    """The number with its noun, which gets an s unless it is one."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """Text that Rich takes for no markup."""
    return text.replace("[", r"\[")
