"""The simulation of delayed records can fail: each of these defects, planted into the real code, breaks a promise in one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest

from gateway.scheduled.publishing import DelayedPublisher
from log_format.scheduled.calendar import Calendar
from log_format.scheduled.due import DueNotice, put_notice
from tests.simulation.simulated.faults import CROWDED, FAULTY, HOSTILE, STORMY, Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_delays.world import RENEWED, simulate_delays
from tests.simulation.simulated_service.service import Code

SEEDS_MAX = 150
_NUMBERS = count()


def _numbered_by_itself(number: int, publication: int) -> int:
    del number, publication
    return 1_000_000 + next(_NUMBERS)


def _plans_from_any_listing(_self: Calendar, _listed_ms: int) -> bool:
    return True


def _closes_ahead(self: Calendar, listed: Iterable[DueNotice], now_ms: int, _plan: Any = Calendar.plan) -> bool:
    return bool(_plan(self, listed, now_ms + 1_500))


def _skips_nothing(*_: Any) -> tuple[()]:
    return ()


def _never_checked(_calendar: Any, filed: Any) -> Any:
    return list(filed)


def _keeps_old_notices_only(store: Any, due: DueNotice) -> None:
    if not due.name.startswith("r"):
        put_notice(store, due)


async def _tends_whatever_has_the_name(self: DelayedPublisher, name: str, topic_id: str, listing: Any) -> None:
    topic = await self._topics.fresh(name, self._access.clock.monotonic_ms())
    if not topic.state.exists:
        return
    async with self._calendars.locked(name, topic_id) as calendar:
        await self._plan(calendar, listing.topics[name, topic_id], listing)
        windows = await self._pool.run(calendar.windows_behind, calendar.published_number + 1)
        until_ms = calendar.newest.until_ms
    for number, window in windows:
        await self._publish(topic, calendar, number, window, -1)
        calendar.published_number = number
    await self._move(calendar, listing.topics[name, topic_id], until_ms)


async def _publishes_for_whatever_has_the_name(self: DelayedPublisher, topic: Any, _topic_id: str, *more: Any) -> None:
    await _append(self, topic, topic.require_state().topic_id, *more)


_append = DelayedPublisher._append


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon: a profile, and where to begin."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


_CALENDAR, _PUBLISHING = "log_format.scheduled.calendar", "gateway.scheduled.publishing"

PLANTED: dict[str, Planted] = {
    "numbers publications without the windows": Planted(
        FAULTY, ((f"{_PUBLISHING}.publication_epoch", _numbered_by_itself),)
    ),
    "publishes what is due soon": Planted(CROWDED, ((f"{_CALENDAR}.Calendar.plan", _closes_ahead),), first_seed=16),
    "plans from a listing before the last window": Planted(
        STORMY, ((f"{_CALENDAR}.Calendar.is_recent_enough", _plans_from_any_listing),), first_seed=28
    ),
    "forgets cancellations": Planted(CROWDED, ((f"{_CALENDAR}.list_cancellations", _skips_nothing),)),
    "does not look whether it was too late": Planted(
        STORMY, (("gateway.scheduled.filing.find_missed", _never_checked),), first_seed=10
    ),
    "drops the next notice of an object": Planted(HOSTILE, ((f"{_PUBLISHING}.put_notice", _keeps_old_notices_only),)),
    "publishes for whatever has the name": Planted(
        RENEWED,
        (
            (f"{_PUBLISHING}.DelayedPublisher._tend", _tends_whatever_has_the_name),
            (f"{_PUBLISHING}.DelayedPublisher._append", _publishes_for_whatever_has_the_name),
        ),
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    code = Code(planted=planted.targets)
    assert shows(simulate_delays, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
