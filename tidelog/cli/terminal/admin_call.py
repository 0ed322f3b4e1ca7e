"""The options of every command that asks a gateway one thing: its address, the token, how long to try, the answer's form.

A command takes them as one parameter, ``call: AdminCall``; ``with_options`` gives Typer the four options in its place.
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
    output,
    print_json,
    reporting,
)

ItemT = TypeVar("ItemT")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask, on a terminal.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminCall:
    """What the caller gave as these options."""

    url: str | None
    token_file: Path | None
    timeout: float
    as_json: bool

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        """The gateway. Errors of the block become a message and an exit code."""
        with reporting(as_json=self.as_json), self.unreported() as admin:
            yield admin

    def unreported(self) -> Admin:
        """The gateway, for a command that reports errors of more than its calls."""
        return Admin(self.url, token_file=self.token_file, timeout_ms=self.timeout * 1000)

    def tell(self, answer: object, *said: str) -> None:
        """What was done: ``answer`` for a program, or these sentences for the user."""
        if self.as_json:
            print_json(answer)
            return
        for sentence in said:
            note(sentence)

    def show_list(
        self, named: Mapping[str, Sequence[ItemT]], table: Table, row: Callable[[ItemT], Sequence[str]], *, none: str
    ) -> None:
        """A list under its name for a program; for the user ``table`` with a row for each, or ``none`` where there are none."""
        if self.as_json:
            print_json(named)
            return
        (items,) = named.values()
        if not items:
            note(none)
            return
        for each in items:
            table.add_row(*row(each))
        output().print(table)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command as Typer is to see it; the same one where it has no ``AdminCall``."""
    signature = inspect.signature(command, eval_str=True)
    given = list(signature.parameters.values())
    name = next((each.name for each in given if each.annotation is AdminCall), None)
    if name is None:
        return command
    options = inspect.signature(_options, eval_str=True).parameters

    @functools.wraps(command)
    def asked(**arguments: Any) -> Any:
        call = AdminCall(**{option: arguments.pop(option) for option in options})
        return command(**arguments, **{name: call})

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
    """Behind the command's own, as in every help."""
