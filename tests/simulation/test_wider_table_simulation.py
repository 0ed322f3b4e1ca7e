"""Topics as tables with conditions, layouts, other writers and restored copies: histories, each from one seed (docs/table.md).

``TIDELOG_WIDER_TABLE_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_table.wider_world import BRIEF, simulate_wider_table

SEEDS = Seeds("WIDER_TABLE", 1, at_once=1)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_tables_keep_their_promises_beside_others(part: int) -> None:
    """Rows stay once through every layout, foreign commits are put back, and who is erased is so in restored copies, too."""
    for seed in SEEDS.of(part):
        simulate_wider_table(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within two histories everything that this is about does happen."""
    expected = ["asked to erase", "erased", "gone", "archived", "laid out", "foreign commit", "put back"]
    expected += ["copied", "erased again in a copy", "cloned", "pinned"]
    assert unseen(expected, simulate_wider_table, (BRIEF,), range(1, 3)) == set()
