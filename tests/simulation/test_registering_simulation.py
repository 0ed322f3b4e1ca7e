"""Callers use the schema registry at once, through two gateways, while rights change: as one after another (docs/registry.md).

``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_REGISTERING_SEED=123`` runs that one alone and prints what happened.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds
from tests.simulation.simulated_calls.registering_world import simulate_registering

SEEDS = Seeds("REGISTERING", 24, at_once=12)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_what_is_done_at_once_is_what_some_order_gives(part: int) -> None:
    """Whoever registers, deletes and configures at once: answers, ids and versions are those of one call after another; who has
    no right is refused and changes nothing, within five seconds everywhere."""
    for seed in SEEDS.of(part):
        simulate_registering(seed, on_note=SEEDS.on_note)


def test_everything_happens() -> None:
    """Each kind of call is done and refused, and rights are certain and in doubt."""
    wanted = {
        "in a serial order",
        "certain right",
        "a right in doubt",
        "register: 403",
        "register: 409",
        "register: 422",
    }
    wanted |= {
        f"{kind}: 200" for kind in ("register", "delete version", "delete subject", "forget subject", "level", "mode")
    }
    for seed in range(1_000, 1_060):
        wanted -= simulate_registering(seed).seen.keys()
        if not wanted:
            break
    assert wanted == set()


def test_one_seed_gives_one_history() -> None:
    """A failure can be repeated."""
    assert simulate_registering(5).trace == simulate_registering(5).trace
