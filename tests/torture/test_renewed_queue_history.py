"""The judge of a queue whose topic is made anew: histories made by hand, each with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.tortured.history import Place, Write
from tests.torture.tortured.queue_history import Delivery, QueueHistory, Settlement
from tests.torture.tortured.renewed_history import Life
from tests.torture.tortured.renewed_queue import contradictions

LIVES = [Life(topic_id="old", born=(0, 1), died=(10, 11)), Life(topic_id="new", born=(10, 12))]
OLD = Write(
    client="s",
    kind="idempotent request",
    values={"t": {0: ["a"]}},
    outcome="acknowledged",
    started=2,
    ended=3,
    places=[Place(topic="t", partition=0, base_offset=0, values=["a"])],
)
NEW = replace(
    OLD,
    values={"t": {0: ["b"]}},
    started=13,
    ended=14,
    places=[Place(topic="t", partition=0, base_offset=0, values=["b"])],
)
FIRST = Delivery(value="a", place=(0, 0), count=1, lease="1", lock_s=2, asked=4, got=5)
SECOND = replace(FIRST, value="b", lease="2", asked=15, got=16)
ACCEPTED = Settlement(value="a", lease="1", action="accept", outcome="yes", sent=5, answered=6)
ANEW = replace(ACCEPTED, value="b", lease="2", sent=16, answered=17)


def judged(
    deliveries: tuple[Delivery, ...] = (FIRST, SECOND),
    settlements: tuple[Settlement, ...] = (ACCEPTED, ANEW),
    writes: tuple[Write, ...] = (OLD, NEW),
    letters: tuple[tuple[int, int], ...] = (),
    lost: tuple[float, ...] = (),
) -> list[str]:
    history = QueueHistory(deliveries=list(deliveries), settlements=list(settlements), lost=list(lost))
    return contradictions(history, writes, LIVES, {"b": (0, 0)}, {"b": list(letters)} if letters else {})


def test_what_may_happen_contradicts_nothing() -> None:
    """Both incarnations' first records at one place; an old record that nobody settled; a count after a lost answer; a dead
    letter; a request that was sent again is in both."""
    assert judged() == []
    assert judged(settlements=(ANEW,)) == []
    assert judged((FIRST, replace(SECOND, count=2)), lost=(14.5,)) == []
    assert judged(settlements=(replace(ANEW, action="reject"),), letters=((0, 0),)) == []
    assert (
        judged(writes=(replace(OLD, attempts=2), NEW), deliveries=(FIRST, SECOND, replace(FIRST, asked=40, got=41)))
        == []
    )


WRONG = {
    "a record of the new topic is never delivered": judged((FIRST,), (ACCEPTED,)),
    "an old accept settles the new record": judged(settlements=(ACCEPTED, replace(ANEW, outcome="no"))),
    "the count of the old record goes on": judged((FIRST, replace(SECOND, count=2))),
    "an old record after its topic is gone": judged(
        (FIRST, SECOND, replace(FIRST, count=2, asked=20, got=21)), (ANEW,)
    ),
    "from another place": judged((FIRST, replace(SECOND, place=(0, 1)))),
    "two live leases": judged(
        (FIRST, SECOND, replace(SECOND, lease="3", count=2, asked=16.5, got=16.9)),
        (ACCEPTED, replace(ANEW, lease="3", sent=17)),
    ),
    "accepted and a dead letter": judged(letters=((0, 0),)),
    "what nobody sent": judged((FIRST, SECOND, replace(SECOND, value="x", place=(0, 5)))),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_may_not_happen_is_told(name: str) -> None:
    """Each of these histories has a contradiction."""
    assert WRONG[name]
