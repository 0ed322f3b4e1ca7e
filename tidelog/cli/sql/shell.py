"""The shell of ``tidelog sql``: statements and commands that begin with a dot, as they are typed or from a script.

Source: the dot commands of DuckDB's own shell (duckdb.org, "CLI client", "Dot commands"). A script ends at its first error.
Absent is what concerns a database in a file, DuckDB's own drawing and colours, and other programs (``absent_commands``).
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from log_format.errors import TidelogError
from log_format.records.sql import quote_identifier
from log_format.words import counted
from tidelog.cli.sql.absent_commands import instead_of
from tidelog.cli.sql.answers import AnswerFormat, write_answer
from tidelog.cli.sql.completion import Completion, Offered, files
from tidelog.cli.terminal.console import note, said_of
from tidelog.cli.terminal.error_words import sentence

if TYPE_CHECKING:
    import duckdb

    from tidelog.cli.sql.topic_database import TopicDatabase

PROMPT: Final = "tidelog> "
CONTINUED: Final = "     ..> "
READS_MAX: Final = 16
"""Number of files that may read each other."""
_HELP: Final = """\
A statement ends with a semicolon and may have several lines. Its tables are topics; each is read when it is first named, and
later statements read only what came since. Tables and views that you create last as long as the shell.

  show tables;            the topics (also .tables)
  describe TOPIC;         its columns (also .schema TOPIC)
  .tables [PATTERN]       the topics and tables, or those whose names are like the pattern: .tables shop%
  .schema TOPIC           the columns of a topic or a table
  .mode [FORMAT]          how answers are written: table, duckbox, line, csv, markdown, json (an object a line)
  .maxrows N              rows that table (1,000) and duckbox (40) show
  .output [FILE]          write all answers into a file, or to standard output again
  .once FILE              write the next answer into a file
  .print TEXT             write a text where answers go
  .timer on|off           the time of each statement
  .show                   what these are set to
  .edit                   edit the last statement by $EDITOR, and run it
  .read FILE              run a file's statements and commands
  .refresh [TOPIC]        forget what was read of a topic, or of all, and read it again
  .help [TEXT]            this, or the lines about a text
  .quit                   Ctrl-C ends a statement, Ctrl-D the shell

Tab completes; the arrows go through the history, and Ctrl-R searches it."""

_NEAR: Final = re.compile('syntax error at or near "([^"]+)"')
_ADVICE: Final = {
    "offset": 'offset is a word of SQL: the column is "offset", in double quotes.',
    "-": 'A name with a dash stands in double quotes: from "my-topic".',
}
"""Advice about a place at which DuckDB finds an error that topics invite."""


class Shell:
    """Runs statements and commands, of a user (``run``) or of a script (``run_script``)."""

    def __init__(self, topics: TopicDatabase, *, format_: AnswerFormat = AnswerFormat.TABLE) -> None:
        self._topics = topics
        self._format = format_
        self._rows_max: int | None = None
        self._shows_time = False
        self._text = ""
        """Lines of the statement that has not ended yet."""
        self._last = ""
        """The last statement, for ``.edit``."""
        self._is_over = False
        self._reads = 0
        """Number of files that read each other at the moment."""
        self._output: TextIO | None = None
        """File of all answers; None: standard output."""
        self._once: TextIO | None = None
        """File of the next answer."""
        self._commands: dict[str, Callable[[str], None]] = {
            ".help": self._help,
            ".tables": self._list,
            ".schema": self._describe,
            ".mode": self._set_mode,
            ".maxrows": self._set_rows_max,
            ".output": self._set_output,
            ".once": self._set_once,
            ".print": self._print,
            ".timer": self._set_timer,
            ".show": lambda _: self._show(),
            ".edit": lambda _: self._edit(),
            ".read": self._read_file,
            ".refresh": lambda topic: self._topics.forget(_unquoted(topic) or None),
            ".quit": lambda _: self._end(),
            ".exit": lambda _: self._end(),
        }

    def completion(self) -> Completion:
        """Return the completion of lines that a user types."""
        offered: Mapping[str, Offered] = {
            ".mode": lambda: list(AnswerFormat),
            ".timer": lambda: ("on", "off"),
            ".tables": self._topics.names,
            ".schema": self._topics.names,
            ".refresh": self._topics.names,
        }
        by_file = dict.fromkeys((".output", ".once", ".read"), files)
        return Completion(self._topics, {name: offered.get(name) for name in self._commands}, by_file)

    def run(self, read_line: Callable[[str], str] = input, end_entry: Callable[[str], None] = lambda _: None) -> None:
        """Serve the user until ``.quit`` or the end of the input. Errors of statements are shown; raises nothing of theirs.

        ``read_line`` returns a line for a prompt, and raises ``EOFError`` at the end. ``end_entry`` is called with the lines of
        each statement or command that has ended; with an empty text if it was dropped.
        """
        self._shows_time = True
        with self._closing():
            while not self._is_over:
                try:
                    line = read_line(CONTINUED if self._text else PROMPT)
                except KeyboardInterrupt:
                    self._text = ""
                    end_entry("")
                    note("")
                    continue
                except EOFError:
                    note("")
                    return
                lines = f"{self._text}\n{line}" if self._text else line
                self._take_and_show(line)
                if not self._text:
                    end_entry(lines)

    def run_script(self, text: str) -> None:
        """Run the statements and commands of a text; the last statement needs no semicolon. Raises the first error: see
        ``run_all``; ``OSError`` of a file."""
        with self._closing():
            self._run_lines(text)
            self._run_rest()

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
            near = difflib.get_close_matches(name, self._commands, 1)
            advice = instead_of(name) or (f"Did you mean {near[0]}?" if near else ".help lists them.")
            raise ValueError(f"There is no command {name}. {advice}")
        command(argument.strip().rstrip(";"))

    def _run(self, text: str) -> None:
        self._last = text
        run_all(self._topics, text, self._write_statement)

    def _write_statement(self, statement: str) -> None:
        self._write(lambda: self._topics.execute(statement))

    def _write(self, ask: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        began_s = time.perf_counter()
        answer = ask()
        with self._answers():
            count = write_answer(answer, self._format, rows_max=self._rows_max)
        if self._shows_time:
            note(f"{counted(count, 'row')} in {time.perf_counter() - began_s:.3f} s")

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """Let standard output be where the next answer goes."""
        file, once, self._once = self._once or self._output, self._once, None
        with once or nullcontext(), redirect_stdout(file) if file else nullcontext():
            yield

    def _help(self, text: str) -> None:
        found = [line for line in _HELP.splitlines() if text.lower() in line.lower()]
        note("\n".join(found) if found else f"No line of .help has {text!r}.")

    def _list(self, pattern: str) -> None:
        self._write(lambda: self._topics.list_tables(_unquoted(pattern) or "%"))

    def _describe(self, topic: str) -> None:
        if not topic:
            raise ValueError(".schema takes the name of a topic or table: .tables lists them.")
        run_all(self._topics, f"describe {quote_identifier(_unquoted(topic))}", self._write_statement)

    def _print(self, text: str) -> None:
        with self._answers():
            sys.stdout.write(f"{_unquoted(text)}\n")

    def _show(self) -> None:
        settings = {
            "mode": self._format,
            "maxrows": self._rows_max or "as the mode has it",
            "output": self._output.name if self._output else "standard output",
            "timer": "on" if self._shows_time else "off",
        }
        note("\n".join(f"{name:>7}: {value}" for name, value in settings.items()))

    def _edit(self) -> None:
        if not sys.stdin.isatty():
            raise ValueError(".edit needs a terminal.")
        text = edited(self._last)
        if text.strip():
            note(text)
            self._run(text)

    def _set_mode(self, name: str) -> None:
        if not name:
            note(f"Answers are written as {self._format}.")
            return
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
        if not name:
            raise ValueError(".read takes the name of a file.")
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


def edited(text: str) -> str:
    """Return the text as the user's editor leaves it: ``VISUAL``, ``EDITOR``, or vi. Raises ``ValueError`` and ``OSError``."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="tidelog-sql-") as directory:
        file = Path(directory) / "statement.sql"
        file.write_text(f"{text}\n")
        code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode  # noqa: S603 - the user's own
        if code:
            raise ValueError(f"{editor} ended with code {code}: nothing was run.")
        return file.read_text()


def _unquoted(argument: str) -> str:
    """Return a command's argument without the quotes around it."""
    is_quoted = len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\""
    return argument[1:-1] if is_quoted else argument


def _path(name: str) -> Path:
    return Path(_unquoted(name)).expanduser()


def _opened(name: str) -> TextIO:
    return _path(name).open("w", encoding="utf-8")
