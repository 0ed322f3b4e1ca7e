"""Whole gateways under misfortune: thousands of histories, each from one seed (docs/guarantees.md, G1 to G5 and G8).

The real application, engine and committer of several gateways over one faulty store, on a virtual clock, used by HTTP.
``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_SERVICE_SEED=123`` runs that one alone and prints what happened in
it.
"""

from __future__ import annotations

from collections import Counter

import pytest

from tests.simulation.simulated.faults import Fault
from tests.simulation.simulated.seeds import Seeds
from tests.simulation.simulated_service.world import PROFILES, QUIET, simulate_service

SEEDS = Seeds("SERVICE", 20, at_once=5)
EVENTFUL_SEEDS = 12
"""Of each profile, at most."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_the_service_keeps_its_guarantees(part: int) -> None:
    """Whatever happens to gateways, requests and answers, what clients are told over HTTP is true (G1 to G5, G8).

    Acknowledged records are in the log at their places, once, in their order; refused ones are not. Readers skip nothing and
    see no more than there is.
    """
    for seed in SEEDS.of(part):
        simulate_service(seed, on_note=SEEDS.on_note)


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_is_put_off_while_nothing_is_wrong(seed: int) -> None:
    """Where no request meets a fault, none is put off, however it falls between those of others. (The last requests
    of every history above are held to it as well, once its faults are over.)"""
    assert simulate_service(seed, profile=QUIET).seen["asked in quiet"] > 40


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile every fault and every outcome does happen."""
    faults = [fault.value for fault in Fault if fault is not Fault.NONE]
    faults += ["down", "outage", "pause", "crash", "never arrives", "answer lost", "no answer in time"]
    outcomes = ["acknowledged", "duplicate", "known after doubt", "read", "read anew", "own object exists"]
    outcomes += ["transaction committed", "transaction aborted", "at once", "at once, repeated", "forwarded"]
    refusals = ["UNAVAILABLE", "UNKNOWN_TOPIC", "refused after doubt"]
    seen: Counter[str] = Counter()
    for seed in range(EVENTFUL_SEEDS):
        for profile in PROFILES:
            seen += simulate_service(seed, profile=profile).seen
        assert seen["acknowledged"] > 4 * len(PROFILES) * (seed + 1), "most histories append only a little"
        missing = [name for name in (*faults, *outcomes, *refusals) if not seen[name]]
        if not missing:
            break
    assert missing == []
