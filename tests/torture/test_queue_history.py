"""The judge of queues and delayed records: histories made by hand, each with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.tortured.queue_history import Delivery, Found, QueueHistory, Sent, Settlement, contradictions

FIRST = Delivery(value="a", place=(0, 0), count=1, lease="1", lock_s=4, asked=0, got=1)
AGAIN = replace(FIRST, count=2, lease="2", asked=5, got=6)
ACCEPT = Settlement(value="a", lease="1", action="accept", outcome="yes", sent=2, answered=3)
RECORD = Found(place=(0, 0), due_ms=None, read_ms=0)
SENT = Sent(value="a", outcome="yes")


def judged(
    sent: Sent = SENT,
    deliveries: tuple[Delivery, ...] = (FIRST,),
    settlements: tuple[Settlement, ...] = (ACCEPT,),
    log: tuple[Found, ...] = (RECORD,),
    letters: tuple[tuple[int, int], ...] = (),
) -> list[str]:
    history = QueueHistory([sent], list(deliveries), list(settlements))
    found = {"a": list(log)} if log else {}
    return contradictions(history, found, {"a": list(letters)} if letters else {}, deliveries_max=3)


def test_what_may_happen_contradicts_nothing() -> None:
    """Accepted once; delivered again behind the end of a lock; settled in doubt; a dead letter; cancelled in doubt."""
    later = replace(ACCEPT, lease="2", sent=7, answered=8)
    assert judged() == []
    assert judged(deliveries=(FIRST, AGAIN), settlements=(later,)) == []
    assert judged(deliveries=(FIRST, AGAIN), settlements=(replace(ACCEPT, outcome="unknown"), later)) == []
    assert judged(settlements=(replace(ACCEPT, action="reject"),), letters=((0, 0),)) == []
    assert judged(sent=replace(SENT, due_ms=5, cancelled="unknown"), deliveries=(), settlements=(), log=()) == []


WRONG = {
    "an acknowledged value is missing": judged(deliveries=(), settlements=(), log=()),
    "a value is there twice": judged(log=(RECORD, replace(RECORD, place=(0, 1)))),
    "a refused value is there": judged(sent=replace(SENT, outcome="no")),
    "a cancelled value is there": judged(sent=replace(SENT, due_ms=1, cancelled="yes")),
    "one that could not be cancelled is missing": judged(
        sent=replace(SENT, due_ms=1, cancelled="no"), deliveries=(), settlements=(), log=()
    ),
    "a value is there before its time": judged(log=(replace(RECORD, due_ms=1),)),
    "it was delivered from elsewhere": judged(deliveries=(replace(FIRST, place=(1, 0)),)),
    "two live leases": judged(deliveries=(FIRST, replace(AGAIN, asked=1.2, got=1.5)), settlements=(ACCEPT,)),
    "the count goes back": judged(
        deliveries=(replace(FIRST, count=3), AGAIN), settlements=(replace(ACCEPT, lease="2", sent=7, answered=8),)
    ),
    "too many deliveries": judged(deliveries=(replace(FIRST, count=4),)),
    "delivered after it was accepted": judged(deliveries=(FIRST, AGAIN)),
    "accepted under two leases": judged(settlements=(ACCEPT, replace(ACCEPT, lease="2", sent=4, answered=5))),
    "accepted and a dead letter": judged(letters=((0, 0),)),
    "two dead letters": judged(settlements=(), letters=((0, 0), (0, 0))),
    "a dead letter of another place": judged(settlements=(), letters=((0, 1),)),
    "neither accepted nor a dead letter": judged(settlements=(replace(ACCEPT, outcome="no"),)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_may_not_happen_is_told(name: str) -> None:
    """Each of these histories has a contradiction."""
    assert WRONG[name]
