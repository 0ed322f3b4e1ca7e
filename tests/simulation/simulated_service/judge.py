"""The judge of whole histories: it compares what clients were told over HTTP with what is true in the store (G1 to G5, G8).

The oracle of any log: no acknowledged record is missing; no two values at one offset; no value twice (a producer that
repeats only with its sequence never doubles); no poll skips or goes back; one producer's records keep their order; nothing
that was refused ever appears; and while nothing is wrong nothing is put off. Each topic has its ``Truth``, which follows the
commits as they land.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tests.simulation.simulated.truth import Truth, Violation
from tests.simulation.simulated_service.network import Lost, Reply


class Judge:
    """Judges everything that happens to some topics."""

    def __init__(self, get: Callable[[str, str], bytes]) -> None:
        self._get = get
        self.truths: dict[str, Truth] = {}
        self.told: Counter[str] = Counter()
        self._acknowledged: dict[bytes, tuple[str, int, int]] = {}
        self._refused: dict[bytes, str] = {}
        self._atomic: list[dict[str, dict[int, list[bytes]]]] = []
        self._last_offset: dict[tuple[str, str, int], int] = defaultdict(lambda: -1)
        self._staged: dict[bytes, set[str | None]] = {}

    def truth(self, topic: str) -> Truth:
        """The truth about one topic."""
        if topic not in self.truths:
            # A producer in doubt repeats its request; when the topic was made anew meanwhile, both may have it once.
            self.truths[topic] = Truth(lambda path: self._get(topic, path), across_incarnations=False)
        return self.truths[topic]

    def landed(self, topic: str, version: int, data: bytes, now_ms: int) -> None:
        """A commit appeared in the store."""
        self.truth(topic).landed(version, data, now_ms)

    def acknowledged(
        self,
        producer: str,
        topic: str,
        sent: dict[int, list[bytes]],
        body: Any,
        during: tuple[int, int] | None = None,
    ) -> None:
        """A producer is told where its values are (G1, G2, G5). ``during``: from when to when the request was under way, in
        milliseconds: they are in a topic that was there then. What a former one has of an earlier try counts for nothing."""
        self.told["duplicate" if body["duplicate"] else "acknowledged"] += 1
        truth = self.truth(topic)
        places = {place["partition"]: place for place in body["partitions"]}
        if {partition: place["count"] for partition, place in places.items()} != {p: len(v) for p, v in sent.items()}:
            raise Violation(f"{producer} sent {sent} to {topic} and got {body}")
        for partition, values in sent.items():
            base = places[partition]["base_offset"]
            incarnation = ""
            for index, value in enumerate(values):
                place = truth.places.get(value)
                if place is None or place[1:] != (partition, base + index):
                    raise Violation(
                        f"{value!r} was acknowledged at {(partition, base + index)} of {topic}, it is at {place}"
                    )
                if self._acknowledged.setdefault(value, place) != place:
                    raise Violation(f"{value!r} was acknowledged at {place}, and before at {self._acknowledged[value]}")
                incarnation = place[0]
                if during is not None and incarnation not in self.incarnations(topic, during):
                    raise Violation(f"{value!r} was acknowledged, and is in a topic {incarnation} that was no more")
            line = (producer, incarnation, partition)
            if base <= self._last_offset[line]:
                raise Violation(f"{producer} got offset {base} after {self._last_offset[line]} in {topic}")
            self._last_offset[line] = base + len(values) - 1

    def committed(self, name: str, sent: dict[str, dict[int, list[bytes]]], body: Any) -> None:
        """A client is told that its transaction is committed, and where its records are (G6)."""
        self.told["transaction committed"] += 1
        told = {entry["topic"]: entry["partitions"] for entry in body["topics"]}
        for topic, values in sent.items():
            if topic in told:
                places = {"duplicate": False, "partitions": told[topic]}
                self.acknowledged(f"{name} in {topic}", topic, values, places)
            elif not self._was_deleted(topic):
                raise Violation(f"{name} committed {values} to {topic}, and the answer has no place for them")
        self._atomic.append(sent)

    def incarnations(self, topic: str, during: tuple[int, int]) -> set[str | None]:
        """The ids that the topic had then; None: there was none."""
        return {state.topic_id for state in self.truth(topic).between(*during)}

    def staged(self, topic: str, sent: dict[int, list[bytes]], during: tuple[int, int]) -> None:
        """A transaction has these since then: they may appear in the topic that was there then, and in no other one."""
        ids = self.incarnations(topic, during)
        for value in (value for held in sent.values() for value in held):
            self._staged.setdefault(value, set()).update(ids)

    def aborted(self, sent: dict[str, dict[int, list[bytes]]]) -> None:
        """A transaction ended without a decision to commit: nothing of it may ever appear."""
        self.told["transaction aborted"] += 1
        for values in sent.values():
            for value in (value for held in values.values() for value in held):
                self._refused[value] = "aborted"

    def in_doubt(self, sent: dict[str, dict[int, list[bytes]]]) -> None:
        """The client does not know whether the transaction was committed: all of it is there, or nothing."""
        self.told["transaction in doubt"] += 1
        self._atomic.append(sent)

    def refused(self, values: Sequence[bytes], reply: Reply) -> None:
        """A producer is told that its values never were and never will be in the log (G8)."""
        self.told[reply.error_code] += 1
        for value in values:
            self._refused[value] = f"{reply.status} {reply.body}"

    def unknown(self, what: str) -> None:
        """A client does not know what came of its request."""
        self.told[what] += 1

    def fetched(self, topic: str, partition: int, offset: int, body: Any, started_ms: int, now_ms: int) -> None:
        """A reader's poll from ``offset`` (G3, G4): dense, true, and not older than what stood when it began."""
        truth = self.truth(topic)
        states = [state for state in truth.between(started_ms, now_ms) if state.topic_id is not None]
        states = [state for state in states if partition < state.partition_count]
        if not states:
            raise Violation(f"{topic} was read while it did not exist: {body}")
        expected = offset
        for record in body["records"]:
            if record["offset"] != expected:
                raise Violation(f"a poll of {topic}/{partition} from {offset} gave {record['offset']}, not {expected}")
            value = record["value"].encode()
            found = {truth.values.get((state.topic_id or "", partition, expected)) for state in states}
            if value not in found:
                raise Violation(f"{value!r} was read at {topic}/{partition}/{expected}, where there is {found}")
            expected += 1
            self.told["read"] += 1
        if body["next_offset"] != expected:
            raise Violation(f"a poll of {topic}/{partition} read up to {expected} and goes on at {body['next_offset']}")
        watermarks = {state.next_offsets[partition] for state in states}
        if not min(watermarks) <= body["high_watermark"] <= max(watermarks):
            raise Violation(
                f"{topic}/{partition} was said to end at {body['high_watermark']}, it ended at {sorted(watermarks)}"
            )
        if expected == offset and min(watermarks) > offset:
            raise Violation(
                f"a poll of {topic}/{partition} from {offset} gave nothing, it ends at {sorted(watermarks)}"
            )

    def fetched_by_id(self, topic: str, topic_id: str, partition: int, records: Sequence[tuple[int, bytes]]) -> None:
        """A reader was told that these are of one incarnation of a topic."""
        for offset, value in records:
            found = self.truth(topic).values.get((topic_id, partition, offset))
            if found != value:
                raise Violation(f"{value!r} was read at {topic_id}/{partition}/{offset} of {topic}, where {found!r} is")

    def fetched_of(self, topic: str, partition: int, asked: int, asked_id: str | None, body: Any) -> int:
        """A reader whose position is of a topic by its id was answered; returns where the answer begins. One that was made anew
        is read from its start (G4)."""
        topic_id, records = body["topic_id"], body["records"]
        self.fetched_by_id(topic, topic_id, partition, [(one["offset"], one["value"].encode()) for one in records])
        if asked_id in (None, topic_id):
            return asked
        self.told["read anew"] += 1
        begin: int = records[0]["offset"] if records else body["next_offset"]
        states = [one for one in self.truth(topic).states if one.topic_id == topic_id]
        if not any(partition < one.partition_count and one.log_starts[partition] == begin for one in states):
            raise Violation(
                f"{topic}/{partition} was made anew as {topic_id}, and read from {begin}, not from its start"
            )
        return begin

    def answered_in_quiet(self, request: str, reply: Reply | Lost) -> None:
        """What came of a request while nothing was wrong: it may be refused for what it asks, never put off or lost."""
        self.told["asked in quiet"] += 1
        if isinstance(reply, Lost) or reply.status >= 500:
            raise Violation(f"nothing is wrong, and {request} got {reply}")

    def end(self) -> None:
        """At the end: what was acknowledged is there, what was refused is not (G1, G8)."""
        for value, place in self._acknowledged.items():
            if all(truth.values.get(place) != value for truth in self.truths.values()):
                raise Violation(f"{value!r} was acknowledged at {place} and is not there")
        for sent in self._atomic:
            self._whole_or_nothing(sent)
        for place, value in (item for truth in self.truths.values() for item in truth.values.items()):
            if place[0] not in self._staged.get(value, {place[0]}):
                raise Violation(f"{value!r} is at {place}, and was staged for {self._staged[value]}")
        for value, why in self._refused.items():
            for topic, truth in self.truths.items():
                if value in truth.places:
                    raise Violation(f"{value!r} was refused ({why}) and is at {truth.places[value]} of {topic}")

    def _whole_or_nothing(self, sent: dict[str, dict[int, list[bytes]]]) -> None:
        there: dict[str, bool] = {}
        for topic, by_partition in sent.items():
            values = [value for held in by_partition.values() for value in held]
            present = [value for value in values if value in self.truth(topic).places]
            if len(present) not in {0, len(values)}:
                raise Violation(f"of a transaction's {values} in {topic} only {present} are there")
            there[topic] = bool(present)
        if len({there[topic] for topic in sent if not self._was_deleted(topic)}) > 1:
            raise Violation(f"a transaction is in some of its topics only: {there}")

    def _was_deleted(self, topic: str) -> bool:
        states = self.truth(topic).states
        return any(before.topic_id is not None and after.topic_id is None for before, after in pairwise(states))
