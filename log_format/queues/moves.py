"""An administrator's decision to move a queue's start offsets in a topic, or to have it stop reading a topic.

1. Settlements of a moved partition are forgotten, so its records are delivered again from the new offset on, with new counts.
2. The decision raises the queue's epoch, so no earlier settlement can follow it. The next coordinator waits for no lease, so the
   present one must have none.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from log_format.errors import BackOff, RequestRefused, TidelogError
from log_format.limits import QUEUE_TOPICS_MAX
from log_format.queues.changes import fenced_or_unknown_error
from log_format.queues.row import PartitionChange, QueueChanges
from log_format.queues.state import QueuesView, partition_change


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveStarts:
    """A decision that moves the start offsets to ``starts``. The queue reads their topics from now on, and stops reading
    ``dropped``."""

    queue: str
    epoch: int
    """Epoch of the coordinator, which has no live lease and gives none."""
    starts: tuple[PartitionChange, ...] = ()
    dropped: frozenset[str] = frozenset()
    """Names of topics to stop reading."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row without a coordinator, and its start offsets; refused while settlements wait for a
        transaction."""
        known = state.queue(self.queue)
        row = known.row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown_error(self.queue, row)
        if known.pending:
            return BackOff(f"Settlements of queue {self.queue!r} wait for a transaction.")
        topics = [one for one in row.settings.topics if one not in self.dropped]
        topics += dict.fromkeys(one.topic for one in self.starts if one.topic not in topics)
        if len(topics) > QUEUE_TOPICS_MAX or row.settings.dead_letter_topic in topics:
            return RequestRefused(f"A queue reads at most {QUEUE_TOPICS_MAX} topics, and not that of its dead letters.")
        moved = {one.key for one in self.starts}
        ids = {topic_id for topic_id, _ in moved}
        gone = {key[0] for key, one in known.partitions.items() if one.topic in self.dropped}
        kept = (
            partition_change(self.queue, key, one)
            for key, one in known.partitions.items()
            if key[0] in ids and key not in moved
        )
        moved_row = msgspec.structs.replace(
            row,
            epoch=state.version + 2,  # as in ``ClaimQueue``
            coordinator="",
            lock_ms_max=0,
            inherited_ms=0,
            settings=msgspec.structs.replace(row.settings, topics=tuple(topics)),
            changed_at_ms=now_ms,
        )
        return QueueChanges(
            queues=(moved_row,),
            forgotten=tuple((self.queue, topic_id) for topic_id in sorted(ids | gone)),
            partitions=(*kept, *self.starts),
        )
