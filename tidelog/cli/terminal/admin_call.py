"""Common options of administrative commands: the gateway's address, the token, the timeout and the output format.

A command takes them as one parameter: ``call: AdminCall``, or ``call: TableCall`` if it prints tables. ``with_options`` replaces
it by the options for Typer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
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
from tidelog.cli.terminal.table_format import FormatOption, TableFormat, choosing, chosen_format
from tidelog.cli.terminal.table_writers import print_tables

ItemT = TypeVar("ItemT")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall:
    """Values of the common options."""

    url: str | None
    token_file: Path | None
    timeout: float
    as_json: bool

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
    """Values of the common options of a command that prints tables: ``--format`` chooses theirs."""


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return the command with the signature for Typer; unchanged if it has no ``AdminCall``."""
    signature = inspect.signature(command, eval_str=True)
    given = list(signature.parameters.values())
    name = next((each.name for each in given if each.annotation in {AdminCall, TableCall}), None)
    if name is None:
        return command
    with_tables = signature.parameters[name].annotation is TableCall
    options = inspect.signature(_table_options if with_tables else _options, eval_str=True).parameters

    @functools.wraps(command)
    def asked(**arguments: Any) -> Any:
        common = {option: arguments.pop(option) for option in options}
        format_ = common.pop("format_", TableFormat.TABLE)
        if format_ is TableFormat.JSON:
            common["as_json"] = True
        with choosing(TableFormat.TABLE if common["as_json"] else format_):
            return command(**arguments, **{name: (TableCall if with_tables else AdminCall)(**common)})

    shown = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in given if each.name != name]
    asked.__signature__ = signature.replace(parameters=[*shown, *options.values()])  # type: ignore[attr-defined]
    return asked


def _options(
    *,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Declare the common options, which follow the command's own in its help."""


def _table_options(
    *,
    format_: FormatOption = TableFormat.TABLE,
    url: UrlOption = None,
    token_file: TokenFileOption = None,
    timeout: TimeoutOption = ADMIN_TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Declare the common options of a command that prints tables."""
