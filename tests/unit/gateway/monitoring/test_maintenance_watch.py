"""A gateway knows by the sign of life in its store whether maintenance runs, whatever the clocks say."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from gateway.monitoring.alarm_watch import AlarmWatch
from gateway.monitoring.maintenance_watch import LOOK_EVERY_MS, MaintenanceState, MaintenanceWatch
from log_format.cluster.maintenance_sign import GRACE_MS, SIGN_BYTES_MAX, MaintenanceSign, put_sign
from log_format.errors import StoreUnavailable
from log_format.layout import MAINTENANCE_KEY
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock

EVERY_MS = 60_000


class Counting(MemoryStore):
    """Counts reads, and fails while it is told to."""

    reads = 0
    fails = False

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        self.reads += 1
        if self.fails:
            raise StoreUnavailable(key, "no", may_have_happened=False)
        return super().get(key, bytes_max=bytes_max)


class Watched:
    """A watch, and maintenance whose clock is ``ahead_ms`` before the gateway's."""

    def __init__(self) -> None:
        self.clock, self.store, self.registry = ManualClock(), Counting("s"), CollectorRegistry()
        self.watch = MaintenanceWatch(self.store, self.clock, self.registry)
        self.ahead_ms = 0

    def sign(self, every_ms: int | None = EVERY_MS, *, failed_topics: int = 0) -> None:
        seen_at = self.clock.now_ms() + self.ahead_ms
        put_sign(self.store, MaintenanceSign(seen_at=seen_at, every_ms=every_ms, failed_topics=failed_topics))

    def state(self, after_ms: int = LOOK_EVERY_MS) -> MaintenanceState:
        self.clock.pass_ms(after_ms)
        return asyncio.run(self.watch.look()).state

    def silent_s(self) -> float:
        return self.registry.get_sample_value("tidelog_maintenance_silent_seconds") or 0


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_maintenance_that_never_ran_is_told_and_no_alarm(watched: Watched) -> None:
    """However long nobody starts it: topics that suffer have alarms of their own."""
    assert watched.state() == "never"
    assert watched.state(30 * 86_400_000) == "never"
    assert watched.silent_s() == 0


def test_maintenance_at_an_interval_is_overdue_minutes_after_it_died(watched: Watched) -> None:
    """Not before a long step may have ended; a new sign ends it, and so does one of a single round."""
    watched.sign()
    assert watched.state() == "regular"
    assert watched.state(GRACE_MS) == "regular"
    assert watched.state(EVERY_MS) == "overdue"
    assert watched.silent_s() == (LOOK_EVERY_MS + GRACE_MS + EVERY_MS) / 1000
    watched.sign()
    assert watched.state() == "regular"
    watched.state(GRACE_MS + EVERY_MS)
    watched.sign(None)
    assert watched.state() == "single"
    assert (watched.state(90 * 86_400_000), watched.silent_s()) == ("single", 0)


def test_a_timer_that_starts_no_more_rounds_is_overdue(watched: Watched) -> None:
    """Its interval is learned from six starts; the grace of what is rare is a tenth of its interval."""
    day_ms = 86_400_000
    now_ms = watched.clock.now_ms()
    starts = tuple(now_ms - ago * day_ms for ago in reversed(range(6)))
    put_sign(watched.store, MaintenanceSign(seen_at=now_ms, started_at=starts[1:]))
    assert watched.state(2 * day_ms) == "single"
    put_sign(watched.store, MaintenanceSign(seen_at=now_ms + 1, started_at=starts))
    assert watched.state() == "regular"
    assert watched.state(day_ms + day_ms // 10) == "regular"
    assert watched.state(1) == "overdue"
    assert watched.silent_s() > day_ms / 1000


@pytest.mark.parametrize("ahead_ms", [-6 * 3_600_000, 6 * 3_600_000])
def test_clocks_that_differ_by_hours_make_no_alarm_and_hide_none(watched: Watched, ahead_ms: int) -> None:
    """From the second sign on the age is the time since the gateway saw it."""
    watched.ahead_ms = ahead_ms
    watched.sign()
    watched.state()
    watched.sign()
    assert watched.state() == "regular"
    assert watched.state(GRACE_MS + EVERY_MS + 1) == "overdue"


def test_a_gateway_that_starts_beside_dead_maintenance_knows_at_once(watched: Watched) -> None:
    """The age of the first sign that it sees is by the clocks."""
    watched.sign()
    assert watched.state(86_400_000) == "overdue"


def test_a_store_that_fails_is_no_word_about_maintenance(watched: Watched) -> None:
    """Unknown before the first answer; later what was known stays."""
    watched.store.fails = True
    assert watched.state() == "unknown"
    watched.store.fails = False
    watched.sign()
    assert watched.state() == "regular"
    watched.store.fails = True
    assert watched.state() == "regular"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"seen_at": "x"}',
        b'{"seen_at": -1}',
        b" " * SIGN_BYTES_MAX + b'{"seen_at": 1}',
        b'{"seen_at": 1, "x": ' + b"[" * 2000 + b"]" * 2000 + b"}",
        b'{"seen_at": 253402300800000}',
        b'{"seen_at": 1, "round_ended_at": 253402300800000}',
        b'{"seen_at": 1, "failed_topics": ' + b"9" * 30 + b"}",
    ],
    ids=range(9),
)
def test_an_object_that_is_no_sign_counts_as_none(watched: Watched, data: bytes) -> None:
    """Nobody's alarm depends on its bytes, and a large one is not read."""
    watched.store.put(MAINTENANCE_KEY, data)
    assert watched.state() == "never"


def test_a_look_is_one_request_a_minute(watched: Watched) -> None:
    """However many screens ask, and at the same time."""

    async def look_often() -> list[int]:
        reads = []
        for passed_ms in (0, LOOK_EVERY_MS - 1, 1):
            watched.clock.pass_ms(passed_ms)
            await asyncio.gather(*(watched.watch.look() for _ in range(9)))
            reads.append(watched.store.reads)
        return reads

    assert asyncio.run(look_often()) == [1, 1, 2]


def test_the_alarm_fires_within_two_minutes(watched: Watched) -> None:
    """Each minute's judgement looks first, so an idle gateway tells, too."""

    async def measure() -> None:
        await watched.watch.look()

    alarms = AlarmWatch(watched.registry, watched.clock, measure)
    watched.sign()
    for _ in range((GRACE_MS + EVERY_MS) // 60_000):
        asyncio.run(alarms.minute())
        watched.clock.pass_ms(60_000)
    assert alarms.firing() == []
    for _ in range(3):
        watched.clock.pass_ms(60_000)
        asyncio.run(alarms.minute())
    assert [one.rule.name for one in alarms.firing()] == ["MaintenanceOverdue"]
    assert alarms.firing()[0].said.startswith("No maintenance has run for ")
