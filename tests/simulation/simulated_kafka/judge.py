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
        self._meant: dict[tuple[Key, int], str | None] = {}
        self.is_deleted_by_id = False
        """Whether every deletion names the id; those that were named are in ``may_be_deleted``."""
        self.may_be_deleted: set[str] = set()

    def refused_by_kafka(self, values: list[bytes], error: str) -> None:
        """A producer is told that its values never were and never will be in the log."""
        self.refused(values, Reply(status=400, headers={}, body={"error_code": error}))

    def committed_unplaced(self, sent: Sent) -> None:
        """A client is told that its transaction is committed."""
        self.told["Kafka's transaction committed"] += 1
        self._there.append(sent)
        self._atomic.append(sent)

    def landed(self, topic: str, version: int, data: bytes, now_ms: int) -> None:
        """As ``Judge``; where topics are deleted by their ids only, no other one is."""
        before = self.truth(topic).head.topic_id
        super().landed(topic, version, data, now_ms)
        is_gone = before is not None and self.truth(topic).head.topic_id != before
        if self.is_deleted_by_id and is_gone and before not in self.may_be_deleted:
            raise Violation(f"{topic} was deleted as {before}, and nobody asked for that: {self.may_be_deleted}")

    def offset_committed(
        self, key: Key, offset: int, started_ms: int, now_ms: int, topic_id: str | None = None
    ) -> None:
        """A commit is acknowledged. ``topic_id``: it was for this incarnation."""
        self.told["offset committed"] += 1
        incarnations = self._incarnations(key, started_ms, now_ms)
        if topic_id is not None and topic_id not in incarnations:
            raise Violation(f"{offset} of {key} was committed for {topic_id}, which was no more")
        self._offset[key] = (offset, topic_id or (incarnations.pop() if len(incarnations) == 1 else None))

    def offset_in_doubt(self, key: Key, offset: int, topic_id: str | None = None) -> None:
        """A commit may have happened, or may still. ``topic_id``: for this incarnation."""
        self.told["offset in doubt"] += 1
        self._in_doubt.setdefault(key, set()).add(offset)
        self._meant[key, offset] = topic_id

    def offset_read(self, key: Key, found: int | None, door: str, started_ms: int, now_ms: int) -> None:
        """What is committed, by one of the doors. The group has one member, so no other member commits meanwhile."""
        self.told[f"offset read by {door}"] += 1
        offset, incarnation = self._offset.get(key, (None, None))
        incarnations = self._incarnations(key, started_ms, now_ms)
        if found is None and offset is not None and (incarnation is None or incarnations != {incarnation}):
            return  # it may have been for an incarnation that is no more
        meant = incarnation if found == offset else self._meant.get((key, found or 0))
        if found is not None and meant is not None and meant not in incarnations:
            raise Violation(f"{door} told {found} of {key} for {incarnations}, it was committed for {meant}")
        if found != offset and found not in self._in_doubt.get(key, ()):
            raise Violation(f"{door} told {found} of {key}, the newest acknowledged offset is {offset}")

    def offset_read_by_id(self, key: Key, found: int | None, topic_id: str, started_ms: int) -> None:
        """What is committed for one incarnation of the topic."""
        self.told["offset read by id"] += 1
        if topic_id not in self._incarnations(key, started_ms, 2**62):
            raise Violation(f"offset {found} of {key} was told for {topic_id}, which was no more")
        offset, incarnation = self._offset.get(key, (None, None))
        doubtful = {one for one in self._in_doubt.get(key, ()) if self._meant.get((key, one)) in (None, topic_id)}
        sure = {offset} if incarnation in (None, topic_id) else {None}
        if found is not None and found not in sure | doubtful:
            raise Violation(f"{found} of {key} was told for {topic_id}, committed is {offset} for {incarnation}")

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
        return self.incarnations(key[1], (started_ms, now_ms))
