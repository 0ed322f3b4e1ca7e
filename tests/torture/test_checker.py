"""The checker can fail: each kind of contradiction, in a history made by hand, is found; a history without one passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.tortured.checker import Checker, Log
from tests.torture.tortured.history import History, Place, Read, Write

ACKNOWLEDGED = Write(
    client="a",
    kind="request",
    values={"t": {0: ["a.0", "a.1"]}},
    outcome="acknowledged",
    started=1.0,
    ended=2.0,
    places=[Place(topic="t", partition=0, base_offset=0, values=["a.0", "a.1"])],
)
LATER = replace(
    ACKNOWLEDGED,
    values={"t": {0: ["a.2"]}},
    started=3.0,
    ended=4.0,
    places=[Place(topic="t", partition=0, base_offset=2, values=["a.2"])],
)
UNKNOWN = Write(
    client="b",
    kind="transaction",
    values={"t": {0: ["b.0"]}, "u": {0: ["b.1"]}},
    outcome="unknown",
    started=1.0,
    ended=9.0,
    atomic=True,
)
POLL = Read(
    client="r",
    topic="t",
    partition=0,
    offset=0,
    values=["a.0", "a.1"],
    offsets=[0, 1],
    next_offset=2,
    high_watermark=2,
    started=2.5,
    ended=2.6,
)
LOG: Log = {("t", 0): ["a.0", "a.1", "a.2"], ("u", 0): []}


def _judged(writes: list[Write], reads: list[Read], log: Log) -> list[str]:
    history = History()
    events: list[Write | Read] = [*writes, *reads]
    for event in events:
        history.add(event)
    return Checker(history, log).contradictions()


def test_a_true_history_passes() -> None:
    """Acknowledged, unknown and absent, read in order: nothing to object to."""
    later = replace(POLL, offset=2, values=["a.2"], offsets=[2], next_offset=3, high_watermark=3, started=4.5)
    assert _judged([ACKNOWLEDGED, LATER, UNKNOWN], [POLL, later], LOG) == []


@pytest.mark.parametrize(
    ("writes", "reads", "log", "words"),
    [
        ([ACKNOWLEDGED], [], {("t", 0): ["a.0"], ("u", 0): []}, "is not in the log"),
        ([ACKNOWLEDGED], [], {("t", 0): ["a.1", "a.0"], ("u", 0): []}, "was acknowledged at"),
        ([ACKNOWLEDGED, LATER], [], {("t", 0): ["a.0", "a.1", "a.2", "a.1"]}, "twice"),
        ([replace(ACKNOWLEDGED, places=[])], [], LOG, "was acknowledged at"),
        (
            [replace(ACKNOWLEDGED, places=[], is_placed=False)],
            [],
            {("t", 0): ["a.0"], ("u", 0): []},
            "is not in the log",
        ),
        ([replace(UNKNOWN, outcome="refused")], [], {("t", 0): ["b.0"], ("u", 0): ["b.1"]}, "was refused"),
        ([replace(UNKNOWN, outcome="aborted")], [], {("t", 0): ["b.0"], ("u", 0): ["b.1"]}, "was aborted"),
        ([UNKNOWN], [], {("t", 0): ["b.0"], ("u", 0): []}, "only ['b.0']"),
        ([], [], {("t", 0): ["x.0"]}, "by nobody"),
        ([replace(ACKNOWLEDGED, started=5.0), LATER], [], LOG, "stands before"),
        ([ACKNOWLEDGED, LATER], [replace(POLL, values=["a.0", "a.2"])], LOG, "other values"),
        ([ACKNOWLEDGED, LATER], [replace(POLL, offsets=[0, 2])], LOG, "got offsets"),
        ([ACKNOWLEDGED, LATER], [replace(POLL, next_offset=3)], LOG, "got offsets"),
        ([ACKNOWLEDGED, LATER], [POLL, replace(POLL, started=2.7)], LOG, "went from"),
        ([ACKNOWLEDGED, LATER], [replace(POLL, high_watermark=9)], LOG, "ends at 9"),
        (
            [ACKNOWLEDGED, LATER],
            [replace(POLL, values=[], offsets=[], next_offset=0, high_watermark=0)],
            LOG,
            "before it asked",
        ),
    ],
)
def test_each_contradiction_is_found(writes: list[Write], reads: list[Read], log: Log, words: str) -> None:
    """Lost, elsewhere, twice, refused yet there, half a transaction, out of order, misread, skipped, stale."""
    found = _judged(writes, reads, log)
    assert any(words in line for line in found), found
