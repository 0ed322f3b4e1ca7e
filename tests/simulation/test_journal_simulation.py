"""Journals under misfortune: topics that come, change, move between journals and their own commits, are drained and deleted.

``make simulate SEEDS=10000`` runs more histories; ``TIDELOG_JOURNAL_SEED=123`` runs that one alone and prints what happened in
it.
"""

from __future__ import annotations

import pytest

from log_format.errors import CorruptData
from tests.simulation.simulated.seeds import Seeds, unseen
from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_journals.world import PROFILES, RESTLESS, simulate_journals

SEEDS = Seeds("JOURNAL", 24, at_once=6)
OFFERED = Seeds("OFFERS", 12, at_once=6)
RESTLESS_SEEDS = Seeds("RESTLESS", 6, at_once=6)
OFFER_SEEDS = 60
"""In which something of offers is looked for, at most."""
OFFERS = ("tests.simulation.simulated_journals.gateway.OFFERED", 0.6)
EVENTFUL_SEEDS = range(3, 15)
"""Of each profile, at most; in the first much happens."""


@pytest.mark.parametrize("part", SEEDS.parts)
def test_journals_keep_the_guarantees(part: int) -> None:
    """What an acknowledgement says holds in either mode, and while a topic moves (G1 to G5, G8).

    A record has one offset, the next one of its partition. Nothing that was refused appears. What the journal takes obeys the
    topic's newest change. A topic's table is a prefix at every version. A look shows all that was acknowledged before it, each
    record once. A repeated request has its first places. In the end the tables alone have everything.
    """
    for seed in SEEDS.of(part):
        simulate_journals(seed, on_note=SEEDS.on_note)


@pytest.mark.parametrize("part", OFFERED.parts)
def test_offers_keep_the_guarantees(part: int) -> None:
    """The same where gateways offer each other their objects, and offers and answers come late or never."""
    for seed in OFFERED.of(part):
        simulate_journals(seed, planted=[OFFERS], on_note=OFFERED.on_note)


@pytest.mark.parametrize("part", RESTLESS_SEEDS.parts)
def test_topics_that_come_and_go_keep_the_guarantees(part: int) -> None:
    """The same where topics move all the time, and moves take long: each stay at a journal has a number of its own."""
    for seed in RESTLESS_SEEDS.of(part):
        simulate_journals(seed, profile=RESTLESS, on_note=RESTLESS_SEEDS.on_note)


def test_a_gateway_that_takes_up_twice_is_found() -> None:
    """An owner that does not know what was taken up or given up stores records twice, or what was refused."""

    plant = ("log_format.journal.committed_versions.CommittedVersions.version_of", lambda *_: None)
    found = None
    for seed in range(OFFER_SEEDS):
        try:
            simulate_journals(seed, planted=[OFFERS, plant])
        except (Violation, CorruptData) as problem:
            found = problem
            break
    assert found is not None


def test_offers_meet_in_one_commit() -> None:
    """The histories have commits with several objects."""
    assert any(simulate_journals(seed, planted=[OFFERS]).seen["taken together"] for seed in range(OFFER_SEEDS))


def test_the_histories_are_eventful() -> None:
    """The simulation is not empty: within a few histories of each profile everything that it is about does happen."""
    entries = ["attach", "close", "drained", "release", "empty"]
    outcomes = ["acknowledged", "duplicate", "looked", "read", "changed", "checkpoint"]
    refusals = ["UNAVAILABLE", "UNKNOWN_TOPIC", "RECORD_TOO_LARGE", "EXPECTED_OFFSET_MISMATCH"]
    others = ["old release: appended", "old release: stopped", "pause", "crash", "outage", "answer lost", "late"]
    expected = {*entries, *outcomes, *refusals, *others}
    assert unseen(expected, simulate_journals, PROFILES, EVENTFUL_SEEDS) == set()
