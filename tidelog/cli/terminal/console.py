"""Output of commands: results go to standard output, everything else for the user to standard error.

Progress is shown on a terminal only. With ``--json``, results are one JSON value, and errors one JSON object per line.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from log_format.errors import TidelogError
from tidelog.cli.terminal.durations import in_seconds
from tidelog.cli.terminal.error_words import about_tls, places, sentence
from tidelog.cli.terminal.exit_code import ExitCode, exit_code_for
from tidelog.cli.terminal.names import similar_name
from tidelog.cli.terminal.table_format import chosen_format, is_for_people
from tidelog.cli.terminal.visible import visible_text
from tidelog.errors import GatewayError

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="TIDELOG_URL",
        help="A gateway's address, or several separated by commas. Default: http://127.0.0.1:8080.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with your token. Default: the file that TIDELOG_TOKEN_FILE names, else the token in TIDELOG_TOKEN.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        parser=in_seconds(least=0.1),
        envvar="TIDELOG_TIMEOUT",
        help="How long to retry while no gateway can be reached, or it asks to come back later. Also 500ms, 3s, 1h.",
    ),
]
ADMIN_TIMEOUT_S = 10.0
"""Timeout of administrative commands: short, since the user waits for the answer."""
STREAM_TIMEOUT_S = 30.0
"""Timeout of commands that stream records: long enough for a gateway's restart."""

_WIDTH_OF_NO_TERMINAL: Final = 1 << 20
"""Columns of a pipe or a file: a row stays in its line, for ``grep``."""

JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]


class CommandFailed(Exception):
    """A failure on this side: of the input, the store, or the installation."""


@contextlib.contextmanager
def reading_a_store() -> Iterator[None]:
    """Wrap imports that a store needs. Raises ``CommandFailed`` with installation instructions if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        needed = "pip install 'tidelog[arrow]' (for s3:// too: 'tidelog[arrow,s3]')"
        raise CommandFailed(f"Reading a store needs {error.name}: {needed}") from None


def said_of(error: Exception) -> str:
    """Return an error's words; the system's without their number: ``orders.csv: Permission denied``."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


@contextlib.contextmanager
def reporting(*, as_json: bool, notes_waits: bool = True) -> Iterator[None]:
    """Turn an error of the block into a message on standard error and an exit code.

    ``notes_waits``: tell the user as soon as nothing is left but to wait for a gateway.
    """
    try:
        with _noting_waits() if notes_waits and not as_json else contextlib.nullcontext():
            yield
    except TidelogError as error:
        _report_error(error, as_json)
        raise typer.Exit(exit_code_for(error)) from None
    except ValueError as error:
        _report(str(error), as_json, {"error": {"detail": str(error)}})
        raise typer.Exit(ExitCode.USAGE) from None
    except BrokenPipeError:
        # The output's reader has closed it. Nothing more may be written, not even at the interpreter's exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.OK) from None
    except (CommandFailed, OSError) as error:
        said = said_of(error)
        _report(said, as_json, {"error": {"detail": said}})
        raise typer.Exit(ExitCode.FAILED) from None
    except KeyboardInterrupt:
        _report("Interrupted.", as_json, {"error": {"detail": "interrupted"}})
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@contextlib.contextmanager
def _noting_waits() -> Iterator[None]:
    logger = logging.getLogger("tidelog.transport")
    handler = _Notes()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


class _Notes(logging.Handler):
    """Log handler that shows messages of a client's connections, equal ones once."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message, in the thread that logs it."""
        said = record.getMessage()
        # Each connection names its own remaining time, which makes no difference to the user.
        about = said.partition(" for up to ")[0]
        if about != self._last:
            self._last = about
            note(said)


def print_json(value: object) -> None:
    """Write one JSON value and a line break to standard output."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")


def note_json(value: object) -> None:
    """Write one JSON value and a line break to standard error, for programs that read records from standard output."""
    sys.stderr.write(msgspec.json.encode(value).decode() + "\n")


def output() -> Console:
    """Return the console for results that the user reads: standard error where standard output has tables for a program."""
    console = Console(stderr=not is_for_people(chosen_format()), soft_wrap=True, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_NO_TERMINAL
    return console


def note(message: str) -> None:
    """Write a message for the user that is no result, with foreign text in it escaped."""
    Console(stderr=True, soft_wrap=True, highlight=False).print(visible_text(message), markup=False)


class _Rate(ProgressColumn):
    """Column that shows items per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@contextlib.contextmanager
def progress(what: str, *, shown: bool = True) -> Iterator[Progress]:
    """Show a progress bar with counts and a rate on standard error; nothing if that is no terminal."""
    console = Console(stderr=True)
    with Progress(
        SpinnerColumn(),
        TextColumn(what, markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        _Rate(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
    ) as bar:
        yield bar


def report_usage(said: str, *, as_json: bool) -> None:
    """Write an error of usage to standard error."""
    _report(said, as_json, {"error": {"detail": said}})


def _report_error(error: TidelogError, as_json: bool) -> None:
    problem: dict[str, Any] = {
        "error_code": str(error.code),
        "detail": error.detail,
        "status": error.status,
        "retryable": error.retryable,
        "may_have_happened": error.may_have_happened,
        **error.fields,
    }
    meant = None if as_json else similar_name(error)
    said = sentence(error) if meant is None else f"{sentence(error)} Did you mean {meant!r}?"
    lines = [f"{said} [{error.fields.get('error_code', error.code)}]", *(f"  {each}" for each in places(error))]
    if isinstance(error, GatewayError) and error.request_id is not None:
        problem["request_id"] = error.request_id
        lines.append(f"  request id: {error.request_id}")
    if error.may_have_happened:
        lines.append("  The change may have been made nevertheless: check before you repeat the command.")
    if exit_code_for(error) is ExitCode.UNREACHABLE and not about_tls(error):
        lines.append("  Is a gateway running there? 'tidelog serve --store DIRECTORY' starts one; --url names another.")
    _report("\n".join(lines), as_json, {"error": problem})


def _report(text: str, as_json: bool, value: dict[str, Any]) -> None:
    if as_json:
        sys.stderr.write(msgspec.json.encode(value, enc_hook=str).decode() + "\n")
    else:
        Console(stderr=True, soft_wrap=True, highlight=False).print(visible_text(text), style="red", markup=False)
