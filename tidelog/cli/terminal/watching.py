"""Results that are shown once, or again and again until Ctrl-C."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from tidelog.cli.terminal.console import print_json
from tidelog.cli.terminal.interrupt import Interrupts
from tidelog.cli.terminal.table_format import TableFormat, chosen_format
from tidelog.cli.terminal.table_writers import print_tables
from tidelog.cli.terminal.tables import fitted


class Shown(NamedTuple):
    """A result: for the user, and as JSON."""

    tables: tuple[Table, ...]
    value: object


def is_redrawn(*, as_json: bool) -> bool:
    """Return whether a watched result is redrawn in place: on a terminal, as tables."""
    return Console().is_terminal and not as_json and chosen_format() is TableFormat.TABLE


def show(found: Shown, *, as_json: bool) -> None:
    """Write a result."""
    if as_json:
        print_json(found.value)
    else:
        print_tables(*found.tables)


def watch(look: Callable[[], Shown], every_s: float, *, as_json: bool) -> None:
    """Show a result, and another after each pause, until Ctrl-C: redrawn on a terminal, one after another elsewhere."""
    live = Live(console=Console(), auto_refresh=False) if is_redrawn(as_json=as_json) else None
    with Interrupts().caught(), live or contextlib.nullcontext():
        while True:
            found = look()
            if live is not None:
                live.update(Group(*_parted(found.tables, live.console.width)), refresh=True)
            else:
                show(found, as_json=as_json)
                sys.stdout.flush()
            time.sleep(every_s)


def _parted(tables: Iterable[Table], width: int) -> Iterator[RenderableType]:
    """Yield the tables for a terminal of so many columns, with an empty line between two."""
    for index, each in enumerate(tables):
        if index:
            yield ""
        yield fitted(each, width)
