"""Queues under misfortune: histories of callers and coordinators, each from one seed.

The real gateways over one faulty store, on a virtual clock; coordinators crash, stand still and are replaced.
``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_QUEUE_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_queues.world import CALM, FAULTY, PROFILES, RENEWED, simulate_queues

SEEDS = Seeds("QUEUE", 10, at_once=2)
EVENTFUL_SEEDS = range(3, 17)
"""Of each profile, at most; in the first much happens."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_queues_keep_what_they_promise(part: int) -> None:
    """No record has two live leases, is accepted twice, lost, or twice a dead letter.

    A lease that is over settles nothing. Delivery counts never go back. When nothing fails any more, all can be settled.
    """
    for seed in SEEDS.of(part):
        simulate_queues(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile everything that it is about does happen."""
    callers = ["given", "given again", "accept settled", "accept refused", "release settled", "renew settled"]
    more = [
        "reject settled",
        "held by a transaction",
        "transaction: commit",
        "transaction: abort",
        "dead letter",
        "made anew",
    ]
    expected = {*callers, *more, "pause", "crash", "answer lost"}
    first = ((3, CALM), (3, FAULTY), (3, RENEWED))
    assert unseen(expected, simulate_queues, PROFILES, EVENTFUL_SEEDS, first=first) == set()
