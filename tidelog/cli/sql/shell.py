"""The shell of ``tidelog sql``: statements as they are typed, with history, completion and commands that begin with a dot."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from log_format.errors import TidelogError
from log_format.records.sql import quote_identifier
from log_format.words import counted
from tidelog.cli.sql.answers import AnswerFormat, write_answer
from tidelog.cli.terminal.console import note, said_of
from tidelog.cli.terminal.error_words import sentence

if TYPE_CHECKING:
    from tidelog.cli.sql.topic_database import TopicDatabase

PROMPT: Final = "tidelog> "
CONTINUED: Final = "     ..> "
HISTORY_LINES: Final = 10_000
_HELP: Final = """\
A statement ends with a semicolon and may have several lines. Its tables are topics; each is read when it is first named, and
later statements read only what came since. Tables and views that you create last as long as the shell.

  show tables;            the topics
  describe TOPIC;         its columns (also .schema TOPIC)
  .mode FORMAT            how answers are written: table, line, csv, markdown, json
  .timer on|off           the time of each statement
  .read FILE              run a file's statements
  .refresh [TOPIC]        forget what was read of a topic, or of all, and read it again
  .help, .quit            Ctrl-C ends a statement, Ctrl-D the shell"""

_NEAR: Final = re.compile('syntax error at or near "([^"]+)"')
_ADVICE: Final = {
    "offset": 'offset is a word of SQL: the column is "offset", in double quotes.',
    "-": 'A name with a dash stands in double quotes: from "my-topic".',
    ".": "Commands that begin with a dot are for the shell, which 'tidelog sql' without a query is.",
}
"""Advice about a place at which DuckDB finds an error that topics invite."""


class Shell:
    """Reads lines by ``read_line`` until it raises ``EOFError``, and runs the statements in them."""

    def __init__(
        self, topics: TopicDatabase, read_line: Callable[[str], str], *, format_: AnswerFormat = AnswerFormat.TABLE
    ) -> None:
        self._topics = topics
        self._read_line = read_line
        self._format = format_
        self._shows_time = True
        self._commands: dict[str, Callable[[str], None]] = {
            ".help": lambda _: note(_HELP),
            ".tables": lambda _: self._run("show tables"),
            ".schema": lambda topic: self._run(f"describe {_quoted(topic)}"),
            ".mode": self._set_mode,
            ".timer": self._set_timer,
            ".read": self._read_file,
            ".refresh": lambda topic: self._topics.forget(topic or None),
        }

    def run(self) -> None:
        """Serve the user until ``.quit`` or the end of the input. Errors of statements are shown; raises nothing of theirs."""
        text = ""
        while True:
            try:
                line = self._read_line(CONTINUED if text else PROMPT)
            except KeyboardInterrupt:
                text = ""
                note("")
                continue
            except EOFError:
                note("")
                return
            if not text and line.lstrip().startswith("."):
                if line.strip() in (".quit", ".exit"):
                    return
                self._shown(self._command, line.strip())
                continue
            text = f"{text}\n{line}" if text else line
            if not text.strip():
                text = ""
            elif is_complete(text):
                self._shown(self._run, text)
                text = ""

    def complete(self, typed: str) -> list[str]:
        """Return the topics, columns and commands that begin with ``typed``."""
        words = (
            [*self._commands, ".quit"] if typed.startswith(".") else [*self._topics.names(), *self._topics.columns()]
        )
        return sorted({word for word in words if word.lower().startswith(typed.lower())})

    def _shown(self, act: Callable[[str], None], text: str) -> None:
        """Act, and show what fails."""
        try:
            act(text)
        except TidelogError as error:
            note(sentence(error))
        except (ValueError, OSError) as error:
            note(said_of(error))
        except KeyboardInterrupt:
            note("Interrupted.")

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise ValueError(f"There is no command {name}: .help lists them.")
        command(argument.strip().rstrip(";"))

    def _run(self, text: str) -> None:
        run_all(self._topics, text, self._write)

    def _write(self, statement: str) -> None:
        began_s = time.perf_counter()
        count = write_answer(self._topics.execute(statement), self._format)
        if self._shows_time:
            note(f"{counted(count, 'row')} in {time.perf_counter() - began_s:.3f} s")

    def _set_mode(self, name: str) -> None:
        known = [each.value for each in AnswerFormat]
        if name not in known:
            raise ValueError(f".mode is one of {', '.join(known)}.")
        self._format = AnswerFormat(name)

    def _set_timer(self, word: str) -> None:
        if word not in ("on", "off"):
            raise ValueError(".timer is on or off.")
        self._shows_time = word == "on"

    def _read_file(self, path: str) -> None:
        self._run(Path(path).expanduser().read_text())


def run_all(topics: TopicDatabase, text: str, run: Callable[[str], object]) -> None:
    """Call ``run`` with each statement of the text. Raises ``ValueError`` with DuckDB's words, and ``KeyboardInterrupt``."""
    import duckdb  # noqa: PLC0415 - optional

    try:
        for statement in topics.statements(text):
            run(statement)
    except duckdb.Error as error:
        near = _NEAR.search(str(error))
        advice = _ADVICE.get(near[1]) if near else None
        raise ValueError(f"{error}\n\n{advice}" if advice else str(error)) from error


def is_complete(text: str) -> bool:
    """Return whether the text ends with a semicolon that is neither in quotes nor in a comment."""
    import duckdb  # noqa: PLC0415 - optional

    code = [(at, kind) for at, kind in duckdb.tokenize(text) if kind is not duckdb.token_type.comment]
    if not code:
        return not text.lstrip().startswith("/*") or "*/" in text
    at, kind = code[-1]
    encoded = text.encode()[at:]
    return kind is duckdb.token_type.operator and encoded.startswith(b";")


@contextlib.contextmanager
def line_editing(complete: Callable[[str], list[str]]) -> Iterator[None]:
    """Give ``input`` history, kept from one shell to the next, and completion by Tab; nothing where there is no readline."""
    try:
        import readline  # noqa: PLC0415 - absent on Windows
    except ImportError:
        yield
        return
    found: list[str] = []

    def completer(typed: str, number: int) -> str | None:
        if number == 0:
            with contextlib.suppress(Exception):  # a gateway that is away must not break the line
                found[:] = complete(typed)
        return found[number] if number < len(found) else None

    history = history_file()
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LINES)
    readline.set_completer(completer)
    readline.set_completer_delims(" \t\n,()=<>+-*/;'")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            history.touch(mode=0o600)
            readline.write_history_file(history)


def history_file() -> Path:
    """Return where the lines of earlier shells are, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "tidelog" / "sql_history"


def _quoted(name: str) -> str:
    return quote_identifier(name.strip('"'))
