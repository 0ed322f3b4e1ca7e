"""Typed lines: their history, and completion by the real readline at a terminal."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tidelog.cli.sql import line_editing as editing
from tidelog.cli.sql.line_editing import history_file, line_editing, one_line

SECONDS_MAX = 20
PROGRAM = """
import sys
from tidelog.cli.sql.line_editing import line_editing
words = ["select", "selected", '"my-topic"']
with line_editing(lambda line: [word for word in words if word.strip('"').startswith(line.split()[-1])]) as lines:
    for text in sys.argv[1:]:
        for _ in text.splitlines():
            print("GOT", repr(lines.read("> ")), flush=True)
        lines.end(text)
"""


def at_a_terminal(typed: list[bytes], *ended: str) -> list[str]:
    """Type each line at a prompt of the program, and return the lines that it got. ``ended``: the lines of each statement."""
    parent, child = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *ended], stdin=child, stdout=child, stderr=child)
    os.close(child)
    stuck = threading.Timer(SECONDS_MAX, process.kill)
    stuck.start()
    shown = b""
    with suppress(OSError):  # how Linux ends a terminal whose other side is closed
        while more := os.read(parent, 4_096):
            shown += more
            if typed and shown.endswith(b"> "):  # earlier, the terminal itself would take a control character
                os.write(parent, typed.pop(0))
    os.close(parent)
    code = process.wait()
    stuck.cancel()
    assert code == 0, shown
    return [line.partition("GOT ")[2].strip() for line in shown.decode().splitlines() if "GOT " in line]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the history."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    return tmp_path


def test_a_statement_of_several_lines_is_one_entry(state: Path) -> None:
    """At the next shell the arrow brings it back, Ctrl-R finds it by a part, and Tab completes the last word only."""
    assert at_a_terminal([b"select 1\r", b"from orders;\r", b".timer on\r"], "select 1\nfrom orders;", ".timer on") == [
        *("'select 1'", "'from orders;'", "'.timer on'")
    ]
    assert (state / "tidelog" / "sql_history").read_text() == "select 1 from orders;\n.timer on\n"
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600, "statements may have data in them"
    up, search, tab = b"\x1b[A\x1b[A\r", b"\x12from ord\r", b"a my\t\r"
    assert at_a_terminal([up, search, tab], "a", "b", "c") == [
        *["'select 1 from orders;'"] * 2,
        "'a \"my-topic\"'",
    ]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("select 1\n  from t;", "select 1 from t;"),
        ("select 1 -- one\nfrom t;", None),
        ("select 'a\nb';", None),
        ('select "a\nb";', None),
        ("select $$a\nb$$;", None),
    ],
)
def test_lines_are_joined_only_if_that_means_the_same(text: str, joined: str | None) -> None:
    """A comment would swallow the rest, and a line break in quotes is part of a value."""
    assert one_line(text) == joined


def test_shells_at_the_same_time_lose_nothing_of_each_other(state: Path) -> None:
    """Each adds what it has; a file that has become too long is cut at its begin."""
    editing._keep(["one", "two"])
    editing._keep(["three"])
    assert history_file().read_text() == "one\ntwo\nthree\n"
    editing._keep([str(number) for number in range(2 * editing.HISTORY_LINES)])
    lines = history_file().read_text().splitlines()
    assert (len(lines), lines[-1]) == (editing.HISTORY_LINES, str(2 * editing.HISTORY_LINES - 1))
    assert stat.S_IMODE(history_file().stat().st_mode) == 0o600
    assert list(history_file().parent.iterdir()) == [history_file()]


def test_without_readline_lines_are_read_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: no history, and no error."""
    monkeypatch.setitem(sys.modules, "readline", None)
    monkeypatch.setattr("builtins.input", lambda prompt: f"{prompt}line")
    with line_editing(lambda _line: []) as lines:
        assert lines.read("> ") == "> line"
        lines.end("a\nb")
    assert not history_file().exists()
