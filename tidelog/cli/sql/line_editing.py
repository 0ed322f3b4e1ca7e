"""Typed lines: editing, history and completion by Python's ``readline``, which is GNU Readline or libedit.

Ctrl-R searches the history, in which a statement of several lines is one entry. Its file has one entry a line, is readable by the
user alone, and grows by what each shell adds, however many run at the same time. Colours while typing are absent: readline has
none.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tidelog.cli.sql.completion import DELIMITERS

HISTORY_LINES: Final = 10_000
"""Number of entries that a shell begins with; the file is cut to them when it has twice as many."""
_BINDINGS: Final = {
    "readline": ("tab: complete", "set completion-ignore-case on"),
    "editline": ("bind ^I rl_complete", "bind ^R em-inc-search-prev"),
}
"""By the library: what its keys do."""


class LineEditor:
    """Reads lines as ``input`` does, and keeps what they are in the history."""

    def __init__(self) -> None:
        self._pending = 0
        """Number of entries that the statement has that has not ended yet."""

    def read(self, prompt: str) -> str:
        """Return the line that the user types. Raises ``EOFError`` and ``KeyboardInterrupt``."""
        line = input(prompt)
        self._pending += _remember(line)
        return line

    def end(self, text: str) -> None:
        """End a statement or command. One of several lines becomes one entry of the history, if it can be one line."""
        pending, self._pending = self._pending, 0
        joined = one_line(text)
        if joined is None or "\n" not in text:
            return
        import readline  # noqa: PLC0415 - absent on Windows

        for _ in range(pending):
            readline.remove_history_item(readline.get_current_history_length() - 1)
        _remember(joined)


class PlainEditor(LineEditor):
    """Reads lines without history, where there is no readline."""

    def read(self, prompt: str) -> str:
        """Return the line that the user types. Raises ``EOFError`` and ``KeyboardInterrupt``."""
        return input(prompt)

    def end(self, text: str) -> None:
        """Do nothing."""


@contextmanager
def line_editing(complete: Callable[[str], list[str]]) -> Iterator[LineEditor]:
    """Return an editor with the history of earlier shells. ``complete`` returns the words for the end of a line: see
    ``Completion``."""
    try:
        import readline  # noqa: PLC0415 - absent on Windows
    except ImportError:
        yield PlainEditor()
        return
    found: list[str] = []

    def completer(_typed: str, number: int) -> str | None:
        if number == 0:
            found.clear()
            with contextlib.suppress(Exception):  # a gateway that is away must not break the line
                found[:] = complete(readline.get_line_buffer()[: readline.get_endidx()])
        return found[number] if number < len(found) else None

    for entry in _entries():
        readline.add_history(entry)
    known = readline.get_current_history_length()
    readline.set_auto_history(False)
    readline.set_completer(completer)
    readline.set_completer_delims(DELIMITERS)
    for binding in _BINDINGS["editline" if "libedit" in (readline.__doc__ or "") else "readline"]:
        readline.parse_and_bind(binding)
    try:
        yield LineEditor()
    finally:
        readline.set_completer(None)
        readline.set_auto_history(True)
        count = readline.get_current_history_length()
        added = [readline.get_history_item(number) for number in range(known + 1, count + 1)]
        with contextlib.suppress(OSError):
            _keep([entry for entry in added if entry])


def one_line(text: str) -> str | None:
    """Return a statement of several lines as one; None if that may mean something else: a comment, a line break in quotes."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if any("--" in line or "$" in line or line.count("'") % 2 or line.count('"') % 2 for line in lines):
        return None
    return " ".join(lines)


def history_file() -> Path:
    """Return where the lines of earlier shells are, by the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "tidelog" / "sql_history"


def _remember(line: str) -> int:
    """Add an entry to the history, unless it is empty or equals the last one; return the number added."""
    import readline  # noqa: PLC0415 - absent on Windows

    last = readline.get_current_history_length()
    if not line.strip() or (last and readline.get_history_item(last) == line):
        return 0
    readline.add_history(line)
    return 1


def _entries() -> list[str]:
    with contextlib.suppress(OSError):
        return history_file().read_text(errors="replace").splitlines()[-HISTORY_LINES:]
    return []


def _keep(added: list[str]) -> None:
    """Append entries to the file, which is cut where it has become too long. Raises ``OSError``."""
    path = history_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    with path.open("a") as file:
        file.writelines(f"{entry}\n" for entry in added)
    lines = path.read_text(errors="replace").splitlines()
    if len(lines) > 2 * HISTORY_LINES:
        cut = path.with_name(f"{path.name}.{os.getpid()}")
        cut.touch(mode=0o600)
        cut.write_text("".join(f"{line}\n" for line in lines[-HISTORY_LINES:]))
        cut.replace(path)
