"""Judges what a reader was given, batch by batch, by what producers were told. Pure.

No place names another value than the one acknowledged there. Nothing comes twice, and no partition goes back from batch to
batch; within a batch, order is the reader's own affair. Nothing is missing. Where keys are compacted a record may be missing
once a later one of its key is acknowledged in its partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tests.torture.tortured.checker import Log
from tests.torture.tortured.history import Write, key_of

Batches = Sequence[Sequence[tuple[str, int, int, str]]]
"""Topic, partition, offset, value of each record."""
Ends = Mapping[tuple[str, int], int]

SHOWN_MAX = 5


class Truth:
    """What was acknowledged, by place; what may be there without being known; which topics' keys are compacted."""

    def __init__(self, writes: Iterable[Write], compacted: Collection[str]) -> None:
        self.values: dict[tuple[str, int, int], str] = {}
        self.possible: set[str] = set()
        self.newest: dict[tuple[str, int, str], int] = {}
        self._compacted = frozenset(compacted)
        for write in writes:
            if write.outcome == "unknown":
                self.possible |= {
                    value for of_topic in write.values.values() for some in of_topic.values() for value in some
                }
            for place in write.places:
                for number, value in enumerate(place.values):
                    offset = place.base_offset + number
                    self.values[place.topic, place.partition, offset] = value
                    line = (place.topic, place.partition, key_of(value))
                    self.newest[line] = max(offset, self.newest.get(line, -1))

    def may_be_missing(self, topic: str, partition: int, offset: int) -> bool:
        """Whether a reader of everything may do without the record."""
        if topic not in self._compacted:
            return False
        value = self.values.get((topic, partition, offset))
        return value is None or self.newest[topic, partition, key_of(value)] > offset


def truth_of(log: Log) -> Truth:
    """Where the whole log is known."""
    truth = Truth((), ())
    for (topic, partition), values in log.items():
        truth.values |= {(topic, partition, offset): value for offset, value in enumerate(values)}
    return truth


def contradictions(reader: str, batches: Batches, truth: Truth, starts: Ends, ends: Ends) -> list[str]:
    """What is wrong with what the reader got of the partitions in ``ends``, in words. It had to see all of [start, end)."""
    found: list[str] = []
    seen: set[tuple[str, int, int]] = set()
    last: dict[tuple[str, int], int] = {}
    for batch in batches:
        for topic, partition, offset, value in sorted(batch):
            place = (topic, partition, offset)
            if place in seen:
                found.append(f"{reader} read {place} twice")
            elif offset <= last.get((topic, partition), -1):
                found.append(f"{reader} read {place} behind {last[topic, partition]}")
            seen.add(place)
            last[topic, partition] = max(offset, last.get((topic, partition), -1))
            known = truth.values.get(place)
            if known is None and value not in truth.possible:
                found.append(f"{reader} read {value} at {place}, where nothing was acknowledged")
            elif known not in (None, value):
                found.append(f"{reader} read {value} at {place}, where {known} was acknowledged")
    found += [
        f"{reader} missed {truth.values.get((topic, partition, offset))} at {(topic, partition, offset)}"
        for (topic, partition), end in ends.items()
        for offset in range(starts.get((topic, partition), 0), end)
        if (topic, partition, offset) not in seen and not truth.may_be_missing(topic, partition, offset)
    ]
    return found[:SHOWN_MAX]


def positions(batches: Batches) -> dict[tuple[str, int], int]:
    """Behind the last offset read, of each partition."""
    found: dict[tuple[str, int], int] = {}
    for batch in batches:
        for topic, partition, offset, _ in batch:
            found[topic, partition] = max(offset + 1, found.get((topic, partition), 0))
    return found
