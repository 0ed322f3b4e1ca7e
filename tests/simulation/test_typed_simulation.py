"""Typed topics under misfortune: histories, each from one seed (docs/typed-topics.md).

``TIDELOG_TYPED_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_typed.world import CALM, CROWDED, FAULTY, PROFILES, RENEWED, simulate_typed

SEEDS = Seeds("TYPED", 8, at_once=4)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_each_record_is_what_they_promise(part: int) -> None:
    """Each record is there once, with the columns that a schema in force gives it, or marked where it may be; others are not."""
    for seed in SEEDS.of(part):
        simulate_typed(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within a few histories of each profile every outcome does happen."""
    expected = ["acknowledged", "refused", "repeated", "in doubt", "committed", "aborted", "registered", "altered"]
    expected += ["conflict refused", "subject deleted", "typed", "typed late", "marked", "marked late", "not judged"]
    expected += ["crash", "pause", "answer lost", "late", "twice", "made anew"]
    expected += ["by a journal", "drained", "drained by maintenance", "typed afterwards", "marked afterwards"]
    expected += ["rewritten: merge", "rewritten: keys", "rewritten: backfill", "superseded"]
    first = ((9, RENEWED), (10, FAULTY), (9, CALM), (12, CROWDED))
    assert unseen(expected, simulate_typed, PROFILES, range(8, 16), first=first) == set()
