"""Whole gateways under misfortune, with topics that come and go between their own commits and journals (decision 035).

As ``test_service_simulation``. ``TIDELOG_MODES_SEED=123`` runs that history alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.faults import STORMY, Fault
from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_modes.world import DOZING, PROFILES, simulate_modes

SEEDS = Seeds("MODES", 20, at_once=5)
EVENTFUL_SEEDS = range(11, 23)
"""Of each profile, at most; in the first much happens."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_journals_keep_the_guarantees(part: int) -> None:
    """What clients are told over HTTP is true wherever a topic is, and while it moves (G1 to G6, G8).

    A topic's own table holds a prefix of each partition at each version, and everything after the drains.
    """
    for seed in SEEDS.of(part):
        simulate_modes(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within a few histories of each profile all that this is about does happen."""
    names = [fault.value for fault in Fault if fault is not Fault.NONE]
    names += ["pause", "pause at a request", "crash", "by a journal", "closed", "altered", "expected", "duplicate"]
    names += ["transaction committed", "at once", "RECORD_TOO_LARGE", "EXPECTED_OFFSET_MISMATCH", "forwarded"]
    first = ((11, STORMY), (11, DOZING))
    assert unseen(names, simulate_modes, PROFILES, EVENTFUL_SEEDS, first=first) == set()
