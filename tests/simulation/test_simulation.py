"""The log's core under misfortune: thousands of histories, each from one seed (docs/guarantees.md, G1 to G4 and G8).

``make simulate SEEDS=10000`` runs more of them; ``TIDELOG_SIMULATION_SEED=123`` runs that one alone and prints what
happened in it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.simulated.faults import PROFILES, Fault
from tests.simulation.simulated.log_world import simulate
from tests.simulation.simulated.seeds import Seeds

SEEDS = Seeds("SIMULATION", 100, at_once=25)
EVENTFUL_SEEDS = 20
"""Of each profile, at most."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_the_guarantees_hold(part: int) -> None:
    """The log is right whatever happens to gateways, requests and answers (G1 to G4, G8).

    An acknowledged record is in the log at its place, once; a refused one is not. Readers see each commit and nothing else. No
    place ever names two records.
    """
    for seed in SEEDS.of(part):
        simulate(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile every fault and every outcome does happen."""
    faults = [fault.value for fault in Fault if fault is not Fault.NONE]
    faults += ["down", "outage", "pause", "pause above an hour", "pause at a request", "crash"]
    consequences = ["own object exists", "ghosts", "conflict", "outcome unknown"]
    outcomes = ["acknowledged", "read", "created", "exists", "deleted", "trimmed"]
    refusals = [
        "replaced",
        "UNAVAILABLE",
        "UNKNOWN_TOPIC",
        "TOPIC_ALREADY_EXISTS",
        "RECORD_TOO_LARGE",
        "OFFSET_OUT_OF_RANGE",
    ]
    seen: Counter[str] = Counter()
    for seed in range(EVENTFUL_SEEDS):
        for profile in PROFILES:
            seen += simulate(seed, profile=profile).seen
        assert seen["acknowledged"] > 5 * len(PROFILES) * (seed + 1), "most histories append only a little"
        missing = [name for name in (*faults, *consequences, *outcomes, *refusals) if not seen[name]]
        if not missing:
            break
    assert missing == []
