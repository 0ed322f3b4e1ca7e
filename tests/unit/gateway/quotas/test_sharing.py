"""The gateways' parts of a quota make one whole, whatever each is asked for; without heartbeats each has an equal part."""

from __future__ import annotations

import random

import pytest

from gateway.quotas.sharing import SHARE_MIN, WHOLE, QuotaSharing, demand_name, share


def test_demands_that_fit_are_granted_and_the_rest_is_shared() -> None:
    """Each gateway can grow at once."""
    assert share(300_000, [100_000, 0, 0]) == pytest.approx(0.3 + 0.6 / 4)
    assert share(0, [300_000, 100_000, 0]) == pytest.approx(0.6 / 4)


def test_of_demands_that_do_not_fit_the_smaller_go_first() -> None:
    """A gateway that is asked for little is not starved by one that is hammered."""
    assert share(100_000, [WHOLE, WHOLE]) == pytest.approx(0.1)
    assert share(WHOLE, [100_000, WHOLE]) == pytest.approx(0.45)
    assert share(WHOLE, [WHOLE] * 3) == pytest.approx(0.25)


def test_the_parts_make_one_whole_for_any_demands() -> None:
    """Nothing is lost and nothing given twice, but for the least part."""
    chance = random.Random(1)
    for _ in range(500):
        demands = [chance.choice((0, chance.randrange(WHOLE + 1), WHOLE)) for _ in range(chance.randrange(1, 9))]
        parts = [share(own, demands[:at] + demands[at + 1 :]) for at, own in enumerate(demands)]
        assert 1 - 1e-9 <= sum(parts) <= 1 + SHARE_MIN * len(parts) + 1e-9, demands
        assert all(part >= SHARE_MIN for part in parts)


def test_what_is_not_published_or_is_old_is_shared_equally() -> None:
    """Without heartbeats it is the quota divided by the gateways."""
    sharing = QuotaSharing(old_after_ms=12_000)
    assert sharing.part("a", 0) == 1.0
    sharing.update_from_peers([{"a": WHOLE}, {}, {}], 0)
    assert sharing.part("a", 0) == 0.25
    sharing.publish({"a": 100_000})
    assert sharing.part("a", 0) == pytest.approx(0.1)
    assert sharing.part("a", 12_000) == pytest.approx(0.1)
    assert sharing.part("a", 12_001) == 0.25


def test_a_demand_does_not_name_its_principal() -> None:
    """Readers of the store learn no users from heartbeats."""
    name = demand_name("User:alice", "requests_per_s")
    assert "alice" not in name
    assert len(name) == 16
    assert name != demand_name("User:alice", "connections")
