"""What an operator changed and what users were answered, and what of it contradicts the other.

A right or a secret holds or does not, as its ``Timeline`` says: a change holds at once at the gateway that answered it, and at
the others within ``BOUND_SECONDS``. A request may be answered by either side of a change only as long as that is not over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

BOUND_SECONDS = 5.0
SLACK_SECONDS = 1.0
"""Between a judgement and the arrival of what was judged, for answers and streams that wait."""
CLOCK_SECONDS = 0.01
"""Secrets end by the wall clock, in whole milliseconds."""
STOPPED, UNAUTHORIZED = "stopped", "unauthorized"
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
    """A request and its answer. ``status`` 0: none came. ``right`` None: it needs none. ``waits``: it is judged at its end, too.

    ``place``: topic, partition and offset of what was written; ``value``: what was to be.
    """

    user: str
    what: str
    gateway: int
    secret: Timeline
    right: Timeline | None
    began: float
    ended: float
    status: int
    code: str = ""
    waits: bool = False
    value: str | None = None
    place: tuple[str, int, int] | None = None


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


@dataclass(slots=True)
class RightsHistory:
    """Of one run. ``troubled``: spans of time in which a gateway was killed and not yet whole again."""

    asked: list[Asked] = field(default_factory=list)
    followed: list[Followed] = field(default_factory=list)
    troubled: list[tuple[float, float]] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How much of it there was, and how much of it could only be answered so."""
        found = Counter(f"{one.what}: {one.status}" for one in self.asked)
        found["refused as it had to be"] = sum(
            one.status in (401, 403) and True not in _judged(one) for one in self.asked
        )
        found["let in as it had to be"] = sum(
            200 <= one.status < 300 and False not in _judged(one) for one in self.asked
        )
        found["gateways killed"] = len(self.troubled)
        return dict(sorted((found + Counter(f"stream: {one.reason or 'broke'}" for one in self.followed)).items()))


def contradictions(history: RightsHistory, log: dict[tuple[str, int], list[str]], late_seconds: float) -> list[str]:
    """What must not be. ``late_seconds``: how long this machine let a process wait; gateways may look so much later."""
    found = [text for one in history.asked for text in _of_request(one, history.troubled, late_seconds)]
    found += [text for one in history.followed for text in _of_stream(one, history.troubled, late_seconds)]
    return found + list(_of_log(history.asked, log))


def _of_request(one: Asked, troubled: Sequence[tuple[float, float]], late: float) -> Iterator[str]:
    whose = f"{one.user}, {one.what} at gateway {one.gateway}, {one.began:.2f} to {one.ended:.2f}"
    bound = BOUND_SECONDS + late
    if 200 <= one.status < 300:
        # What another gateway serves is judged there once more: the first one must have let it in anyhow.
        since = max(one.began, one.ended - SLACK_SECONDS - late) if one.waits else one.began
        if True not in one.secret.values(one.gateway, since, one.ended, bound):
            yield f"{whose}: let in by a secret that had ended"
        if one.right is not None and True not in one.right.values(one.gateway, since, one.ended, bound):
            yield f"{whose}: let in without the right"
    elif one.status == 401:
        if False not in one.secret.values(one.gateway, one.began, one.ended, bound):
            yield f"{whose}: 401 by a secret that held"
    elif one.status == 403:
        if one.right is None or False not in one.right.values(one.gateway, one.began, one.ended, bound):
            yield f"{whose}: 403 with the right"
    elif not _is_troubled(troubled, one.began, one.ended):
        yield f"{whose}: answered {one.status} {one.code}, and no gateway was killed"


def _of_stream(one: Followed, troubled: Sequence[tuple[float, float]], late: float) -> Iterator[str]:
    whose = f"{one.user}, stream at gateway {one.gateway}, {one.began:.2f} to {one.ended:.2f}"
    bound = BOUND_SECONDS + late
    for name, timeline in (("secret", one.secret), ("right", one.right)):
        if True not in timeline.values(EVERYWHERE, one.ended - SLACK_SECONDS - late, one.ended, bound):
            yield f"{whose}: it outlived its {name}"
    if one.reason == UNAUTHORIZED:
        held = [timeline.values(one.gateway, one.began, one.ended, bound) for timeline in (one.secret, one.right)]
        if all(False not in values for values in held):
            yield f"{whose}: ended as unauthorized, and all held"
    elif one.reason != STOPPED and not _is_troubled(troubled, one.began, one.ended):
        yield f"{whose}: it ended with {one.reason!r}, and no gateway was killed"


def _of_log(asked: Iterable[Asked], log: dict[tuple[str, int], list[str]]) -> Iterator[str]:
    there = {value for values in log.values() for value in values}
    for one in asked:
        if one.place is not None:
            topic, partition, offset = one.place
            if log[topic, partition][offset : offset + 1] != [one.value]:
                yield f"{one.value} was acknowledged at {topic}/{partition}@{offset} and is not there"
        elif one.value in there and one.status in (401, 403):
            yield f"{one.value} was refused with {one.status} and is in the log"


def _judged(one: Asked) -> set[bool]:
    """Whether it may have been let in, and whether it may have been refused."""
    values = [one.secret.values(one.gateway, one.began, one.ended)]
    if one.right is not None:
        values.append(one.right.values(one.gateway, one.began, one.ended))
    possible = {True} if all(True in each for each in values) else set()
    return possible | {False for each in values if False in each}


def _is_troubled(troubled: Sequence[tuple[float, float]], began: float, ended: float) -> bool:
    return any(begin <= ended and began <= end for begin, end in troubled)
