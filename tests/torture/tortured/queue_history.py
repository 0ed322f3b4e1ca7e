"""What senders and workers of a queue saw, and what of it contradicts the topic, its dead letters, or itself.

Times are seconds of one monotonic clock, taken before a request was sent and after its answer was read. An outcome is ``yes``,
``no`` (promised: nothing happened) or ``unknown``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True, kw_only=True)
class Sent:
    """One value. ``due_ms``: of a delayed one. ``cancelled``: of a try to cancel it; None: there was none."""

    value: str
    outcome: str
    due_ms: int | None = None
    cancelled: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A record that a worker received under a lease, ``asked`` at the earliest."""

    value: str
    place: Place
    count: int
    lease: str
    lock_s: float
    asked: float
    got: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What a worker did with a delivery."""

    value: str
    lease: str
    action: str
    outcome: str
    sent: float
    answered: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record of the topic in the end. ``due_ms``: by its header."""

    place: Place
    due_ms: int | None
    read_ms: int
    """When it was read first, by the wall clock."""


@dataclass(slots=True)
class QueueHistory:
    """Each list belongs to its threads until they have ended."""

    sent: list[Sent] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)
    """When a worker gave up waiting for an answer to a request for records: some may be locked for it, and count."""

    def counts(self) -> dict[str, int]:
        """What happened, by name."""
        found = Counter(f"sent: {one.outcome}" for one in self.sent)
        found.update(f"delayed: {one.outcome}" for one in self.sent if one.due_ms is not None)
        found.update(f"cancelled: {one.cancelled}" for one in self.sent if one.cancelled is not None)
        found.update(f"{one.action}: {one.outcome}" for one in self.settlements)
        return {"deliveries": len(self.deliveries), **dict(sorted(found.items()))}


def contradictions(
    history: QueueHistory, log: Mapping[str, list[Found]], letters: Mapping[str, list[Place]], *, deliveries_max: int
) -> list[str]:
    """``log``: each value's records; ``letters``: the places that dead letters name, by value. Everything was settled before."""
    found = list(_of_the_topic(history, log))
    found += of_leases(history, deliveries_max)
    found += of_settlements(history, log, letters)
    return found


def _of_the_topic(history: QueueHistory, log: Mapping[str, list[Found]]) -> Iterable[str]:
    """Each value is there as often as its sender was told, and no delayed one before its time."""
    for one in history.sent:
        least, most = {"yes": (1, 1), "no": (0, 0), "unknown": (0, 1)}[one.outcome]
        if one.cancelled == "yes":
            least = most = 0
        elif one.cancelled == "unknown":
            least = 0
        records = log.get(one.value, [])
        if not least <= len(records) <= most:
            yield f"{one.value} ({one.outcome}, cancelled: {one.cancelled}) is there {len(records)} times"
        for record in records:
            if record.due_ms is not None and record.read_ms < record.due_ms:
                yield f"{one.value} was read {record.due_ms - record.read_ms} ms before its time"
    for value in log.keys() - {one.value for one in history.sent}:
        yield f"{value} was never sent"
    for delivery in history.deliveries:
        if delivery.place not in [record.place for record in log.get(delivery.value, [])]:
            yield f"{delivery.value} was delivered from {delivery.place}, where it is not"


def of_leases(history: QueueHistory, deliveries_max: int) -> Iterable[str]:
    """No two live leases on one record; its count never goes back."""
    first_settled: dict[tuple[str, str], float] = {}
    for one in history.settlements:
        key = one.value, one.lease
        first_settled[key] = min(one.sent, first_settled.get(key, one.sent))
    by_value: dict[str, list[Delivery]] = defaultdict(list)
    for delivery in sorted(history.deliveries, key=lambda one: one.asked):
        by_value[delivery.value].append(delivery)
    for value, some in by_value.items():
        for at, first in enumerate(some):
            if not 1 <= first.count <= deliveries_max:
                yield f"{value} was delivered with count {first.count}"
            live_until = min(first.asked + first.lock_s, first_settled.get((value, first.lease), first.asked + 1e9))
            for later in some[at + 1 :]:
                if later.asked > first.got and later.got < live_until:
                    yield f"{value} was leased as {later.lease} while {first.lease} was live"
                if later.asked > first.got and later.count < first.count:
                    yield f"{value} was delivered with count {later.count} after {first.count}"


def of_settlements(
    history: QueueHistory, log: Mapping[str, list[Found]], letters: Mapping[str, list[Place]]
) -> Iterable[str]:
    """What is settled stays settled, each record is settled, and each dead letter is there once."""
    tried: dict[str, list[Settlement]] = defaultdict(list)
    ended: dict[str, Settlement] = {}
    for one in history.settlements:
        tried[one.value].append(one)
        if one.outcome == "yes" and one.action in {"accept", "reject"}:
            if one.value in ended and ended[one.value].lease != one.lease:
                yield f"{one.value} was settled as {ended[one.value].lease} and as {one.lease}"
            ended[one.value] = one
    for delivery in history.deliveries:
        end = ended.get(delivery.value)
        if end is not None and delivery.asked > end.answered:
            yield f"{delivery.value} was delivered as {delivery.lease} after its {end.action}"
    for value, places in letters.items():
        if len(places) > 1:
            yield f"{value} is {len(places)} dead letters"
        if value in ended and ended[value].action == "accept":
            yield f"{value} was accepted and is a dead letter"
        if [record.place for record in log.get(value, [])] != places[:1]:
            yield f"the dead letter of {value} names {places}"
    for value in log:
        may_be_accepted = any(one.action == "accept" and one.outcome != "no" for one in tried[value])
        if value not in letters and not may_be_accepted:
            yield f"{value} was neither accepted nor is it a dead letter, and is gone"
