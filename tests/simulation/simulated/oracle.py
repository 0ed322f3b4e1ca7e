"""The judge: what each actor was told, against what is true. Every check raises ``Violation`` at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from log_format.errors import ErrorCode, OffsetOutOfRange, TidelogError, TopicReplaced, UnknownTopic
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.state import TopicState
from tests.simulation.simulated.truth import TrueState, Truth, Violation


class Oracle:
    """Judges one topic."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.acknowledged: dict[bytes, tuple[str, int, int]] = {}
        self.refused: set[bytes] = set()
        self.told: Counter[str] = Counter()
        """How often clients were told each outcome."""
        self._last_place: dict[tuple[str, str, int], int] = defaultdict(lambda: -1)

    def saw(self, state: TopicState) -> None:
        """A process holds this state: the log had it at this version (G3, G4)."""
        true = self.truth.state_at(state.version)
        seen = (state.topic_id, state.partition_count, tuple(state.next_offsets), tuple(state.log_starts))
        if seen != (true.topic_id, true.partition_count, true.next_offsets, true.log_starts):
            raise Violation(f"version {state.version} was seen as {seen}, it is {true}")

    def changed(self, state: TopicState) -> None:
        """A process's state has just become this one: its segments are those of the log at this version."""
        self.saw(state)
        true = self.truth.state_at(state.version)
        if state.exists and {segment.path for segment in state.manifest.segments()} != true.paths:
            raise Violation(f"version {state.version} was seen with other segments than it has")

    def looked(self, state: TopicState, started_ms: int, now_ms: int) -> None:
        """A look that began at ``started_ms`` gave this state: the newest at some moment since (G4)."""
        self.saw(state)
        newest = self.truth.between(started_ms, now_ms)
        if not newest[0].version <= state.version <= newest[-1].version:
            raise Violation(
                f"a look from {started_ms} to {now_ms} gave version {state.version}, "
                f"the head went from {newest[0].version} to {newest[-1].version}"
            )

    def acknowledge(
        self, producer: str, topic_id: str, values: dict[int, list[bytes]], places: Sequence[AppendedRange]
    ) -> None:
        """A producer is told that its values, by partition, are at these places (G1, G2)."""
        self.told["acknowledged"] += 1
        if [(place.partition, place.count) for place in places] != [(p, len(values[p])) for p in sorted(values)]:
            raise Violation(f"{producer} sent {values} and got {places}")
        for place in places:
            for index, value in enumerate(values[place.partition]):
                at = (topic_id, place.partition, place.base_offset + index)
                if self.truth.values.get(at) != value:
                    raise Violation(f"{value!r} was acknowledged at {at}, where there is {self.truth.values.get(at)!r}")
                self.acknowledged[value] = at
            line = (producer, topic_id, place.partition)
            if place.base_offset <= self._last_place[line]:
                raise Violation(f"{producer} got offset {place.base_offset} after {self._last_place[line]}")
            self._last_place[line] = place.base_offset + place.count - 1

    def routed_rightly(self, values: Iterable[bytes], partition_count: int | None) -> None:
        """Acknowledged values that were routed by this partition count (None: by name) stand where it was the topic's (G2)."""
        for value in values:
            version = self.truth.versions[value]
            if partition_count not in {None, self.truth.state_at(version).partition_count}:
                raise Violation(f"{value!r} was routed by {partition_count} partitions and is in version {version}")

    def refuse(
        self,
        values: Iterable[bytes],
        topic_id: str,
        record_bytes: int,
        partition_count: int | None,
        error: TidelogError,
        started_ms: int,
        now_ms: int,
    ) -> None:
        """A producer is told that its values are not in the log and never will be (G8), and why."""
        self.told[error.code] += 1
        assert not error.may_have_happened
        self.refused.update(values)
        states = self.truth.between(started_ms, now_ms)
        if isinstance(error, UnknownTopic):
            justified = any(state.topic_id is None for state in states)
        elif isinstance(error, TopicReplaced):
            justified = any(state.topic_id not in {None, topic_id} for state in states)
            if partition_count is not None:
                justified |= any(state.partition_count not in {0, partition_count} for state in states)
            self.told["replaced"] += 1
        elif error.code is ErrorCode.RECORD_TOO_LARGE:
            justified = any(record_bytes > int(s.config.get("tidelog.max.message.bytes", "1048576")) for s in states)
        else:
            justified = error.code is ErrorCode.UNAVAILABLE
        if not justified:
            raise Violation(f"refused with {error.code} ({error.detail}), which was true at no moment: {states}")

    def unknown(self) -> None:
        """A client is told that the outcome is unknown."""
        self.told["outcome unknown"] += 1

    def made(self, made: bool, topic_id: str, partition_count: int, started_ms: int, now_ms: int) -> None:
        """A client is told that the topic exists with this partition count, and whether its call created it."""
        states = self.truth.between(started_ms, now_ms)
        self.told["created" if made else "exists"] += 1
        if made and not any(state.topic_id == topic_id for state in states):
            raise Violation(f"topic {topic_id} was said to be made, and never was")
        if not made and not any(s.topic_id is not None and s.partition_count == partition_count for s in states):
            raise Violation("the topic was said to exist at no moment at which it did")

    def deleted(self, started_ms: int, now_ms: int) -> None:
        """A client is told that it deleted the topic."""
        self.told["deleted"] += 1
        if not any(state.topic_id is None for state in self.truth.between(started_ms, now_ms)):
            raise Violation("the topic was said to be deleted, and never was")

    def trimmed(self, starts: dict[int, int], started_ms: int, now_ms: int) -> None:
        """A client is told these log starts."""
        self.told["trimmed"] += 1
        states = self.truth.between(started_ms, now_ms)
        if not any(all(_starts_at(state, p, offset) for p, offset in starts.items()) for state in states):
            raise Violation(f"log starts {starts} were true at no moment: {states}")

    def refused_change(self, error: TidelogError, started_ms: int, now_ms: int) -> None:
        """An administrator is told that the change can't be."""
        self.told[error.code] += 1
        states = self.truth.between(started_ms, now_ms)
        if isinstance(error, UnknownTopic):
            justified = any(state.topic_id is None for state in states)
        elif isinstance(error, OffsetOutOfRange):
            partition, high_watermark = error.fields["partition"], error.fields["high_watermark"]
            justified = any(
                partition < s.partition_count and s.next_offsets[partition] == high_watermark for s in states
            )
        elif error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            justified = any(state.topic_id is not None for state in states)
        else:
            justified = error.code in {ErrorCode.UNAVAILABLE, ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_PARTITION}
        if not justified:
            raise Violation(f"refused with {error.code} ({error.detail}), which was true at no moment: {states}")

    def read(self, topic_id: str, partition: int, offset: int, value: bytes) -> None:
        """A reader met a record (G3, G4: it is committed, and this place names nothing else)."""
        self.told["read"] += 1
        true = self.truth.values.get((topic_id, partition, offset))
        if true != value:
            raise Violation(f"{value!r} was read at {(topic_id, partition, offset)}, where there is {true!r}")

    def end(self) -> None:
        """At the end: every acknowledged value is where it was said to be, nothing that was refused is anywhere (G1, G8)."""
        for value, place in self.acknowledged.items():
            if self.truth.values.get(place) != value:
                raise Violation(f"{value!r} was acknowledged at {place} and is not there")
        for value in self.refused:
            if value in self.truth.places:
                raise Violation(f"{value!r} was refused and is at {self.truth.places[value]}")


def _starts_at(state: TrueState, partition: int, offset: int) -> bool:
    return partition < state.partition_count and state.log_starts[partition] == offset
