"""The script of attacks has every row, and fails loudly where one works."""

from __future__ import annotations

import signal
import time

import pytest

from tests.attacks.__main__ import ROWS, run
from tests.attacks.target import Attack, Row, Target


def _that_works(_target: Target) -> Attack:
    def attack() -> None:
        raise AssertionError("a secret was told")

    return attack


def _that_stalls(target: Target) -> Attack:
    def attack() -> None:
        target.gateway.process.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        target.gateway.process.send_signal(signal.SIGCONT)
        time.sleep(0.2)

    return attack


def test_every_row_is_there() -> None:
    """By its number in the list of what was found."""
    assert [row.number for row in ROWS] == list(range(1, 20))


def test_an_attack_that_works_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """By the exit code and by name, whether it gets what it must not or holds others up; the others are run all the same."""
    (harmless,) = (row for row in ROWS if row.number == 16)
    assert run([Row(98, "told", _that_works), Row(99, "stalled", _that_stalls), harmless]) == 1
    told = capsys.readouterr().out
    assert "WORKED: a secret was told" in told
    assert "WORKED: others paid for it" in told
    assert told.count(" fails |") == 1
    assert "3 attacks, 2 worked" in told
