"""Topics that are used as tables under misfortune: histories, each from one seed (docs/table.md).

``TIDELOG_TABLE_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_table.world import CALM, DROWSY, LONG, RENEWED, simulate_table

SEEDS = Seeds("TABLE", 4, at_once=2)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_log_and_table_keep_their_promises(part: int) -> None:
    """Every live record is read once, rows leave when they may, pins and clones have their version, and who is erased is gone."""
    for seed in SEEDS.of(part):
        simulate_table(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within a few histories everything that this is about does happen."""
    expected = ["acknowledged", "repeated", "committed", "altered", "by a journal", "drained", "crash", "pause"]
    expected += ["archived", "checkpoint of the archive", "left the log", "left the archive", "superseded"]
    expected += ["pinned", "pinned an older version", "unpinned", "pin at the end", "pin without what was erased"]
    expected += ["asked to erase", "erased", "erased without a trace", "carried out", "gone", "read", "read erased"]
    expected += ["cloned", "clone with requests", "file deleted", "log cleaned", "made anew"]
    expected += ["rewritten: merge", "rewritten: keys"]
    first = ((2, DROWSY), (101, LONG), (101, RENEWED))
    assert unseen(expected, simulate_table, (LONG, RENEWED, DROWSY, CALM), range(101, 105), first=first) == set()
