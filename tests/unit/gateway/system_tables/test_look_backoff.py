"""A table in which nothing happens is looked at ever more rarely, and at once after a change."""

from __future__ import annotations

import itertools

from gateway.system_tables.look_backoff import PAUSE_FACTOR_MAX, LookBackoff

PAUSE_MS = 5_000


def looked(looks: LookBackoff, start_ms: int, end_ms: int, seen: object) -> list[int]:
    """When it was looked, asked once a pause as upkeep does."""
    return [now_ms for now_ms in range(start_ms, end_ms, PAUSE_MS) if looks.is_due(now_ms, seen)]


def test_looks_grow_rarer_and_a_change_ends_that() -> None:
    """Twelve times as rare after a while; what this gateway committed, or a gateway that came or went, brings a look at once."""
    looks = LookBackoff(PAUSE_MS)
    assert looked(looks, 0, 80_000, "a") == [0, 5_000, 15_000, 35_000, 75_000]
    rare = looked(looks, 80_000, 600_000, "a")
    assert {later - sooner for sooner, later in itertools.pairwise(rare)} == {PAUSE_FACTOR_MAX * PAUSE_MS}
    assert looked(looks, 600_000, 620_000, "b") == [600_000, 605_000, 615_000]


def test_what_is_left_to_do_keeps_looks_frequent() -> None:
    """Work that was put off is tried again at the first pause."""
    looks = LookBackoff(PAUSE_MS)
    for now_ms in range(0, 60_000, PAUSE_MS):
        assert looks.is_due(now_ms, "a")
        looks.reset()
