"""Delayed records under misfortune: hundreds of histories, each from one seed (docs/decisions/042-delayed-records.md).

``TIDELOG_DELAYS_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

import pytest

from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated_delays.quiet import DELAYS_MS, QuietWorld
from tests.simulation.simulated_delays.world import PROFILES, simulate_delays

SEEDS = Seeds("DELAYS", 12, at_once=4)


@pytest.mark.parametrize("part", SEEDS.parts)
def test_delayed_records_come_once_and_not_early(part: int) -> None:
    """Whatever happens: never early, once, none lost; a cancelled one never, one that can't be cancelled always."""
    for seed in SEEDS.of(part):
        simulate_delays(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within a few histories of each profile every outcome does happen."""
    expected = ["acknowledged", "scheduled", "cancelled", "delivered before", "in doubt", "refused", "repeated"]
    expected += ["duplicate", "crash", "pause", "answer lost", "late", "twice", "made anew"]
    assert unseen(expected, simulate_delays, PROFILES, range(12, 22)) == set()


def test_a_gateway_that_is_alone_lists_rarely_and_publishes_in_time() -> None:
    """Idle it lists twice a minute. What it files itself is there within a second of its time, whenever that is."""
    for seed in range(3):
        world = QuietWorld(seed, minutes=5)
        world.run(seed)
        assert world.lists <= 11
        assert len(world.late_ms) == len(DELAYS_MS)
        assert min(world.late_ms) >= 0
        assert max(world.late_ms) <= 1_000
