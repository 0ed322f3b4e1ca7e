"""The shell of ``tidelog sql``: statements and commands that begin with a dot, as they are typed, with history and completion, or
from a script.

Source: the dot commands of DuckDB's own shell (duckdb.org, "CLI client", "Dot commands"). A script ends at its first error.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

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
READS_MAX: Final = 16
"""Number of files that may read each other."""
_HELP: Final = """\
A statement ends with a semicolon and may have several lines. Its tables are topics; each is read when it is first named, and
later statements read only what came since. Tables and views that you create last as long as the shell.

  show tables;            the topics
  describe TOPIC;         its columns (also .schema TOPIC)
  .mode FORMAT            how answers are written: table, duckbox, line, csv, markdown, json
  .maxrows N              rows that table (1,000) and duckbox (40) show
  .output [FILE]          write all answers into a file, or to standard output again
  .once FILE              write the next answer into a file
  .timer on|off           the time of each statement
  .read FILE              run a file's statements and commands
  .refresh [TOPIC]        forget what was read of a topic, or of all, and read it again
  .help, .quit            Ctrl-C ends a statement, Ctrl-D the shell"""

_NEAR: Final = re.compile('syntax error at or near "([^"]+)"')
_ADVICE: Final = {
    "offset": 'offset is a word of SQL: the column is "offset", in double quotes.',
    "-": 'A name with a dash stands in double quotes: from "my-topic".',
}
"""Advice about a place at which DuckDB finds an error that topics invite."""


class Shell:
    """Runs statements and commands, of a user (``run``) or of a script (``run_script``). ``read_line`` returns a line for a
    prompt, and raises ``EOFError`` at the end."""

    def __init__(
        self,
        topics: TopicDatabase,
        read_line: Callable[[str], str] = input,
        *,
        format_: AnswerFormat = AnswerFormat.TABLE,
    ) -> None:
        self._topics = topics
        self._read_line = read_line
        self._format = format_
        self._rows_max: int | None = None
        self._shows_time = False
        self._text = ""
        """Lines of the statement that has not ended yet."""
        self._is_over = False
        self._reads = 0
        """Number of files that read each other at the moment."""
        self._output: TextIO | None = None
        """File of all answers; None: standard output."""
        self._once: TextIO | None = None
        """File of the next answer."""
        self._commands: dict[str, Callable[[str], None]] = {
            ".help": lambda _: note(_HELP),
            ".tables": lambda _: self._run("show tables"),
            ".schema": lambda topic: self._run(f"describe {_quoted(topic)}"),
            ".mode": self._set_mode,
            ".maxrows": self._set_rows_max,
            ".output": self._set_output,
            ".once": self._set_once,
            ".timer": self._set_timer,
            ".read": self._read_file,
            ".refresh": lambda topic: self._topics.forget(topic or None),
            ".quit": lambda _: self._end(),
            ".exit": lambda _: self._end(),
        }

    def run(self) -> None:
        """Serve the user until ``.quit`` or the end of the input. Errors of statements are shown; raises nothing of theirs."""
        self._shows_time = True
        with self._closing():
            while not self._is_over:
                try:
                    line = self._read_line(CONTINUED if self._text else PROMPT)
                except KeyboardInterrupt:
                    self._text = ""
                    note("")
                    continue
                except EOFError:
                    note("")
                    return
                self._take_and_show(line)

    def run_script(self, text: str) -> None:
        """Run the statements and commands of a text; the last statement needs no semicolon. Raises the first error: see
        ``run_all``; ``OSError`` of a file."""
        with self._closing():
            self._run_lines(text)
            self._run_rest()

    def complete(self, typed: str) -> list[str]:
        """Return the topics, columns and commands that begin with ``typed``."""
        words = self._commands if typed.startswith(".") else [*self._topics.names(), *self._topics.columns()]
        return sorted({word for word in words if word.lower().startswith(typed.lower())})

    def _take_and_show(self, line: str) -> None:
        """Take a line, and show what fails."""
        try:
            self._take(line)
        except TidelogError as error:
            note(sentence(error))
        except (ValueError, OSError) as error:
            note(said_of(error))
        except KeyboardInterrupt:
            note("Interrupted.")

    def _run_lines(self, text: str) -> None:
        for line in text.splitlines():
            if self._is_over:
                return
            self._take(line)

    def _run_rest(self) -> None:
        """Run what has no semicolon at its end."""
        text, self._text = self._text, ""
        if text.strip() and not self._is_over:
            self._run(text)

    def _take(self, line: str) -> None:
        """Run the command, or the statement that the line ends."""
        if not self._text and line.lstrip().startswith("."):
            self._command(line.strip())
            return
        text = f"{self._text}\n{line}" if self._text else line
        # Reading the text again with each line of a long statement would take time by its square.
        may_end = not self._text or ";" in line or "*/" in line
        self._text = text if text.strip() else ""
        if self._text and may_end and is_complete(text):
            self._text = ""
            self._run(text)

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
        answer = self._topics.execute(statement)
        file, once, self._once = self._once or self._output, self._once, None
        with once or nullcontext(), redirect_stdout(file) if file else nullcontext():
            count = write_answer(answer, self._format, rows_max=self._rows_max)
        if self._shows_time:
            note(f"{counted(count, 'row')} in {time.perf_counter() - began_s:.3f} s")

    def _set_mode(self, name: str) -> None:
        known = [each.value for each in AnswerFormat]
        if name not in known:
            raise ValueError(f".mode is one of {', '.join(known)}.")
        self._format = AnswerFormat(name)

    def _set_rows_max(self, number: str) -> None:
        if not number.isdecimal() or not int(number):
            raise ValueError(".maxrows takes a number of rows, at least 1.")
        self._rows_max = int(number)

    def _set_output(self, name: str) -> None:
        before, self._output = self._output, _opened(name) if name else None
        if before is not None:
            before.close()

    def _set_once(self, name: str) -> None:
        if not name:
            raise ValueError(".once takes the name of a file.")
        before, self._once = self._once, _opened(name)
        if before is not None:
            before.close()

    def _set_timer(self, word: str) -> None:
        if word not in ("on", "off"):
            raise ValueError(".timer is on or off.")
        self._shows_time = word == "on"

    def _read_file(self, name: str) -> None:
        if self._reads >= READS_MAX:
            raise ValueError(f".read is {READS_MAX} files deep: does a file read itself?")
        self._reads += 1
        try:
            self._run_lines(_path(name).read_text())
            self._run_rest()
        finally:
            self._reads -= 1

    def _end(self) -> None:
        self._is_over = True

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """Close the files of answers in the end."""
        try:
            yield
        finally:
            for file in (self._output, self._once):
                if file is not None:
                    file.close()
            self._output = self._once = None


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


def _path(name: str) -> Path:
    """Return the file that a command names, perhaps in quotes."""
    is_quoted = len(name) > 1 and name[0] == name[-1] and name[0] in "'\""
    return Path(name[1:-1] if is_quoted else name).expanduser()


def _opened(name: str) -> TextIO:
    return _path(name).open("w", encoding="utf-8")
