"""Who is alive: by changes seen with one's own clock, whatever other clocks and stale listings say."""

from __future__ import annotations

import pytest

from gateway.cluster.heartbeat import Heartbeat, decode_heartbeat, encode_heartbeat, heartbeat_key
from gateway.cluster.liveness import LEASES_UNTIL_ABANDONED, Liveness

LEASE_MS = 4_000


def beat(name: str, number: int, *, instance: str = "first", started_at: int = 0, url: str = "http://h:1") -> Heartbeat:
    return Heartbeat(
        id=name, instance=instance, beat=number, url=url, started_at=started_at, version="1", owned_topics=0
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
    """After an outage of the store, or a sleep of this process, nobody is taken for dead at the first look."""
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
    liveness.observe([beat("a", 0, instance="second")], 9_000)
    assert live(liveness) == ["a"]


def test_litter_is_found(liveness: Liveness) -> None:
    """An object that nobody has written for very long may be deleted, and no other."""
    for number in range(LEASES_UNTIL_ABANDONED * 4 + 3):
        assert liveness.abandoned() == [] or number > LEASES_UNTIL_ABANDONED * 4
        liveness.observe([beat("dead", 1), beat("alive", number)], number * 1_000)
    assert liveness.abandoned() == ["dead"]


@pytest.mark.parametrize(
    "url",
    [
        "http://h:1/path",
        "http://user@h",
        "http://h:1?x",
        "http://h#x",
        "file:///etc",
        "ftp://h",
        "http://h:1\r\nx: y",
        "http://",
        "http://h:123456",
        "http://[::1",
    ],
)
def test_a_heartbeat_can_name_nothing_but_a_host_and_a_port(url: str) -> None:
    """Whoever can write to the store can't make a gateway ask for anything else."""
    assert decode_heartbeat(heartbeat_key("a"), encode_heartbeat(beat("a", 1, url=url))) is None


@pytest.mark.parametrize("url", ["http://h", "https://h.example:8443", "http://[::1]:80/", "http://10.0.0.1:80"])
def test_heartbeats_round_trip(url: str) -> None:
    """What a gateway writes every other reads."""
    heartbeat = beat("a", 1, url=url)
    assert decode_heartbeat(heartbeat_key("a"), encode_heartbeat(heartbeat)) == heartbeat


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b'{"id":"a"}', b" " * 5_000])
def test_what_is_no_heartbeat_is_passed_over(data: bytes) -> None:
    """Nor is one that lies under another's name."""
    assert decode_heartbeat(heartbeat_key("a"), data) is None
    assert decode_heartbeat(heartbeat_key("b"), encode_heartbeat(beat("a", 1))) is None
