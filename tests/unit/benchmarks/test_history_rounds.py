"""The figures of ``python -m benchmarks history``: rounds of one turn are compared, and a disturbed one decides nothing."""

from __future__ import annotations

import pytest

from benchmarks.fetch.history import ELSEWHERE, LANE, NOBODY, PLAN, WAYS, WAYS_BEFORE
from benchmarks.fetch.rounds import Costs, Round, by_gibibyte, latency, rate, ratio
from benchmarks.harness.pairs import Spread

GIBIBYTE = 2**30


def a_round(*latencies_ms: float, read_bytes: int = 0, gateway: float = 0.0, seconds: float = 2.0) -> Round:
    return Round(seconds, {"produce": list(latencies_ms)}, Costs(gateway, 1.0, 2.0, 3.0), read_bytes)


def test_a_disturbed_round_decides_nothing() -> None:
    """The median counts, and the spread shows the other."""
    rounds = [a_round(10.0), a_round(900.0), a_round(12.0)]
    assert latency(rounds, "produce", 0.99).text(1) == "12.0 (10.0 to 900.0)"


def test_rounds_are_compared_in_their_turn() -> None:
    """A machine that becomes slow in the middle makes both rounds of that turn slow: their ratio stays."""
    nobody = [a_round(10.0), a_round(100.0), a_round(20.0)]
    read = [a_round(11.0), a_round(120.0), a_round(26.0)]
    assert ratio(read, nobody, "produce").text(2) == "1.20 (1.10 to 1.30)"
    with pytest.raises(ValueError, match="zip"):
        ratio(read, nobody[:2], "produce")


def test_what_small_traffic_costs_is_not_the_readers() -> None:
    """A gateway's CPU is counted less what it spends in the same time without readers."""
    alone = [a_round(gateway=0.5, seconds=1.0), a_round(gateway=0.7, seconds=1.0)]
    read = [a_round(gateway=3.2, read_bytes=GIBIBYTE), a_round(gateway=3.2, read_bytes=GIBIBYTE)]
    found = by_gibibyte(read, alone)
    assert found is not None
    assert found.gateway == pytest.approx(3.2 - 0.6 * 2)
    elsewhere = by_gibibyte(read, [])
    assert elsewhere == Costs(3.2, 1.0, 2.0, 3.0)
    assert by_gibibyte(alone, []) is None
    assert rate(read).text(0) == "512 (512 to 512)"
    assert Spread([1234.5]).text(1) == "1,234.5 (1,234.5 to 1,234.5)"


def test_each_way_has_its_base_and_its_floor() -> None:
    """The base, without readers, is measured at each gateway; the lane and the plan have the same way elsewhere."""
    assert NOBODY in WAYS
    for way in (LANE, PLAN):
        assert [each.at for each in WAYS if each.name == way.name] == [way.at, ELSEWHERE]
    assert len(set(WAYS + WAYS_BEFORE)) == len(WAYS) + len(WAYS_BEFORE)
    for way in (*WAYS, *WAYS_BEFORE):
        assert any(each.read is None and each.at == way.small_traffic_at for each in (*WAYS, *WAYS_BEFORE))
