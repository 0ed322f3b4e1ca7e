"""After three beats four gateways let pass what the quota says, within a tenth, however the load is spread."""

from __future__ import annotations

import pytest

from tests.support.quota_fleet import BEAT_MS, QuotaFleet

RATE = 1_000_000
SPREADS = {
    "even": (500_000, 500_000, 500_000, 500_000),
    "one gateway": (3_000_000, 0, 0, 0),
    "one gateway and crumbs": (2_000_000, 50_000, 50_000, 50_000),
    "just too much": (300_000, 300_000, 300_000, 300_000),
    "uneven": (900_000, 600_000, 200_000, 100_000),
    "two": (0, 5_000_000, 0, 700_000),
}


@pytest.mark.parametrize("are_polite", [True, False])
@pytest.mark.parametrize("request_bytes", [1_000, 90_000])
@pytest.mark.parametrize("spread", SPREADS)
def test_the_quota_is_met_within_a_tenth_after_three_beats(spread: str, request_bytes: int, are_polite: bool) -> None:
    """For loads on one gateway or all, small requests or large, clients that wait or hammer."""
    fleet = QuotaFleet(4, RATE)
    offered = SPREADS[spread]
    fleet.run(offered, 3 * BEAT_MS, request_bytes=request_bytes, are_polite=are_polite)
    measured_ms = 20 * BEAT_MS
    passed = fleet.run(offered, measured_ms, request_bytes=request_bytes, are_polite=are_polite)
    expected = min(RATE, sum(offered)) * measured_ms / 1000
    assert 0.9 * expected <= passed <= 1.1 * expected, passed / expected


def test_a_load_that_moves_to_another_gateway_finds_its_quota_there_after_three_beats() -> None:
    """No gateway keeps a part that it is not asked for."""
    fleet = QuotaFleet(4, RATE)
    fleet.run((3_000_000, 0, 0, 0), 10 * BEAT_MS, request_bytes=1_000, are_polite=True)
    fleet.run((0, 0, 3_000_000, 0), 3 * BEAT_MS, request_bytes=1_000, are_polite=True)
    passed = fleet.run((0, 0, 3_000_000, 0), 10 * BEAT_MS, request_bytes=1_000, are_polite=True)
    assert 0.9 * 30 * RATE <= passed <= 1.1 * 30 * RATE


def test_while_it_moves_no_more_than_twice_the_quota_passes() -> None:
    """The bound of what passes before the gateways have heard of each other."""
    fleet = QuotaFleet(4, RATE)
    fleet.run((3_000_000, 0, 0, 0), 10 * BEAT_MS, request_bytes=1_000, are_polite=True)
    passed = fleet.run((3_000_000,) * 4, 3 * BEAT_MS, request_bytes=1_000, are_polite=True)
    assert passed <= 2 * 9 * RATE
