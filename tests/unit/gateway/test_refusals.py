"""A gateway that does not start says so as the program that its user has typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.__main__ import main

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
