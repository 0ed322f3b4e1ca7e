"""The judge of histories in which clients come by both doors: that of HTTP's, and what Kafka's are told besides.

A committed offset is the newest acknowledged one, or one whose commit is in doubt, by whatever door it is read. A transaction
that was said to be committed is there, though its client was told no offsets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.simulated.truth import Violation
from tests.simulation.simulated_service.judge import Judge
from tests.simulation.simulated_service.network import Reply

Key = tuple[str, str, int]
"""Group, topic, partition."""
Sent = dict[str, dict[int, list[bytes]]]


class KafkaJudge(Judge):
    """Judges what clients of both doors are told."""

    def __init__(self, get: Callable[[str, str], bytes]) -> None:
        super().__init__(get)
        self._there: list[Sent] = []
        self._offset: dict[Key, tuple[int, str | None]] = {}
        """The newest acknowledged one, and for which incarnation of the topic; None: for one that was exchanged meanwhile."""
        self._in_doubt: dict[Key, set[int]] = {}

    def refused_by_kafka(self, values: list[bytes], error: str) -> None:
        """A producer is told that its values never were and never will be in the log."""
        self.refused(values, Reply(status=400, headers={}, body={"error_code": error}))

    def committed_unplaced(self, sent: Sent) -> None:
        """A client is told that its transaction is committed."""
        self.told["Kafka's transaction committed"] += 1
        self._there.append(sent)
        self._atomic.append(sent)

    def fetched_by_id(self, topic: str, topic_id: str, partition: int, records: list[tuple[int, bytes]]) -> None:
        """A reader asked for one incarnation of a topic."""
        for offset, value in records:
            found = self.truth(topic).values.get((topic_id, partition, offset))
            if found != value:
                raise Violation(f"{value!r} was read at {topic_id}/{partition}/{offset} of {topic}, where {found!r} is")

    def offset_committed(self, key: Key, offset: int, started_ms: int, now_ms: int) -> None:
        """A commit is acknowledged."""
        self.told["offset committed"] += 1
        incarnations = self._incarnations(key, started_ms, now_ms)
        self._offset[key] = (offset, incarnations.pop() if len(incarnations) == 1 else None)

    def offset_in_doubt(self, key: Key, offset: int) -> None:
        """A commit may have happened, or may still."""
        self.told["offset in doubt"] += 1
        self._in_doubt.setdefault(key, set()).add(offset)

    def offset_read(self, key: Key, found: int | None, door: str, started_ms: int, now_ms: int) -> None:
        """What is committed, by one of the doors. The group has one member, so no other member commits meanwhile."""
        self.told[f"offset read by {door}"] += 1
        offset, incarnation = self._offset.get(key, (None, None))
        is_same = self._incarnations(key, started_ms, now_ms) == {incarnation}
        if found is None and offset is not None and not is_same:
            return
        if found != offset and found not in self._in_doubt.get(key, ()):
            raise Violation(f"{door} told {found} of {key}, the newest acknowledged offset is {offset}")

    def end(self) -> None:
        """Also: what was said to be committed is there."""
        super().end()
        for sent in self._there:
            for topic, by_partition in sent.items():
                values = [value for held in by_partition.values() for value in held]
                missing = [value for value in values if value not in self.truth(topic).places]
                if missing and not self._was_deleted(topic):
                    raise Violation(f"{missing} of {topic} were said to be committed, and are not there")

    def _incarnations(self, key: Key, started_ms: int, now_ms: int) -> set[Any]:
        return {state.topic_id for state in self.truth(key[1]).between(started_ms, now_ms)}
