"""Whole gateways without any misfortune: nobody waits for what does not come, and nothing fails or stays behind.

Clients ask for everything at once, by HTTP, on a virtual clock. ``TIDELOG_CALM_SEEDS=1000`` runs more histories,
``TIDELOG_CALM_SEED=123`` that one alone.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from unittest import mock

import pytest

from gateway.engine.waiting import Waiters
from tests.simulation.simulated_calm.world import simulate_calm

ONE_SEED = os.environ.get("TIDELOG_CALM_SEED")
SEEDS = range(int(os.environ.get("TIDELOG_CALM_SEEDS", "3"))) if ONE_SEED is None else [int(ONE_SEED)]


@pytest.fixture(autouse=True)
def _quiet_gateways() -> Iterator[None]:
    """Refusals are logged, and many are asked for."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_answer_comes_in_time(seed: int) -> None:
    """No answer of 5xx, none later than what it waits for, no memory that is not given back, no error that nobody caught."""
    found = simulate_calm(seed)
    assert found.wrong == []
    assert sum(found.seen.values()) > 100


def test_a_lost_wake_up_is_found() -> None:
    """The simulation can fail: polls that no commit wakes wait for half a minute."""
    with mock.patch.object(Waiters, "wake", return_value=None):
        assert simulate_calm(1).wrong
