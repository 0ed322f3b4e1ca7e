"""The truth about topics and journals together: which record is where, told by every commit as it lands.

Written against ``docs/format.md`` and not with the code under test, like ``Truth``: JSON by ``json``, Parquet by
``pyarrow.parquet``. It forgets nothing: of journals it keeps every number that was ever closed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.simulation.simulated.truth import Place, TrueState, Truth, Violation

ATTACHED = "tidelog.journal"


class Ledger:
    """``get`` reads an object from the store itself, by key."""

    def __init__(self, get: Callable[[str], bytes], topics: list[str], journals: list[int]) -> None:
        self.values: dict[Place, bytes] = {}
        """What each place names, for ever, whichever log said it."""
        self.places: dict[bytes, Place] = {}
        self.next_offsets: dict[tuple[str, int], int] = {}
        self.told: Counter[str] = Counter()
        self.tables = {topic: Truth(_below(get, f"topics/{topic}/")) for topic in topics}
        self.journals = {number: TrueJournal(number, self, get) for number in journals}
        self.topic_of: dict[str, str] = {}

    def landed(self, key: str, version: int, data: bytes, now_ms: int) -> None:
        """A commit appeared in the store. Raises ``Violation``."""
        kind, name, _ = key.split("/", 2) if key.startswith("topics/") else key.removeprefix("system/").split("/", 2)
        if kind == "topics":
            self._topic_landed(name, version, data, now_ms)
        elif kind == "journals":
            self.journals[int(name)].landed(version, data)

    def head(self, topic_id: str) -> TrueState | None:
        """The topic's newest state; None where it was deleted."""
        head = self.tables[self.topic_of[topic_id]].head
        return head if head.topic_id == topic_id else None

    def record(self, place: Place, value: bytes) -> None:
        """A record got its place. Raises ``Violation`` unless it is the next one, and new."""
        topic_id, partition, offset = place
        if offset != self.next_offsets.get((topic_id, partition), 0):
            raise Violation(f"{value!r} got {place}, the next offset is {self.next_offsets.get(place[:2], 0)}")
        if value in self.places:
            raise Violation(f"{value!r} is in the log twice: at {self.places[value]} and {place}")
        self.values[place] = value
        self.places[value] = place
        self.next_offsets[topic_id, partition] = offset + 1

    def in_table(self, place: Place) -> bool:
        """Whether the topic's table has the record, or needs it no more."""
        return place in self.tables[self.topic_of[place[0]]].values or self.head(place[0]) is None

    def is_drained(self, topic_id: str) -> bool:
        """Whether the topic's table has all of its records, or it was deleted."""
        head = self.head(topic_id)
        return head is None or all(
            offset == self.next_offsets.get((topic_id, partition), 0)
            for partition, offset in enumerate(head.next_offsets)
        )

    def _topic_landed(self, topic: str, version: int, data: bytes, now_ms: int) -> None:
        truth = self.tables[topic]
        before, count, ghosts = truth.head, len(truth.values), truth.ghosts
        truth.landed(version, data, now_ms)
        if truth.ghosts != ghosts:
            return
        after = truth.head
        if after.topic_id is not None:
            self.topic_of[after.topic_id] = topic
        for place in reversed(list(islice(reversed(truth.values), len(truth.values) - count))):
            if place in self.values:
                self._drained(place, truth.values[place], before)
            else:
                if ATTACHED in before.config:
                    raise Violation(f"{place} was appended to {topic} beside its journal")
                self.record(place, truth.values[place])
        self._check_change(topic, before, after)

    def _drained(self, place: Place, value: bytes, before: TrueState) -> None:
        self.told["drained"] += 1
        if self.values[place] != value:
            raise Violation(f"{place} was drained as {value!r} and is {self.values[place]!r}")
        if ATTACHED not in before.config:
            raise Violation(f"{place} was drained after its topic had left the journal")

    def _check_change(self, topic: str, before: TrueState, after: TrueState) -> None:
        """What a topic is changes only where its journal takes nothing more under the number that it had."""
        if before.topic_id is None or (before.topic_id, before.config) == (after.topic_id, after.config):
            return
        if ATTACHED in before.config:
            number, at, first = attachment(before)
            journal = self.journals[number]
            if before.topic_id in journal.open:
                raise Violation(f"{topic} was changed while its journal was open under {at}")
            # Closed, or never attached and not above the floor: it must never be open from now on.
            journal.closed[before.topic_id] = max(at, journal.closed.get(before.topic_id, 0))
            left = after.topic_id is not None and attachment(after)[::2] != (number, first)
            if left and not self.is_drained(before.topic_id):
                raise Violation(f"{topic} left its journal before all was drained")
        self.told["changed"] += 1


class TrueJournal:
    """One journal."""

    def __init__(self, number: int, ledger: Ledger, get: Callable[[str], bytes]) -> None:
        self.number = number
        self.commits: list[bytes] = []
        self.open: dict[str, int] = {}
        self.closed: dict[str, int] = {}
        """Topic id -> the largest closed number, for ever."""
        self.places: dict[str, list[Place]] = {}
        self._gone: set[str] = set()
        """Live objects -> the places that they have."""
        self._stays: dict[str, int] = {}
        self._ledger = ledger
        self._get = _below(get, f"system/journals/{number}/")

    def landed(self, version: int, data: bytes) -> None:
        """A commit appeared in the store. Raises ``Violation``."""
        if version < len(self.commits):
            return  # where clean-up had deleted one: no reader may see it
        if version > len(self.commits):
            raise Violation(f"version {version} of journal {self.number} was written too early")
        self.commits.append(data)
        actions = [json.loads(line) for line in data.splitlines()]
        tags = actions[0]["commitInfo"].get("tags", {})
        for kind, topic_id, *rest in unpacked(tags.get("tidelog.journal", "[]")):
            self._ledger.told[kind] += 1
            getattr(self, f"_{kind}")(topic_id, *rest)
        adds = [action["add"] for action in actions if "add" in action]
        for add in adds:
            self._take(add)
        self._ledger.told["taken together"] += len(adds) > 1
        for remove in (action["remove"]["path"] for action in actions if "remove" in action):
            self._gone.add(remove)
            for place in self.places.pop(remove, ()):
                if not self._ledger.in_table(place):
                    raise Violation(f"{remove} was removed while its table lacks {place}")

    def _attach(self, topic_id: str, name: str, number: int, first: int, count: int, *rest: Any) -> None:
        del name
        if number <= self.closed.get(topic_id, 0):
            raise Violation(f"{topic_id} is attached under {number}, {self.closed[topic_id]} is closed")
        head = self._ledger.head(topic_id)
        if head is None or attachment(head) != (self.number, number, first) or head.partition_count != count:
            raise Violation(f"{topic_id} is attached under {number}, its log says {head}")
        if self._stays.get(topic_id) != first:
            offsets = [self._ledger.next_offsets.get((topic_id, partition), 0) for partition in range(count)]
            if rest[1] != offsets:
                raise Violation(f"{topic_id} is attached with {rest[1]}, its next offsets are {offsets}")
        self._stays[topic_id] = first
        self.open[topic_id] = number

    def _close(self, topic_id: str, number: int) -> None:
        self.closed[topic_id] = max(number, self.closed.get(topic_id, 0))
        if self.open.get(topic_id, number + 1) <= number:
            del self.open[topic_id]

    def _drained(self, topic_id: str, offsets: list[list[int]], up_to_ms: int) -> None:
        del up_to_ms
        head = self._ledger.head(topic_id)
        for partition, offset in offsets:
            if head is not None and head.next_offsets[partition] < offset:
                raise Violation(f"{topic_id} is said to be drained up to {offset}: its table has {head.next_offsets}")

    def _release(self, topic_id: str, number: int) -> None:
        head = self._ledger.head(topic_id)
        is_here = head is not None and attachment(head)[::2] == (self.number, self._stays.get(topic_id))
        if topic_id in self.open or number > self.closed.get(topic_id, 0) or is_here:
            raise Violation(f"{topic_id} was released from {number} while it is there")

    def _empty(self, topic_id: str, *stamp: Any) -> None:
        if topic_id not in self.open:
            raise Violation(f"{topic_id} is closed, and took {stamp}")

    def _take(self, add: dict[str, Any]) -> None:
        if add["path"] in self.places or add["path"] in self._gone:
            raise Violation(f"{add['path']} is taken up again, or after it was given up")
        data = self._get(add["path"])
        file = pq.ParquetFile(pa.BufferReader(data)).read(columns=["topic_id", "partition", "value"], use_threads=False)
        rows = iter(zip(*(column.to_pylist() for column in file.columns), strict=True))
        places = self.places[add["path"]] = []
        for topic_id, runs, _stamped, _applied in unpacked(add["tags"]["tidelog.runs"]):
            head = self._ledger.head(topic_id)
            if head is None or attachment(head)[:2] != (self.number, self.open.get(topic_id)):
                raise Violation(f"{topic_id} got records under {self.open.get(topic_id)}, its log says {head}")
            bytes_max = int(head.config.get("tidelog.max.message.bytes", 1 << 20))
            for partition, base, end, *_ in runs:
                if partition >= head.partition_count:
                    raise Violation(f"{topic_id} got records in partition {partition} of {head.partition_count}")
                for offset in range(base, end):
                    found_id, found_partition, value = next(rows)
                    if (found_id, found_partition) != (topic_id, partition) or len(value) > bytes_max:
                        raise Violation(f"{add['path']} has {value!r} where it should have {(topic_id, partition)}")
                    places.append((topic_id, partition, offset))
                    self._ledger.record(places[-1], value)
        if next(rows, None) is not None:
            raise Violation(f"{add['path']} has records that its commit does not name")


def attachment(state: TrueState) -> tuple[int, int, int]:
    """Journal, number and first of a topic; -1 where it has its own commits."""
    text = state.config.get(ATTACHED)
    if text is None:
        return -1, -1, -1
    journal, number, first = map(int, text.split("/"))
    return journal, number, first


def unpacked(text: str) -> Any:
    """The JSON of a tag."""
    return json.loads(text if text.startswith("[") else zlib.decompress(base64.b64decode(text)))


def _below(get: Callable[[str], bytes], root: str) -> Callable[[str], bytes]:
    return lambda path: get(root + path)
