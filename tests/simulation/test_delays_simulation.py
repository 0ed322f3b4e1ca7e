"""Delayed records under misfortune: hundreds of histories, each from one seed (docs/decisions/042-delayed-records.md).

``TIDELOG_DELAYS_SEED=123`` runs that one alone and prints what happened in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pytest

from log_format.scheduled.calendar import Calendar
from log_format.scheduled.due import Due, put_due
from tests.simulation.simulated.faults import CROWDED, FAULTY, HOSTILE, STORMY, Profile
from tests.simulation.simulated.seeds import Seeds, seed_that_shows, unseen
from tests.simulation.simulated_delays.quiet import DELAYS_MS, QuietWorld
from tests.simulation.simulated_delays.world import PROFILES, simulate_delays
from tests.simulation.simulated_service.service import Code

SEEDS = Seeds("DELAYS", 12, at_once=4)
PLANTED_SEEDS_MAX = 150
FIRST_SEED = {
    "publishes what is due soon": 16,
    "plans from a listing before the last window": 12,
    "does not look whether it was too late": 10,
}
"""Where a planted fault shows; the others show soon."""
_NUMBERS = count()


@pytest.mark.parametrize("part", SEEDS.parts)
def test_delayed_records_come_once_and_not_early(part: int) -> None:
    """Whatever happens: never early, once, none lost; a cancelled one never, one that can't be cancelled always."""
    for seed in SEEDS.of(part):
        simulate_delays(seed, on_note=SEEDS.on_note)


def test_the_histories_are_eventful() -> None:
    """Within a few histories of each profile every outcome does happen."""
    expected = ["acknowledged", "scheduled", "cancelled", "delivered before", "in doubt", "refused", "repeated"]
    expected += ["duplicate", "crash", "pause", "answer lost", "late", "twice"]
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


def _numbered_by_itself(number: int, publication: int) -> int:
    del number, publication
    return 1_000_000 + next(_NUMBERS)


def _plans_from_any_listing(_self: Calendar, _listed_ms: int) -> bool:
    return True


def _closes_ahead(self: Calendar, listed: Iterable[Due], now_ms: int, _plan: Any = Calendar.plan) -> bool:
    return bool(_plan(self, listed, now_ms + 1_500))


def _skips_nothing(*_: Any) -> tuple[()]:
    return ()


def _never_checked(_calendar: Any, filed: Any) -> Any:
    return list(filed)


def _keeps_old_notices_only(store: Any, due: Due) -> None:
    if not due.name.startswith("r"):
        put_due(store, due)


PLANTED: dict[str, tuple[Profile, tuple[tuple[str, Any], ...]]] = {
    "numbers publications without the windows": (
        FAULTY,
        (("gateway.scheduled.publishing.epoch_of", _numbered_by_itself),),
    ),
    "publishes what is due soon": (CROWDED, (("log_format.scheduled.calendar.Calendar.plan", _closes_ahead),)),
    "plans from a listing before the last window": (
        STORMY,
        (("log_format.scheduled.calendar.Calendar.is_behind", _plans_from_any_listing),),
    ),
    "forgets cancellations": (CROWDED, (("log_format.scheduled.calendar.list_cancelled", _skips_nothing),)),
    "does not look whether it was too late": (STORMY, (("gateway.scheduled.filing.checked", _never_checked),)),
    "drops the next notice of an object": (
        HOSTILE,
        (("gateway.scheduled.publishing.put_due", _keeps_old_notices_only),),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    profile, targets = PLANTED[name]
    seeds, code = range(FIRST_SEED.get(name, 0), PLANTED_SEEDS_MAX), Code(planted=targets)
    assert seed_that_shows(seeds, lambda seed: simulate_delays(seed, profile=profile, code=code)) is not None
