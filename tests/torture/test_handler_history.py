"""The judge of handlers in worker processes: histories made by hand, each with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.torture.tortured.handler_history import Handling, Letter, Noted, Place, contradictions

LOG: dict[Place, str] = {(0, 0): "a", (0, 1): "b"}
BEGIN = Noted(what="begin", at=1, value="a", place=(0, 0), count=1)
ACCEPT = replace(BEGIN, what="accept", at=2)
ACCEPTED = replace(BEGIN, what="accepted", at=3)
B = (replace(BEGIN, value="b", place=(0, 1)), replace(ACCEPT, value="b", place=(0, 1)))
FAILED = tuple(replace(BEGIN, at=number, count=number) for number in (1, 2, 3))
LETTER = Letter(value="a", place=(0, 0), deliveries=3, reason="max_deliveries")


def judged(
    noted: tuple[Noted, ...] = (BEGIN, ACCEPT, ACCEPTED),
    letters: tuple[Letter, ...] = (),
    *,
    settled: int = 2,
    slack: int = 0,
    has_letters: bool = True,
    rejected: frozenset[str] = frozenset(),
) -> list[str]:
    handling = Handling(noted=[*noted, *B], log=LOG, settled={0: settled}, letters=letters, rejected=rejected)
    return contradictions(handling, deliveries_max=3, slack=slack, has_letters=has_letters)


def test_what_may_happen_contradicts_nothing() -> None:
    """Accepted; again after a handler failed, with a count that a crash of a gateway made too small; dead after as many
    handlers as it takes, kept or dropped; rejected; a count without a handler where a kill explains it."""
    assert judged() == []
    assert judged((BEGIN, ACCEPT)) == []
    assert judged((BEGIN, replace(BEGIN, at=1.5), ACCEPT, ACCEPTED)) == []
    assert judged(FAILED, (LETTER,)) == []
    assert judged(FAILED, has_letters=False) == []
    assert judged((BEGIN,), (replace(LETTER, deliveries=1, reason="x"),), rejected=frozenset("a")) == []
    assert judged((replace(BEGIN, count=2), ACCEPT), slack=1) == []
    assert judged((), settled=0) == []


WRONG = {
    "gone without a handler": judged((), has_letters=False, slack=9),
    "dropped too early": judged(FAILED[:2], has_letters=False),
    "neither accepted nor a letter": judged(FAILED),
    "dead too early": judged(FAILED[:2], (LETTER,)),
    "a count above the handlers": judged((replace(BEGIN, count=2), ACCEPT)),
    "more counts than kills explain": judged((replace(BEGIN, count=3), ACCEPT), slack=1),
    "handled after it was accepted": judged((BEGIN, ACCEPT, ACCEPTED, replace(BEGIN, at=4, count=2))),
    "two letters": judged(FAILED, (LETTER, LETTER)),
    "accepted and a letter": judged((*FAILED, replace(ACCEPTED, at=4)), (LETTER,)),
    "a letter of another place": judged(FAILED, (replace(LETTER, place=(0, 1)),)),
    "handed out from elsewhere": judged((replace(BEGIN, place=(1, 0)), ACCEPT)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_may_not_happen_is_told(name: str) -> None:
    """Each of these histories has a contradiction."""
    assert WRONG[name]
