"""Whole gateways without any misfortune: no request waits for what does not come, and nothing fails or stays behind.

Clients ask for everything at once, by HTTP, on a virtual clock. ``TIDELOG_CALM_SEEDS=1000`` runs more histories,
``TIDELOG_CALM_SEED=123`` that one alone.
"""

from __future__ import annotations

from unittest import mock

import pytest

from gateway.engine.waiters import Waiters
from tests.simulation.simulated.seeds import Seeds
from tests.simulation.simulated_calm.world import simulate_calm

SEEDS = Seeds("CALM", 3, at_once=1)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_every_answer_comes_in_time(part: int) -> None:
    """No answer of 5xx, none later than what it waits for, no memory that is not given back, no uncaught error."""
    for seed in SEEDS.of(part):
        found = simulate_calm(seed)
        assert found.wrong == []
        assert sum(found.seen.values()) > 100


def test_a_lost_wake_up_is_found() -> None:
    """The simulation can fail: polls that no commit wakes wait for half a minute."""
    with mock.patch.object(Waiters, "wake", return_value=None):
        assert simulate_calm(1).wrong
