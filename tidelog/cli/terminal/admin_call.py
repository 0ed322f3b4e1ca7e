"""Common options of administrative commands: the gateway's address, the token, the timeout and the output format.

A command takes them as one parameter: ``call: AdminCall``, or ``call: TableCall`` if it prints tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from rich.table import Table

from tidelog.admin import Admin
from tidelog.cli.terminal.console import (
    ADMIN_TIMEOUT_S,
    JsonOption,
    TimeoutOption,
    TokenFileOption,
    UrlOption,
    note,
    print_json,
    reporting,
)
from tidelog.cli.terminal.options import Options
from tidelog.cli.terminal.table_format import FormatOption, TableFormat, choosing, chosen_format
from tidelog.cli.terminal.table_writers import print_tables

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall(Options):
    """Values of the common options."""

    url: UrlOption = None
    token_file: TokenFileOption = None
    timeout: TimeoutOption = ADMIN_TIMEOUT_S
    as_json: JsonOption = False

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """Open the gateway's client. Errors of the block become a message and an exit code."""
        with reporting(as_json=self.as_json), self.unreported() as admin:
            yield admin

    def unreported(self) -> Admin:
        """Return the gateway's client, for a command that reports errors itself."""
        return Admin(self.url, token_file=self.token_file, timeout_ms=self.timeout * 1000)

    def report(self, answer: object, *said: str) -> None:
        """Report what was done: ``answer`` as JSON, or the sentences for the user."""
        if self.as_json:
            print_json(answer)
            return
        for sentence in said:
            note(sentence)

    def show_list(
        self, named: Mapping[str, Sequence[ItemT]], table: Table, row: Callable[[ItemT], Sequence[str]], *, none: str
    ) -> None:
        """Show a list: under its name as JSON, or as ``table`` with a row per item for the user; ``none`` if it is empty."""
        if self.as_json:
            print_json(named)
            return
        (items,) = named.values()
        if not items:
            note(none)
            if chosen_format() is TableFormat.TABLE:
                return
        for each in items:
            table.add_row(*row(each))
        print_tables(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCall(AdminCall):
    """Values of the common options of a command that prints tables: ``--format`` chooses theirs. ``--format json`` and ``--json``
    are the same."""

    format_: FormatOption = TableFormat.TABLE

    def __post_init__(self) -> None:
        """Make the two options for JSON agree."""
        if self.format_ is TableFormat.JSON:
            object.__setattr__(self, "as_json", True)

    def in_force(self) -> AbstractContextManager[None]:
        """Write the command's tables in the format."""
        return choosing(TableFormat.TABLE if self.as_json else self.format_)
