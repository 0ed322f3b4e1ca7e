"""What a gateway says to an operator that starts it, or tries to."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gateway.__main__ import announce, main

HAS_TO_BE = "tidelog serve: "


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--heartbeat-ms", "soon"], "TIDELOG_HEARTBEAT_MS"),
        (["--store", ""], "TIDELOG_STORE"),
        (["--bogus"], "--bogus"),
    ],
)
def test_an_error_names_the_command_and_the_setting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], said: str
) -> None:
    """No module's name, which the user has not typed; the last of at most three lines is the sentence."""
    try:
        status = main(["--store", str(tmp_path), *given])
    except SystemExit as ended:
        status = int(str(ended.code))
    lines = capsys.readouterr().err.splitlines()
    assert status == 2
    assert len(lines) <= 3
    assert lines[-1].startswith(HAS_TO_BE)
    assert said in lines[-1]
    assert "python -m" not in "".join(lines)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_person_is_told_what_to_do_next(monkeypatch: pytest.MonkeyPatch, is_terminal: bool) -> None:
    """A terminal shows the pages for a browser and the first commands; a program gets its one line."""
    written = io.StringIO()
    written.isatty = lambda: is_terminal  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stdout", written)
    announce("file:///data", "http://127.0.0.1:8080", None)
    first, *more = written.getvalue().splitlines()
    assert first.endswith("listens on http://127.0.0.1:8080 (store file:///data)")
    assert bool(more) is is_terminal
    if is_terminal:
        shown = "\n".join(more)
        for needed in (
            "http://127.0.0.1:8080/ ",
            "http://127.0.0.1:8080/docs",
            "export TIDELOG_URL=http://127.0.0.1:8080",
        ):
            assert needed in shown
