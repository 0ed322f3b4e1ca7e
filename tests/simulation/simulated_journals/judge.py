"""What clients are told, against the ledger. Every check raises ``Violation`` at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from log_format.errors import CorruptData, TidelogError
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, Duplicate
from log_format.topic.applied_transactions import TransactionEnded, TransactionStamp
from log_format.topic.producers import ProducerStamp
from log_format.topic.state import TopicState
from tests.simulation.simulated.truth import Place, Violation
from tests.simulation.simulated_journals.ledger import Ledger


@dataclass(eq=False)
class Request:
    """Records on their way; the same again when it is repeated."""

    producer: str
    values: list[bytes]
    stamp: ProducerStamp | None = None
    transaction: TransactionStamp | None = None
    topic_id: str | None = None
    """Of the incarnation that it is for, once it was routed."""
    routes: dict[bytes, int] = field(default_factory=dict)
    expected: int | None = None

    @property
    def is_repeated(self) -> bool:
        """Whether it may be sent again without being there twice."""
        return self.stamp is not None or self.transaction is not None


class Judge:
    """Of all clients."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.acknowledged: dict[bytes, Place] = {}
        self.refused: set[bytes] = set()
        self.maybe: set[bytes] = set()
        """Values of requests with an unknown outcome."""
        self._answered: dict[ProducerStamp | TransactionStamp, tuple[str | None, tuple[AppendedRange, ...]]] = {}
        self._last: dict[tuple[str, str, int], int] = defaultdict(lambda: -1)

    def told(self, request: Request, outcome: AppendOutcome | None) -> bool:
        """A client got this answer; None: it got none. Whether it is the last word."""
        ledger = self.ledger
        match outcome:
            case None:
                ledger.told["unknown"] += 1
                self.maybe.update(request.values)
                return False
            case CorruptData():
                raise outcome
            case TransactionEnded():
                return self._ended(request)
            case TidelogError():
                ledger.told[outcome.code] += 1
                if outcome.may_have_happened:
                    self.maybe.update(request.values)
                elif not request.is_repeated:
                    self.refused.update(request.values)
                return not request.is_repeated or not outcome.retryable
            case Duplicate():
                ledger.told["duplicate"] += 1
                if not request.is_repeated:
                    raise Violation(f"{request} was called a duplicate")
                self._acknowledge(request, outcome.offset_ranges)
            case _:
                ledger.told["acknowledged"] += 1
                self._acknowledge(request, outcome)
                if request.expected is not None and outcome[0].base_offset != request.expected:
                    raise Violation(f"{request} expected {request.expected} and got {outcome}")
                if not request.is_repeated:
                    self._in_order(request, outcome)
        return True

    def _acknowledge(self, request: Request, places: tuple[AppendedRange, ...]) -> None:
        found: list[bytes] = []
        for place in places:
            for offset in range(place.base_offset, place.base_offset + place.count):
                at = (str(request.topic_id), place.partition, offset)
                value = self.ledger.values.get(at)
                if value not in request.values:
                    raise Violation(f"{request} was acknowledged at {at}, where there is {value!r}")
                self.acknowledged[value] = at
                found.append(value)
        if sorted(found) != sorted(request.values):
            raise Violation(f"{request} was acknowledged with {places}")
        key = request.stamp or request.transaction
        if key is not None and self._answered.setdefault(key, (request.topic_id, places)) != (request.topic_id, places):
            raise Violation(f"{request} was acknowledged at {self._answered[key]}, now at {places}")

    def _ended(self, request: Request) -> bool:
        self.ledger.told["ended"] += 1
        for value in request.values:
            if value not in self.ledger.places:
                raise Violation(f"{request} is said to have ended, and {value!r} is nowhere")
        return True

    def _in_order(self, request: Request, places: tuple[AppendedRange, ...]) -> None:
        for place in places:
            line = (request.producer, str(request.topic_id), place.partition)
            if place.base_offset <= self._last[line]:
                raise Violation(f"{request.producer} got {place} after offset {self._last[line]}")
            self._last[line] = place.base_offset + place.count - 1

    def known_ends(self, topic: str) -> dict[tuple[str, int], int]:
        """Where the acknowledged records of the topic's incarnation end by now."""
        head = self.ledger.tables[topic].head
        ends: dict[tuple[str, int], int] = {}
        for topic_id, partition, offset in self.acknowledged.values():
            if topic_id == head.topic_id:
                ends[topic_id, partition] = max(offset + 1, ends.get((topic_id, partition), 0))
        return ends

    def looked(self, state: TopicState, before: dict[tuple[str, int], int]) -> None:
        """A look that began when ``before`` was acknowledged showed this: all of it, and each record once."""
        self.ledger.told["looked"] += 1
        for (topic_id, partition), end in before.items():
            if topic_id == state.topic_id and state.high_watermark(partition) < end:
                raise Violation(
                    f"partition {partition} is seen up to {state.high_watermark(partition)}, {end} was said"
                )
        for partition in range(state.partition_count):
            end = state.high_watermark(partition)
            if end > self.ledger.next_offsets.get((str(state.topic_id), partition), 0):
                raise Violation(f"partition {partition} is seen up to {end}, which is not there")
            self._whole(state, partition, end)

    def _whole(self, state: TopicState, partition: int, end: int) -> None:
        offset = state.log_start(partition)
        listed = [run for run in state.manifest.runs(partition) if run.end_offset > offset and run.base_offset < end]
        while offset < end:
            found = state.manifest.find(partition, offset)
            if found is None or found.base_offset > offset:
                raise Violation(f"offset {offset} of partition {partition} is seen nowhere, the end at {end}")
            if not listed or listed.pop(0) != found:
                raise Violation(f"partition {partition} lists other runs than it finds at {offset}: {found}")
            offset = found.end_offset
        for one in listed:
            raise Violation(f"partition {partition} lists {one} twice")

    def read(self, state: TopicState, partition: int, offset: int, rows: list[tuple[int, bytes]]) -> None:
        """A reader at ``offset`` got these records."""
        if [found for found, _ in rows] != list(range(offset, offset + len(rows))) or not rows:
            raise Violation(f"a reader at {offset} of partition {partition} got {rows}")
        for found, value in rows:
            self.ledger.told["read"] += 1
            true = self.ledger.values.get((str(state.topic_id), partition, found))
            if true != value:
                raise Violation(f"{value!r} was read at {found} of partition {partition}, where there is {true!r}")

    def end(self) -> None:
        """At the end nothing that was refused is anywhere, and all that was acknowledged is where it was said to be."""
        for value, place in self.acknowledged.items():
            if self.ledger.values.get(place) != value:
                raise Violation(f"{value!r} was acknowledged at {place} and is not there")
        for value in self.refused - self.maybe:
            if value in self.ledger.places:
                raise Violation(f"{value!r} was refused and is at {self.ledger.places[value]}")
