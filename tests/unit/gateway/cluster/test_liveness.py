"""A gateway judges which gateways live by changes and its own clock, whatever other clocks and stale listings say."""

from __future__ import annotations

import pytest

from gateway.cluster.heartbeat import Heartbeat
from gateway.cluster.liveness import LEASES_UNTIL_ABANDONED, Liveness

LEASE_MS = 4_000


def beat(
    name: str, number: int, *, instance: str = "first", started_at: int = 0, issued_at: int | None = None
) -> Heartbeat:
    return Heartbeat(
        id=name,
        instance=instance,
        beat=number,
        url="http://h:1",
        started_at=started_at,
        version="1",
        owned_topics=0,
        issued_at=number if issued_at is None else issued_at,
    )


def live(liveness: Liveness) -> list[str]:
    return [heartbeat.id for heartbeat in liveness.live()]


@pytest.fixture
def liveness() -> Liveness:
    return Liveness(lease_ms=LEASE_MS, step_ms_max=2_000)


def test_a_heartbeat_that_stays_as_it_is_is_dead(liveness: Liveness) -> None:
    """Alive while it changes, whatever its clock says; dead a lease after the last change; alive again with the next."""
    for number in range(10):
        liveness.observe([beat("skewed", number, started_at=10**15), beat("silent", 1)], number * 1_000)
        assert live(liveness) == (["silent", "skewed"] if number < 4 else ["skewed"])
    liveness.observe([beat("silent", 2)], 10_000)
    assert live(liveness) == ["silent"]


def test_time_without_a_look_is_not_counted(liveness: Liveness) -> None:
    """After an outage of the store, or a sleep of this process, no gateway is taken for dead at the first look."""
    liveness.observe([beat("a", 1)], 0)
    liveness.observe([beat("a", 1)], 3_600_000)
    assert live(liveness) == ["a"]


def test_a_stale_listing_revives_nobody(liveness: Liveness) -> None:
    """Gone is gone at once; the old object, seen again, is no sign of life, nor is a beat that goes back."""
    liveness.observe([beat("a", 7)], 0)
    liveness.observe([], 1_000)
    assert live(liveness) == []
    for number in range(2, 8):
        liveness.observe([beat("a", number)], number * 1_000)
    assert live(liveness) == []
    liveness.observe([beat("a", 0, instance="second", issued_at=8)], 9_000)
    assert live(liveness) == ["a"]


def test_replayed_heartbeats_keep_nobody_alive(liveness: Liveness) -> None:
    """The last words of two instances of a dead gateway, put there in turn: each is older than what was seen."""
    last = [beat("a", 9, instance="first", issued_at=1_000), beat("a", 3, instance="second", issued_at=2_000)]
    for number in range(2, 12):
        liveness.observe([last[number % 2]], number * 1_000)
    assert live(liveness) == []


def test_litter_is_found(liveness: Liveness) -> None:
    """An object that was not written for very long may be deleted, and no other."""
    for number in range(LEASES_UNTIL_ABANDONED * 4 + 3):
        assert liveness.abandoned() == [] or number > LEASES_UNTIL_ABANDONED * 4
        liveness.observe([beat("dead", 1), beat("alive", number)], number * 1_000)
    assert liveness.abandoned() == ["dead"]
