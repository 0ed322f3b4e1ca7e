"""Gateways whose clients come by both doors, under misfortune: histories from one seed each (docs/guarantees.md, G1 to G8).

The real listener, behind a connection that stands in for asyncio's transport. What HTTP's clients and Kafka's are told is judged
by one truth: so what came in by one door is read by the other, at the same offsets. ``make simulate SEEDS=10000`` runs more
histories; ``TIDELOG_KAFKA_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.faults import CROWDED
from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_kafka.world import LARGE, PROFILES, RENEWED, simulate_kafka

SEEDS = Seeds("KAFKA", 6, at_once=2)
EVENTFUL_SEEDS = range(13, 17)
"""Of each profile, at most; in the first much happens."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_both_doors_keep_the_guarantees(part: int) -> None:
    """Whatever happens to gateways, connections, requests and answers, what Kafka's clients are told is true, too.

    What is acknowledged is in the log once, in order and at the told offset; what is refused is not. Transactions are whole.
    Records and committed offsets are the same by both doors.
    """
    for seed in SEEDS.of(part):
        simulate_kafka(seed, on_note=SEEDS.on_note)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_large_transactions_keep_the_guarantees(part: int) -> None:
    """The same where every transaction is too large for its row and for memory: an index, pieces, one commit of each topic."""
    for seed in SEEDS.of(part):
        simulate_kafka(seed, on_note=SEEDS.on_note, bounds=LARGE)


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile Kafka's clients meet every outcome."""
    outcomes = [
        "acknowledged by Kafka",
        "read by Kafka",
        "Kafka's answer lost",
        "known to Kafka's client after doubt",
        "given up by Kafka's client",
        "Kafka's transaction committed",
        "Kafka's transaction given up",
        "offset committed",
        "offset in doubt",
        "offset read by HTTP",
        "offset read by Kafka",
        "offset read by id",
        "made anew",
        "crash",
        "pause",
    ]
    first = ((13, CROWDED), (13, RENEWED))
    assert unseen(outcomes, simulate_kafka, PROFILES, EVENTFUL_SEEDS, first=first) == set()
