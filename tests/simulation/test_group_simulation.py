"""Consumer groups under misfortune: histories of members and coordinators, each from one seed (docs/guarantees.md, G7).

The real gateways over one faulty store, on a virtual clock; members join, leave, die, freeze longer than their session and come
back; coordinators crash and stand still. ``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_GROUP_SEED=123`` runs that
one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_groups.world import CALM, PROFILES, RENEWED_FAULTY, simulate_groups

SEEDS = Seeds("GROUP", 10, at_once=2)
EVENTFUL_SEEDS = range(13, 25)
"""Of each profile, at most; in the first much happens."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_groups_keep_their_guarantees(part: int) -> None:
    """Consumer groups keep G7.

    No two members believe that they hold a partition. No record is skipped when commits follow processing. A committed offset
    goes back by a reset only. So it is in each incarnation of a topic: members of one that is made anew begin at its start.
    A zombie's commit is refused; an acknowledged one is in the table. When nothing fails any more, a member that is left can
    read and commit everything.
    """
    for seed in SEEDS.of(part):
        simulate_groups(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile everything that it is about does happen."""
    members = ["joined", "left", "died", "froze", "lost a partition", "acknowledged", "partition taken"]
    topics = ["made anew", "first of a topic made anew"]
    offsets = ["commit acknowledged", "commit in doubt", "offsets read", "reset landed", "processed", "rewritten"]
    refusals = ["commit refused: UNKNOWN_MEMBER", "UNKNOWN_MEMBER", "STALE_GENERATION"]
    gateways = ["pause", "crash", "outage", "answer lost"]
    expected = {*members, *topics, *offsets, *refusals, *gateways}
    first = ((15, CALM), (13, RENEWED_FAULTY))
    assert unseen(expected, simulate_groups, PROFILES, EVENTFUL_SEEDS, first=first) == set()
