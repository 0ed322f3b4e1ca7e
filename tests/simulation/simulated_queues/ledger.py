"""The judge of histories of queues: it compares what callers were told with each other and with the dead letter topic.

1. No record has two live leases. A lease is live from its answer's making until the time that the answer names, a renewal's
   answer included, unless its holder gave the record back.
2. A record is accepted once in effect: by one lease, and never delivered after that, nor a dead letter.
3. A settlement that is sent when its lease is over settles nothing, unless it repeats an earlier one.
4. Delivery counts begin at 1, never go back, grow with each release, and stay within the limit.
5. A dead letter is there once, with what the headers must say.
6. A record has no more deliveries, dead or not, than receivers began with it. An answer that was lost may have counted some.
7. At the end every record was accepted or is a dead letter.
8. All of this is of one incarnation of the topic. One that is made anew has other records, at places of the former one's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.simulation.simulated.truth import Violation

_NEVER_MS = 2**62
Place = tuple[str, int, int, str]
"""Topic, partition, offset, and the record's value, which no other record has: so it tells one incarnation from another."""


@dataclass(slots=True)
class Given:
    """A record under a lease, as its holder knows it."""

    place: Place
    lease: str
    count: int
    issued_ms: int
    until_ms: int
    back_ms: int = _NEVER_MS
    """When its holder may have released or rejected it."""
    released_ms: int = 0
    """When its release was acknowledged."""
    sent: set[str] = field(default_factory=set)
    """The settlements that were sent."""
    is_begun: bool = True
    """Whether it may count as a delivery."""


class Ledger:
    """``now_ms``: virtual wall time; ``note``: adds to the trace."""

    def __init__(self, now_ms: Callable[[], int], note: Callable[[str], None], *, max_deliveries: int) -> None:
        self.told: Counter[str] = Counter()
        self._now_ms = now_ms
        self._note = note
        self._max_deliveries = max_deliveries
        self._given: dict[Place, list[Given]] = defaultdict(list)
        self._accepted: dict[Place, tuple[str, int]] = {}
        self._may_be_accepted: set[Place] = set()
        self._lost_counting = 0

    def lost(self, begun_max: int) -> None:
        """The answer to a receive did not come: what it gave is not known."""
        self._lost_counting += begun_max > 0

    def given(
        self, place: Place, lease: str, count: int, until_ms: int, lock_ms: int, *, is_begun: bool = True
    ) -> Given:
        """An answer delivers a record. ``is_begun``: it counts at once."""
        given = Given(place, lease, count, until_ms - lock_ms, until_ms, is_begun=is_begun)
        self._note(f"{place} is given under {lease}, delivery {count}, until {until_ms}")
        for other in self._given[place]:
            is_live = other.issued_ms < given.until_ms and min(other.until_ms, other.back_ms) > given.issued_ms
            if other.lease != lease and is_live:
                raise Violation(f"{place} has two live leases: {other.lease} until {other.until_ms}, and {lease}")
        accepted = self._accepted.get(place)
        if accepted is not None and accepted[0] != lease and accepted[1] < given.issued_ms:
            raise Violation(f"{place} was accepted under {accepted[0]} and is given again under {lease}")
        # An answer may come later than the next one.
        due = max([1, *(one.count for one in self._given[place] if one.until_ms < given.issued_ms)])
        due = max([due, *(one.count + 1 for one in self._given[place] if 0 < one.released_ms < given.issued_ms)])
        if not due <= count <= self._max_deliveries:
            raise Violation(f"{place} has delivery count {count}, at least {due} was due")
        self._given[place].append(given)
        self.told["given"] += 1
        if count > 1:
            self.told["given again"] += 1
        return given

    def _check_begun(self, place: Place, deliveries: int, before_ms: int = _NEVER_MS) -> None:
        begun = sum(one.is_begun for one in self._given[place] if one.issued_ms < before_ms)
        if deliveries > begun + self._lost_counting:
            raise Violation(f"{place} counts {deliveries} deliveries, though {begun} were begun")

    def sends(self, given: Given, action: str, *, begun: bool = True, lock_ms: int = 0) -> bool:
        """A settlement is on its way; whether it may count. ``begun``: the record counts as delivered by it."""
        given.is_begun |= begun
        self._note(f"{action} of {given.place} under {given.lease} is sent")
        # A renewal whose answer was lost may have prolonged it.
        may_count = self._now_ms() < given.until_ms or bool({action, "renew"} & given.sent)
        given.sent.add(action)
        if action == "accept":
            self._may_be_accepted.add(given.place)
        elif action == "renew":
            given.until_ms = min(given.until_ms, self._now_ms() + lock_ms)  # it may shorten the lock
        else:
            given.back_ms = min(given.back_ms, self._now_ms())
        return may_count

    def settled(
        self, given: Given, action: str, may_count: bool, is_settled: bool, until_ms: int, *, begun: bool = True
    ) -> None:
        """It was answered."""
        self._note(f"{action} of {given.place} under {given.lease} is settled: {is_settled}")
        self.told[f"{action} {'settled' if is_settled else 'refused'}"] += 1
        if not is_settled:
            return
        if not may_count:
            raise Violation(f"{action} of {given.place} counts, though {given.lease} was over at {given.until_ms}")
        if action == "accept":
            self.accepted(given)
        elif action == "release":
            if begun:
                given.released_ms = given.released_ms or self._now_ms()
        elif action == "renew":
            given.until_ms = until_ms

    def accepted(self, given: Given) -> None:
        """An accept is acknowledged."""
        known = self._accepted.setdefault(given.place, (given.lease, self._now_ms()))
        if known[0] != given.lease:
            raise Violation(f"{given.place} was accepted under {known[0]} and under {given.lease}")

    def held_on(self, given: Given) -> None:
        """A settlement waits for a transaction: the lock holds until that ends."""
        given.until_ms = _NEVER_MS
        self.told["held by a transaction"] += 1

    def freed(self, given: Given) -> None:
        """The transaction has ended otherwise, or may have."""
        given.back_ms = min(given.back_ms, self._now_ms())

    def finished(self, there: list[Place], dead: list[tuple[Place, int, str]]) -> None:
        """Nothing is left in the queue. ``there``: what the topic has."""
        places = Counter(place for place, _, _ in dead)
        if twice := [place for place, count in places.items() if count > 1]:
            raise Violation(f"dead letters are there more than once: {twice}")
        for given in (one for some in self._given.values() for one in some):
            self._check_begun(given.place, given.count - 1, given.issued_ms)
        for place, deliveries, reason in dead:
            if place in self._accepted:
                raise Violation(f"{place} was accepted under {self._accepted[place][0]}, and is a dead letter")
            if reason == "max_deliveries":
                self._check_begun(place, deliveries)
            elif not any("reject" in given.sent for given in self._given[place]):
                raise Violation(f"{place} is a dead letter ({reason}), which nobody rejected")
            if reason == "max_deliveries" and deliveries != self._max_deliveries:
                raise Violation(f"{place} is dead after {deliveries} deliveries of {self._max_deliveries}")
        for place in there:
            if place not in self._may_be_accepted and place not in places:
                raise Violation(f"{place} is lost: it was neither accepted nor is it a dead letter")
        self.told["dead letter"] += len(dead)
