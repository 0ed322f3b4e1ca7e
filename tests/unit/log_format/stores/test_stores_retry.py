"""When a request is sent again: the rules at the top of ``log_format.stores.retry``."""

from __future__ import annotations

import pytest

from log_format.errors import ObjectExists, StoreUnavailable
from log_format.limits import STORE_ATTEMPTS_MAX
from log_format.stores.retry import RequestFailed, Retry
from tests.support.clocks import ManualClock


class _Request:
    """Fails as it is told, one after the other, then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


REFUSED = RequestFailed("refused", may_have_happened=False, may_pass=False)
BUSY = RequestFailed("busy", may_have_happened=False, may_pass=True)
LOST = RequestFailed("lost", may_have_happened=True, may_pass=True)


@pytest.mark.parametrize(
    ("failures", "repeatable", "count", "may_have_happened"),
    [
        ([REFUSED], True, 1, False),
        ([BUSY, REFUSED], False, 2, False),
        ([LOST], False, 1, True),
        ([BUSY, BUSY, LOST], False, 3, True),
        ([LOST, REFUSED], True, 2, True),
        ([LOST, *[BUSY] * 100], True, STORE_ATTEMPTS_MAX, True),
        ([BUSY] * 100, True, STORE_ATTEMPTS_MAX, False),
        ([BUSY] * 100, False, STORE_ATTEMPTS_MAX, False),
    ],
)
def test_what_is_tried_again(
    failures: list[RequestFailed], repeatable: bool, count: int, may_have_happened: bool
) -> None:
    """What may have happened is repeated only when it may be; the error remembers every try that may have landed."""
    request = _Request(*failures)
    with pytest.raises(StoreUnavailable) as raised:
        Retry(budget_ms=60_000, clock=ManualClock()).run("a", request, repeatable=repeatable)
    assert request.count == count
    assert raised.value.may_have_happened is may_have_happened
    assert raised.value.key == "a"


@pytest.mark.parametrize(("failure", "repeatable"), [(BUSY, False), (BUSY, True), (LOST, True)])
def test_a_failure_that_passes_is_not_seen(failure: RequestFailed, repeatable: bool) -> None:
    """The answer of a later try is the answer."""
    request = _Request(failure, failure)
    assert Retry(budget_ms=60_000, clock=ManualClock()).run("a", request, repeatable=repeatable) == "answer"
    assert request.count == 3


def test_reads_change_nothing() -> None:
    """Whatever becomes of a read, nothing has happened."""
    with pytest.raises(StoreUnavailable) as raised:
        Retry(budget_ms=0, clock=ManualClock(), jitter=lambda: 1.0).run(
            "a", _Request(LOST), repeatable=True, changes=False
        )
    assert raised.value.may_have_happened is False


def test_answers_are_not_tried_again() -> None:
    """An error that is an answer (the object exists) goes straight to the caller."""
    request = _Request(ObjectExists("a"))
    with pytest.raises(ObjectExists):
        Retry(budget_ms=60_000, clock=ManualClock()).run("a", request, repeatable=True)
    assert request.count == 1


def test_pauses_grow_and_are_bounded() -> None:
    """Pauses double up to their limit and are taken in part, as the jitter says."""
    clock = ManualClock()
    with pytest.raises(StoreUnavailable):
        Retry(budget_ms=60_000, clock=clock, jitter=lambda: 0.5).run("a", _Request(*[BUSY] * 99), repeatable=True)
    assert clock.slept == [50, 100, 200, 400, 800, 1500, 1500]


@pytest.mark.parametrize(("budget_ms", "count"), [(0, 1), (99, 1), (100, 2), (300, 3), (1500, 5)])
def test_the_time_is_bounded(budget_ms: int, count: int) -> None:
    """No try begins after the budget; none is even waited for that would."""
    clock = ManualClock()
    request = _Request(*[BUSY] * 99)
    with pytest.raises(StoreUnavailable):
        Retry(budget_ms=budget_ms, clock=clock, jitter=lambda: 1.0).run("a", request, repeatable=True)
    assert request.count == count
    assert clock.elapsed_ms <= budget_ms


def test_a_negative_budget_is_a_mistake() -> None:
    """Settings that mean nothing are refused."""
    with pytest.raises(ValueError, match="negative"):
        Retry(budget_ms=-1)
