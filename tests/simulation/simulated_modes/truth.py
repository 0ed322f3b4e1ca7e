"""The truth about topics that come and go between their own commits and journals: every commit, and what follows from each.

Written against decision 035 and not with the code under test, as ``Truth``.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.simulated.truth import Place, TrueState, Truth, Violation

LARGEST = 1 << 20
"""``max.message.bytes`` of a topic that has none."""


class TopicTruth(Truth):
    """One topic: its own log, and what journals gave offsets to.

    ``states`` and ``values`` are those of both together. The table's own log is ``own``: each of its versions holds a prefix.
    """

    def __init__(self, name: str, get: Callable[[str], bytes]) -> None:
        super().__init__(get, across_incarnations=False)
        self.name = name
        self.own = Truth(get, across_incarnations=False)
        self.limits: dict[bytes, int] = {}
        """``max.message.bytes`` when the value got its offset."""
        self.by_journal = 0

    @property
    def attachment(self) -> tuple[int, int, int] | None:
        """Journal, number, first."""
        text = self.own.head.config.get("tidelog.journal")
        if text is None or self.own.head.topic_id is None:
            return None
        journal, number, first = map(int, text.split("/"))
        return journal, number, first

    def landed(self, version: int, data: bytes, now_ms: int) -> None:
        """A commit of the topic's own log. Records that no journal brought are appended by it, where the topic is at none."""
        known, head, was = len(self.own.values), self.head, self.attachment
        self.own.landed(version, data, now_ms)
        own = self.own.head
        if len(self.own.values) > known:
            for place, value in list(self.own.values.items())[known:]:
                if place in self.values:
                    if self.values[place] != value:
                        raise Violation(f"{place} has {self.values[place]!r}, the table of {self.name} says {value!r}")
                    continue
                if was is not None:
                    raise Violation(f"{value!r} is appended to {self.name} itself, which is at journal {was}")
                self._take(place, value)
        next_offsets = own.next_offsets
        if own.topic_id is not None and own.topic_id == head.topic_id:
            more = (0,) * (len(next_offsets) - len(head.next_offsets))
            next_offsets = tuple(map(max, next_offsets, head.next_offsets + more))
        if self.attachment is None and own.topic_id is not None and next_offsets != own.next_offsets:
            raise Violation(
                f"{self.name} leaves its journal with {own.next_offsets} in its table of {next_offsets}: version {version}"
            )
        if any(start > end for start, end in zip(own.log_starts, own.next_offsets, strict=True)):
            raise Violation(f"{self.name} begins at {own.log_starts}, its table ends at {own.next_offsets}")
        self.states.append(replace(own, next_offsets=next_offsets))

    def placed(self, partition: int, offset: int, value: bytes) -> None:
        """A journal gave an offset."""
        state = self.head
        assert state.topic_id is not None
        if partition >= state.partition_count or offset != state.next_offsets[partition]:
            raise Violation(f"a journal gives {value!r} offset {offset} of {self.name}/{partition}, which has {state}")
        self._take((state.topic_id, partition, offset), value)
        self.by_journal += 1
        offsets = list(state.next_offsets)
        offsets[partition] += 1
        self.states[-1] = replace(state, next_offsets=tuple(offsets))

    def journal_lands(self, now_ms: int) -> None:
        """The next offsets are of a new state."""
        self.states.append(replace(self.head, landed_ms=now_ms))

    def is_in_table(self, topic_id: str, partition: int, end: int) -> bool:
        """Whether the table has all records below ``end``, or the topic is gone."""
        own = self.own.head
        return own.topic_id != topic_id or own.next_offsets[partition] >= end

    def _take(self, place: Place, value: bytes) -> None:
        if place in self.values:
            raise Violation(f"{place} names {value!r} and {self.values[place]!r}")
        earlier = self.places.get(value)
        if earlier is not None and earlier[0] == place[0]:
            raise Violation(f"{value!r} is in {self.name} twice: at {earlier} and {place}")
        self.values[place] = value
        self.places[value] = place
        self.limits[value] = int(self.own.head.config.get("tidelog.max.message.bytes", LARGEST))


class JournalTruth:
    """One journal. ``topics``: every topic's truth. It says what the journal may say, given the topics' own logs."""

    def __init__(self, number: int, topics: Mapping[str, TopicTruth], get: Callable[[str], bytes]) -> None:
        self._number = number
        self._topics = topics
        self._get = get
        self._versions = 0
        self._open: dict[str, int] = {}
        self._closed: dict[str, int] = {}
        self._objects: dict[str, list[tuple[str, int, int]]] = {}
        self.closes = 0

    def landed(self, version: int, data: bytes, now_ms: int) -> None:
        """A commit of the journal. Raises ``Violation`` where it may not be."""
        if version < self._versions:
            raise Violation(f"version {version} of journal {self._number} landed again")
        self._versions += 1
        actions = [json.loads(line) for line in data.splitlines()]
        (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
        for entry in _unpacked(info.get("tags", {}).get("tidelog.journal", "[]")):
            self._take_entry(entry)
        for add in (action["add"] for action in actions if "add" in action):
            self._take_object(add, now_ms)
        for remove in (action["remove"] for action in actions if "remove" in action):
            for topic_id, partition, end in self._objects.pop(remove["path"]):
                for topic in self._topics.values():
                    if not topic.is_in_table(topic_id, partition, end):
                        raise Violation(f"journal {self._number} lets {remove['path']} go, {topic.name} needs it")

    def _take_entry(self, entry: list[Any]) -> None:
        kind, topic_id = entry[0], entry[1]
        topic = self._topic(topic_id)
        match kind:
            case "attach":
                number, first = entry[3], entry[4]
                if number <= self._closed.get(topic_id, 0) or topic_id in self._open:
                    raise Violation(f"journal {self._number} takes {entry[2]} under {number}, against {self._closed}")
                if topic is None or topic.attachment != (self._number, number, first):
                    raise Violation(f"journal {self._number} takes {entry[:5]}, the topic is elsewhere: {topic_id}")
                self._open[topic_id] = number
            case "close":
                self.closes += 1
                self._closed[topic_id] = max(entry[2], self._closed.get(topic_id, 0))
                if self._open.get(topic_id, 0) <= entry[2]:
                    self._open.pop(topic_id, None)
            case "drained":
                for partition, end in entry[2]:
                    if topic is not None and not topic.is_in_table(topic_id, partition, end):
                        raise Violation(f"journal {self._number} says {entry} of {topic.own.head}")
            case "release":
                if topic_id in self._open:
                    raise Violation(f"journal {self._number} forgets {topic_id}, which is open")
                # What the topic's table lacks may be another journal's, to which the topic has gone since.
                is_elsewhere = (
                    topic is not None and topic.attachment is not None and topic.attachment[0] != self._number
                )
                if topic is not None and not is_elsewhere and topic.head.next_offsets != topic.own.head.next_offsets:
                    raise Violation(f"journal {self._number} forgets {topic.name} with {topic.head}")

    def _take_object(self, add: dict[str, Any], now_ms: int) -> None:
        try:
            data = self._get(add["path"])
        except KeyError:
            raise Violation(f"journal {self._number} adds {add['path']}, which is not in the store") from None
        records = pq.ParquetFile(pa.BufferReader(data)).read(columns=["topic_id", "partition", "value"])
        rows = list(zip(*(column.to_pylist() for column in records.columns), strict=True))
        held = self._objects[add["path"]] = []
        for topic_id, runs, *_ in _unpacked(add["tags"]["tidelog.runs"]):
            topic = self._topic(topic_id)
            number = self._open.get(topic_id)
            if topic is None or topic.attachment is None or topic.attachment[:2] != (self._number, number):
                raise Violation(f"journal {self._number} appends to {topic_id} under {number}: it is not there")
            topic.journal_lands(now_ms)
            for partition, base, end, *_rest in runs:
                mine = [value for of, at, value in rows if (of, at) == (topic_id, partition)]
                if len(mine) != end - base:
                    raise Violation(f"journal {self._number} has {mine} for offsets {base} to {end}")
                for index, value in enumerate(mine):
                    topic.placed(partition, base + index, value)
                held.append((topic_id, partition, end))
        if sum(len(runs) for _, runs, *_ in _unpacked(add["tags"]["tidelog.runs"])) != len({row[:2] for row in rows}):
            raise Violation(f"{add['path']} has records that the log does not name")

    def _topic(self, topic_id: str) -> TopicTruth | None:
        found = [topic for topic in self._topics.values() if topic.own.head.topic_id == topic_id]
        return found[0] if found else None


def _unpacked(text: str) -> Any:
    return json.loads(text if text.startswith("[") else zlib.decompress(base64.b64decode(text)))


__all__ = ["JournalTruth", "TopicTruth", "TrueState"]
