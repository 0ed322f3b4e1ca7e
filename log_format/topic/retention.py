"""Deleting the oldest records by ``retention.ms`` and ``retention.bytes``, as in Kafka.

Each partition loses whole runs from its beginning: those whose largest timestamp is too old, and those that the newest
``retention.bytes`` do not need. Log starts move past these runs. The same commit removes segments without readable records, and
further commits do if there are many; but the newest segment of a partition stays. Segments that a deletion of records left over
are removed, too. A topic whose ``cleanup.policy`` lacks ``delete`` keeps everything. Of a topic that keeps its rows in the table
(``table.retention.*``) the segments are not removed, but archived (``log_format.topic.archiving``).
"""

from __future__ import annotations

from dataclasses import dataclass

from log_format import limits
from log_format.delta.change import Proposal
from log_format.topic.changes import log_start_actions
from log_format.topic.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionResult:
    """The result of retention: new log starts by partition, and the paths of the segments removed."""

    log_starts: dict[int, int]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRetention:
    """A change that deletes what retention allows in the incarnation ``topic_id``; it does nothing if another one has replaced
    that."""

    topic_id: str
    removes_max: int = limits.REMOVES_PER_COMMIT_MAX

    def propose(self, state: TopicState, now_ms: int) -> Proposal[RetentionResult]:
        """Propose log starts as ``txn``, and removes of segments; no actions if nothing has expired. Never raises."""
        if state.topic_id != self.topic_id:
            return Proposal(operation="RETENTION", actions=(), result=RetentionResult(log_starts={}, removed=()))
        moved = expired_offsets(state, now_ms)
        starts, removes, paths = log_start_actions(state, moved, now_ms, self.removes_max)
        return Proposal(
            operation="RETENTION",
            actions=[*starts, *removes],
            result=RetentionResult(log_starts=moved, removed=paths),
        )


def needs_retention(state: TopicState, now_ms: int) -> bool:
    """Return whether ``ApplyRetention`` has something to do."""
    return state.has_dead_segments() or bool(expired_offsets(state, now_ms))


def expired_offsets(state: TopicState, now_ms: int) -> dict[int, int]:
    """Return the new log start of each partition with expired records."""
    if not state.config.deletes_old:
        return {}
    retention_ms, retention_bytes = (state.config.integer(f"retention.{unit}") for unit in ("ms", "bytes"))
    if retention_ms < 0 and retention_bytes < 0:
        return {}
    moved = {}
    for partition in range(state.partition_count):
        offset = state.manifest.retention_start(
            partition,
            oldest_ms=now_ms - retention_ms if retention_ms >= 0 else None,
            bytes_max=retention_bytes if retention_bytes >= 0 else None,
        )
        if offset > state.log_start(partition):
            moved[partition] = offset
    return moved
