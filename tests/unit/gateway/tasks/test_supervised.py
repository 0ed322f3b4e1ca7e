"""Background work on many things: what can't be done now is told, and keeps nothing else from being done."""

from __future__ import annotations

import logging

import pytest

from gateway.tasks.supervised import SupervisedTasks
from log_format.errors import BackOff, OutcomeUnknown


async def test_a_failure_is_told_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """At most so many at a time; a defect, which no later try mends, is raised."""
    tasks = SupervisedTasks("groups", logging.getLogger("gateway.test"), pause_after_defect_ms=1)
    done: list[int] = []

    async def work(number: int) -> None:
        if number == 1:
            raise BackOff("not now")
        if number == 2:
            raise OutcomeUnknown("perhaps")
        if number == 9:
            raise ZeroDivisionError
        done.append(number)

    with caplog.at_level(logging.INFO, "gateway.test"):
        await tasks.for_each(range(5), work, limit=2)
    assert done == [0, 3, 4]
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [
        ("INFO", "work on groups is put off: not now"),
        ("WARNING", "work on groups is put off: perhaps"),
    ]
    with pytest.raises(ZeroDivisionError):
        await tasks.for_each([9], work, limit=2)
