"""The judge of readers beside maintenance can fail: each thing that must not be is found in a history made by hand."""

from __future__ import annotations

import pytest

from tests.torture.tortured.history import Place, Write, key_of
from tests.torture.tortured.witness import Batches, Truth, contradictions, positions

VALUES = [f"v{number}" for number in range(40)]
END = len(VALUES)
NEWEST = {key_of(value): offset for offset, value in enumerate(VALUES)}
SUPERSEDED = next(offset for offset, value in enumerate(VALUES) if NEWEST[key_of(value)] > offset)
LAST_OF_KEY = next(offset for offset, value in enumerate(VALUES[:-1]) if NEWEST[key_of(value)] == offset)


def _rows(*offsets: int, topic: str = "plain") -> list[tuple[str, int, int, str]]:
    return [(topic, 0, offset, VALUES[offset]) for offset in offsets]


def _judged(batches: Batches, *, topic: str = "plain", start: int = 0) -> list[str]:
    writes = [
        Write(
            client="w",
            kind="request",
            values={name: {0: VALUES}},
            outcome="acknowledged",
            started=0.0,
            ended=1.0,
            places=[Place(topic=name, partition=0, base_offset=0, values=VALUES)],
        )
        for name in ("plain", "compacted")
    ]
    truth = Truth(writes, ["compacted"])
    return contradictions("r", batches, truth, {(topic, 0): start}, {(topic, 0): END})


def test_a_whole_log_passes_and_so_do_the_gaps_that_compaction_may_leave() -> None:
    """In any order within a batch; without what a later record of its key supersedes; from where the log begins now."""
    assert _judged([_rows(1, 0), _rows(*range(2, END))]) == []
    rest = [offset for offset in range(END) if offset != SUPERSEDED]
    assert _judged([_rows(*rest, topic="compacted")], topic="compacted") == []
    assert _judged([_rows(*range(7, END))], start=7) == []
    assert positions([_rows(3, 1), _rows(2)]) == {("plain", 0): 4}


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([_rows(*range(END - 1))], f"missed v{END - 1}"),
        ([_rows(*range(5), *range(6, END))], "missed v5"),
        ([_rows(*range(END)), _rows(3)], "twice"),
        ([_rows(*range(4, END)), _rows(*range(4))], "behind"),
        ([_rows(*range(END - 1)), [("plain", 0, END - 1, "v0")]], f"where v{END - 1} was acknowledged"),
        ([_rows(*range(END)), [("plain", 0, END, "x")]], "nothing was acknowledged"),
    ],
)
def test_each_contradiction_is_found(batches: Batches, words: str) -> None:
    """Lost at the end or in the middle, doubled, out of order, another value, a record that no producer sent."""
    found = _judged(batches)
    assert any(words in line for line in found), found


def test_compaction_may_not_take_the_newest_of_a_key() -> None:
    """However old it is: a reader of everything has to see it."""
    rest = [offset for offset in range(END) if offset != LAST_OF_KEY]
    (found,) = _judged([_rows(*rest, topic="compacted")], topic="compacted")
    assert f"missed v{LAST_OF_KEY}" in found
