"""What an operator changed and what users were answered, and what of it contradicts the other.

A right or a secret holds or does not, as its ``Timeline`` says: a change holds at once at the gateway that answered it, and at
the others within ``BOUND_SECONDS``. A request may be answered by either side of a change only as long as that is not over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tests.torture.tortured.renewed_history import Life, gaps_of

BOUND_SECONDS = 5.0
SLACK_SECONDS = 1.0
"""Between a judgement and the arrival of what was judged, for answers and streams that wait."""
LATE_SECONDS_MIN = 0.1
"""A shorter wait is part of ``SLACK_SECONDS``."""
CLOCK_SECONDS = 0.01
"""Secrets end by the wall clock, in whole milliseconds."""
STOPPED, UNAUTHORIZED = "stopped", "unauthorized"
NOTHING: Mapping[str, Collection[int]] = MappingProxyType({})
EVERYWHERE = -1
"""No gateway's index: one that answered no change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """``value`` holds from a moment between ``began`` and ``ended`` on, or so many seconds ``later``."""

    value: bool
    gateway: int
    began: float
    ended: float
    later: float = 0.0

    def certain_at(self, gateway: int, bound: float) -> float:
        """From when on the gateway must go by it. ``bound``: seconds until the others do."""
        here = self.ended + (self.later and self.later + CLOCK_SECONDS)
        return here if gateway == self.gateway else max(here, self.ended + bound)


class Lateness:
    """When this machine let a thread wait, and for how long."""

    def __init__(self) -> None:
        self.spells: list[tuple[float, float]] = []
        """Each one's end and its seconds."""

    def note(self, now: float, seconds: float) -> None:
        """A thread went on at ``now``, so much later than it should have."""
        if seconds > LATE_SECONDS_MIN:
            self.spells.append((now, seconds))

    @property
    def seconds_max(self) -> float:
        """Of the longest wait."""
        return max((seconds for _, seconds in self.spells), default=0.0)

    def around(self, began: float, ended: float) -> float:
        """By how many seconds a look that matters between two moments may have been late: the waits in that time, and in twice
        the bound before it."""
        since = began - 2 * BOUND_SECONDS
        return sum(seconds for end, seconds in self.spells if since <= end and end - seconds <= ended)


class Timeline:
    """Whether something holds. It does not before the first change. One thread changes it, one change after another."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def values(self, gateway: int, begin: float, end: float, bound: float = BOUND_SECONDS) -> set[bool]:
        """What a gateway may have gone by between two moments."""
        found: set[bool] = set()
        for change in reversed(self.changes):
            if change.began + change.later - CLOCK_SECONDS <= end:
                found.add(change.value)
            if change.certain_at(gateway, bound) <= begin:
                return found
        return found | {False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request and its answer. ``status`` 0: none came. ``rights``: all that it needs. ``waits``: it is judged at its end, too.
    ``is_in``: its refusal shows that the caller was let in.

    ``place``: topic, partition and offset of what was written; ``value``: what was to be. ``undone``: the value of a transaction
    that its user gave up. ``offset``: a group and an offset that this request alone commits to it.
    """

    user: str
    what: str
    gateway: int
    secret: Timeline
    rights: tuple[Timeline, ...]
    began: float
    ended: float
    status: int
    code: str = ""
    waits: bool = False
    is_in: bool = False
    value: str | None = None
    place: tuple[str, int, int] | None = None
    undone: bool = False
    is_shut: bool = False
    """The connection was closed behind its login, as that of a secret which has ended is with the next request."""
    topic: str = ""
    """The only topic that it is about, where that is known."""
    offset: tuple[str, int] | None = None

    @property
    def is_let_in(self) -> bool:
        """Whether the answer says so."""
        return self.is_in or 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """An event stream, from its request to its end. ``reason``: the gateway's, ``STOPPED`` by the user, or empty: it broke."""

    user: str
    gateway: int
    secret: Timeline
    right: Timeline
    began: float
    ended: float
    reason: str
    topic: str = ""


@dataclass(slots=True)
class RightsHistory:
    """Of one run. ``troubled``: spans of time in which a gateway was killed or frozen, and not yet whole again. ``frozen``: in
    which one stood still."""

    asked: list[Asked] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    troubled: list[tuple[float, float]] = field(default_factory=list)
    frozen: list[tuple[float, float]] = field(default_factory=list)
    renewed: str = ""
    """A topic that is deleted and made anew meanwhile; empty: there is none."""
    lives: list[Life] = field(default_factory=list)
    """Its incarnations."""

    def may_be_missing(self, topic: str, began: float, ended: float) -> bool:
        """Whether the topic may have been deleted, or not yet made anew, at some moment between."""
        return topic == self.renewed != "" and _is_troubled(gaps_of(self.lives), began, ended)

    def counts(self) -> dict[str, int]:
        """How much of it there was, and how much of it could only be answered so."""
        found = Counter(f"{one.what}: {one.status}" for one in self.asked)
        found["refused as it had to be"] = sum(
            one.status in (401, 403) and True not in _judged(one) for one in self.asked
        )
        found["let in as it had to be"] = sum(one.is_let_in and False not in _judged(one) for one in self.asked)
        found["gateways killed"] = len(self.troubled) - len(self.frozen)
        found["gateways frozen"] = len(self.frozen)
        return dict(sorted((found + Counter(f"stream: {one.reason or 'broke'}" for one in self.followed)).items()))


Log = Mapping[tuple[str, int], list[str]]
"""The values of each topic's partitions, in order."""


def contradictions(
    history: RightsHistory, log: Log, late: Lateness, committed: Mapping[str, Collection[int]] = NOTHING
) -> list[str]:
    """What must not be. ``late``: when this machine let a process wait; gateways may look so much later.
    ``committed``: the offsets that each group ever had."""
    found = [text for one in history.asked for text in _of_request(one, history, late.around(one.began, one.ended))]
    found += [text for one in history.followed for text in _of_stream(one, history, late.around(one.ended, one.ended))]
    return found + list(_of_log(history, log)) + list(_of_offsets(history.asked, committed))


def _judged_since(ended: float, history: RightsHistory, late: float) -> float:
    """Since when an answer or a stream that waits may have been judged last, if it ended then. A gateway that stands still does
    not judge again: what it sent before may arrive when it goes on."""
    since = ended - SLACK_SECONDS - late
    begins = [begin for begin, end in history.frozen if begin <= ended and since <= end + SLACK_SECONDS + late]
    return min([since, *(begin - SLACK_SECONDS - late for begin in begins)])


def _of_request(one: Asked, history: RightsHistory, late: float) -> Iterator[str]:
    whose = f"{one.user}, {one.what} at gateway {one.gateway}, {one.began:.2f} to {one.ended:.2f}"
    bound = BOUND_SECONDS + late
    if one.is_let_in:
        # What another gateway serves is judged there once more: the first one must have let it in anyhow.
        since = max(one.began, _judged_since(one.ended, history, late)) if one.waits else one.began
        if True not in one.secret.values(one.gateway, since, one.ended, bound):
            yield f"{whose}: let in by a secret that had ended"
        if any(True not in right.values(one.gateway, since, one.ended, bound) for right in one.rights):
            yield f"{whose}: let in without the right"
    elif one.status == 401:
        if False not in one.secret.values(one.gateway, one.began, one.ended, bound):
            yield f"{whose}: 401 by a secret that held"
    elif one.status == 403:
        if all(False not in right.values(one.gateway, one.began, one.ended, bound) for right in one.rights):
            yield f"{whose}: 403 with the right"
    elif one.is_shut and False in one.secret.values(one.gateway, one.began, one.ended, bound):
        pass
    elif history.may_be_missing(one.topic, one.began, one.ended):
        if one.status == 404 and any(
            True not in right.values(one.gateway, one.began, one.ended, bound) for right in one.rights
        ):
            yield f"{whose}: told without the right that there is no topic"
    elif one.ended - one.began < BOUND_SECONDS and not _is_troubled(history.troubled, one.began, one.ended):
        # What took longer says that the machine was busy: someone gave up.
        yield f"{whose}: answered {one.status} {one.code}, and no gateway was killed or frozen"


def _of_stream(one: Followed, history: RightsHistory, late: float) -> Iterator[str]:
    whose = f"{one.user}, stream at gateway {one.gateway}, {one.began:.2f} to {one.ended:.2f}"
    bound = BOUND_SECONDS + late
    for name, timeline in (("secret", one.secret), ("right", one.right)):
        if True not in timeline.values(EVERYWHERE, _judged_since(one.ended, history, late), one.ended, bound):
            yield f"{whose}: it outlived its {name}"
    if one.reason == UNAUTHORIZED:
        held = [timeline.values(one.gateway, one.began, one.ended, bound) for timeline in (one.secret, one.right)]
        if all(False not in values for values in held):
            yield f"{whose}: ended as unauthorized, and all held"
    elif (
        one.reason != STOPPED
        and not _is_troubled(history.troubled, one.began, one.ended)
        and not history.may_be_missing(one.topic, one.began, one.ended)
    ):
        yield f"{whose}: it ended with {one.reason!r}, and no gateway was killed or frozen"


def _of_log(history: RightsHistory, log: Log) -> Iterator[str]:
    there = {value for values in log.values() for value in values}
    for one in history.asked:
        if one.place is not None and one.topic == history.renewed != "" and one.began < history.lives[-1].born[1]:
            continue  # it went with its incarnation, or may have
        if one.place is not None:
            topic, partition, offset = one.place
            if log[topic, partition][offset : offset + 1] != [one.value]:
                yield f"{one.value} was acknowledged at {topic}/{partition}@{offset} and is not there"
        elif one.value in there and one.status in (401, 403):
            yield f"{one.value} was refused with {one.status} and is in the log"
        elif one.value in there and one.undone:
            yield f"{one.value} was given up with its transaction and is in the log"


def _of_offsets(asked: Iterable[Asked], committed: Mapping[str, Collection[int]]) -> Iterator[str]:
    for one in asked:
        if one.offset is not None:
            group, offset = one.offset
            is_there = offset in committed.get(group, ())
            if 200 <= one.status < 300 and not is_there:
                yield f"offset {offset} of {group} was acknowledged and never stood"
            elif one.status in (401, 403) and is_there:
                yield f"offset {offset} of {group} was refused with {one.status} and stood"


def _judged(one: Asked) -> set[bool]:
    """Whether it may have been let in, and whether it may have been refused."""
    values = [each.values(one.gateway, one.began, one.ended) for each in (one.secret, *one.rights)]
    possible = {True} if all(True in each for each in values) else set()
    return possible | {False for each in values if False in each}


def _is_troubled(troubled: Sequence[tuple[float, float]], began: float, ended: float) -> bool:
    return any(begin <= ended and began <= end for begin, end in troubled)
