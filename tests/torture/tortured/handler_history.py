"""What handlers of worker processes saw of a queue (``queue_worker``), and the judge of it. Pure.

1. A record is done with only by an accept, by a reject, or after ``deliveries_max`` begun handlers; nothing else is dropped.
2. A delivery counts when a handler begins: a record's count is never above the number of handlers that began with it.
3. What is accepted is not handled again. A dead letter is there once, and was not accepted.

One thing is not promised exactly. A process that is free tells with its request for records that it begins with the first of
them. If it is killed right then, or the answer is lost, these count though no handler saw them (decision 074). So 1 and 2 bear
``slack`` such deliveries over the whole run: as many as processes could begin with when they were killed, or an answer was lost.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Place = tuple[int, int]
"""Partition and offset."""
SHOWN_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """``what``: ``begin``; ``accept`` is called; ``accepted`` or ``not accepted`` is answered. ``count``: the delivery's."""

    what: str
    at: float
    value: str
    place: Place
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A dead letter: the place that it names, and how often it says that it was delivered."""

    value: str
    place: Place
    deliveries: int
    reason: str


@dataclass(slots=True)
class Handling:
    """Of one queue. ``log``: the topic's values by place. ``settled``: of each partition all below this offset is settled."""

    noted: list[Noted]
    log: Mapping[Place, str]
    settled: Mapping[int, int]
    letters: Sequence[Letter] = field(default_factory=list)
    rejected: frozenset[str] = frozenset()
    """Values that handlers reject."""

    def gone(self) -> list[str]:
        """The values that the queue will not give away any more."""
        return [value for (partition, offset), value in self.log.items() if offset < self.settled.get(partition, 0)]

    def counts(self, queue: str) -> dict[str, int]:
        """What happened, by name."""
        found = Counter(f"{queue}: handlers {one.what}" for one in self.noted)
        found[f"{queue}: dead letters"] = len(self.letters)
        found[f"{queue}: deliveries that no handler saw"] = sum(_unseen(self, 1 << 30).values())
        return dict(sorted(found.items()))


def contradictions(handling: Handling, *, deliveries_max: int, slack: int, has_letters: bool) -> list[str]:
    """``has_letters``: the queue has a dead letter topic; else it drops what is dead."""
    found = list(_of_values(handling, has_letters=has_letters))
    unseen = _unseen(handling, deliveries_max)
    if sum(unseen.values()) > slack:
        shown = ", ".join(f"{value} ({count})" for value, count in unseen.most_common(SHOWN_MAX))
        found.append(f"{sum(unseen.values())} deliveries counted that no handler began, {slack} can be: {shown}")
    return found


def _unseen(handling: Handling, deliveries_max: int) -> Counter[str]:
    """By value: how many of its deliveries counted and had no handler."""
    begun: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    for one in sorted(handling.noted, key=lambda noted: noted.at):
        if one.what == "begin":
            begun[one.value] += 1
            unseen[one.value] = max(unseen[one.value], one.count - begun[one.value])
    dead = {letter.value: letter.deliveries for letter in handling.letters}
    may_be_accepted = {one.value for one in handling.noted if one.what == "accept"}
    for value in handling.gone():
        if value in handling.rejected and begun[value]:
            continue
        if value in dead:
            unseen[value] = max(unseen[value], dead[value] - begun[value])
        elif value not in may_be_accepted and deliveries_max < 1 << 30:  # it was dropped
            unseen[value] = max(unseen[value], deliveries_max - begun[value])
    return +unseen


def _of_values(handling: Handling, *, has_letters: bool) -> Iterator[str]:
    begun: dict[str, list[float]] = defaultdict(list)
    tried: set[str] = set()
    accepted: dict[str, float] = {}
    for one in handling.noted:
        if handling.log.get(one.place) != one.value:
            yield f"{one.value} was handed out from {one.place}, where {handling.log.get(one.place)} is"
        if one.what == "begin":
            begun[one.value].append(one.at)
        elif one.what == "accept":
            tried.add(one.value)
        elif one.what == "accepted":
            accepted.setdefault(one.value, one.at)
    for value, at in accepted.items():
        if any(again > at for again in begun[value]):
            yield f"{value} was handled again after it was accepted"
    letters = Counter(letter.value for letter in handling.letters)
    for letter in handling.letters:
        if letters[letter.value] > 1:
            yield f"{letter.value} is {letters[letter.value]} dead letters"
        if letter.value in accepted:
            yield f"{letter.value} was accepted and is a dead letter"
        if handling.log.get(letter.place) != letter.value:
            yield f"the dead letter of {letter.value} names {letter.place}"
    for value in handling.gone():
        if value in tried or value in letters:
            continue
        if not begun[value]:
            yield f"{value} is gone, and no handler ever began with it"
        elif has_letters:
            yield f"{value} was neither accepted nor is it a dead letter, and is gone"
