"""Decisions about queues. Many share one commit of ``system/queues``; each is accepted or refused on its own.

1. A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head. So a former
   coordinator (a gateway that was paused) settles nothing: its epoch is stale.
2. Any gateway may replace settings. The gateway that ends a transaction concludes the settlements that wait for it. Only the
   coordinator settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from log_format.delta.system_table import CompactTable, SystemTable, TableContents, judge_in_order
from log_format.delta.system_table import Decide as SharedDecide
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.limits import QUEUE_TOPICS_MAX
from log_format.queues.row import (
    SCHEMA,
    TAG_QUEUES,
    PartitionChange,
    PendingSettlement,
    QueueChanges,
    QueueRow,
    QueueSettings,
    RedrivePosition,
    encode_rows,
    encode_tag,
)
from log_format.queues.state import NAME, Queue, QueuesEdit, QueuesState, QueuesView, partition_change, snapshot

Outcome = Queue | TidelogError
"""Queue after the decision, or the error if nothing was decided."""


class CoordinatorFenced(BackOff):
    """Error: another gateway coordinates the queue now, and the client should ask that one. Nothing happened."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"Another gateway coordinates queue {queue!r} now.")


class QueueDecision(Protocol):
    """A change to a queue."""

    @property
    def queue(self) -> str:
        """Name of the queue whose state is the outcome."""

    def decide(self, state: QueuesView, now_ms: int, /) -> QueueChanges | TidelogError:
        """Return what to write (perhaps nothing), or the refusal. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutQueue:
    """A decision that creates a queue, or replaces its settings."""

    queue: str
    queue_id: str
    """Id of the queue, if this creates it."""
    settings: QueueSettings
    has_start: bool
    """Whether the client named a ``start``; otherwise an existing queue keeps its own."""
    starts: tuple[PartitionChange, ...]
    """Start offsets in topics that the queue does not read yet; 0 in partitions left out."""
    positions: tuple[RedrivePosition, ...] = ()
    """Ends of the new dead letter topic's partitions; empty if the queue keeps the one that it has."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row, and its start offsets."""
        known = state.queue(self.queue)
        before = known.row
        if before is None:
            row = QueueRow(
                queue=self.queue,
                queue_id=self.queue_id,
                epoch=0,
                coordinator="",
                lock_ms_max=0,
                settings=self.settings,
                changed_at_ms=now_ms,
            )
            return QueueChanges(queues=(row,), partitions=self.starts, positions=self._positions())
        if self.has_start and self.settings.start != before.settings.start:
            return RequestRefused(
                f"Queue {self.queue!r} exists and starts at {before.settings.start}.",
                code=ErrorCode.QUEUE_ALREADY_EXISTS,
            )
        settings = msgspec.structs.replace(self.settings, start=before.settings.start)
        changes = self._replaced(known, before, settings)
        if settings == before.settings and not changes:
            return QueueChanges()
        return msgspec.structs.replace(changes, queues=(_with(before, settings, now_ms),))

    def _replaced(self, known: Queue, before: QueueRow, settings: QueueSettings) -> QueueChanges:
        old, new = set(before.settings.topics), set(settings.topics)
        gone = {key[0] for key, one in known.partitions.items() if one.topic not in new}
        return QueueChanges(
            forgotten=tuple((self.queue, topic_id) for topic_id in sorted(gone)),
            partitions=tuple(one for one in self.starts if one.topic not in old),
            positions=self._positions() if settings.dead_letter_topic != before.settings.dead_letter_topic else (),
        )

    def _positions(self) -> tuple[tuple[str, RedrivePosition], ...]:
        return tuple((self.queue, one) for one in self.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribeQueue:
    """A decision that adds topics to a queue, whose other settings stay; it creates the queue if there is none."""

    queue: str
    queue_id: str
    """Id of the queue, if this creates it."""
    settings: QueueSettings
    """Settings of a new queue; for an existing one only the topics count."""
    starts: tuple[PartitionChange, ...]
    """Start offsets in these topics, as for ``PutQueue``."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row, and its start offsets in topics that it did not read before."""
        row = state.queue(self.queue).row
        settings = self.settings
        if row is not None:
            known = row.settings.topics
            topics = (*known, *(one for one in settings.topics if one not in known))
            if row.settings.dead_letter_topic in topics:
                return RequestRefused(
                    f"{row.settings.dead_letter_topic!r} is the dead letter topic of this queue, which can't read it."
                )
            settings = msgspec.structs.replace(row.settings, topics=topics)
        if len(settings.topics) > QUEUE_TOPICS_MAX:
            return RequestRefused(f"A queue reads at most {QUEUE_TOPICS_MAX} topics.")
        put = PutQueue(queue=self.queue, queue_id=self.queue_id, settings=settings, has_start=False, starts=self.starts)
        return put.decide(state, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQueue:
    """A decision that changes some settings of a queue; it creates the queue, without topics, if there is none."""

    queue: str
    queue_id: str
    """Id of the queue, if this creates it."""
    settings: QueueSettings
    """Settings of a new queue, before the changes."""
    changes: Mapping[str, object]
    """Fields of ``QueueSettings``, except topics and the dead letter topic."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row. Only a queue without topics may change its ``start``; others are refused
        (``QUEUE_ALREADY_EXISTS``)."""
        row = state.queue(self.queue).row
        before = self.settings if row is None else row.settings
        settings = msgspec.structs.replace(before, **self.changes)
        if row is not None and not before.topics and settings.start != before.start:
            return QueueChanges(queues=(_with(row, settings, now_ms),))
        put = PutQueue(queue=self.queue, queue_id=self.queue_id, settings=settings, has_start=True, starts=())
        return put.decide(state, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimQueue:
    """A decision that makes a gateway the queue's coordinator, fencing the former one."""

    queue: str
    coordinator: str

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row with the next epoch, and the longest lock of leases that may be live."""
        row = state.queue(self.queue).row
        if row is None:
            return unknown_queue_error(self.queue)
        # The epoch is the earliest version that can have the row, so that a queue deleted and re-created repeats no epoch.
        claimed = msgspec.structs.replace(
            row,
            epoch=state.version + 2,
            coordinator=self.coordinator,
            lock_ms_max=max(row.lock_ms_max, row.settings.lock_ms),
            inherited_ms=row.lock_ms_max,
        )
        return QueueChanges(queues=(claimed,))


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowLocks:
    """A decision that lets the coordinator lock for ``lock_ms_min`` from now on, or records that no live lease is longer than
    ``lock_ms_max``."""

    queue: str
    epoch: int
    lock_ms_min: int = 0
    lock_ms_max: int | None = None

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Return the queue's row; nothing if it stays the same."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown_error(self.queue, row)
        known_ms = row.lock_ms_max if self.lock_ms_max is None else self.lock_ms_max
        lock_ms_max = max(known_ms, self.lock_ms_min)
        if lock_ms_max == row.lock_ms_max:
            return QueueChanges()
        return QueueChanges(queues=(msgspec.structs.replace(row, lock_ms_max=lock_ms_max),))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleRuns:
    """A decision that settles ranges of a queue's partitions, as its coordinator determined."""

    queue: str
    epoch: int
    changes: tuple[PartitionChange, ...]
    forgotten: tuple[str, ...] = ()
    """Ids of topics that no longer exist."""

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Return the changes, except for topics that the queue does not read any more."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown_error(self.queue, row)
        return QueueChanges(
            forgotten=tuple((self.queue, topic_id) for topic_id in self.forgotten),
            partitions=_read_by(row, self.changes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareSettlement:
    """A decision that lets settlements wait for a transaction."""

    pending: PendingSettlement
    epoch: int

    @property
    def queue(self) -> str:
        """Name of the settlements' queue."""
        return self.pending.queue

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """Return the pending settlements with the current time."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown_error(self.queue, row)
        return QueueChanges(pending=(msgspec.structs.replace(self.pending, prepared_at_ms=now_ms),))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcludeSettlement:
    """A decision that ends the settlements waiting for a decided transaction. Never refused.

    ``pending_ids``: settlements that belong to a committed transaction; the others are undone.
    """

    queue: str
    transaction_id: str
    pending_ids: frozenset[str] = frozenset()

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Return the settlements, or their undoing; nothing if they are concluded already."""
        queue = state.queue(self.queue)
        waiting = queue.of_transaction(self.transaction_id)
        if queue.row is None or not waiting:
            return QueueChanges()
        row, name = queue.row, self.queue
        partitions: list[PartitionChange] = []
        positions: list[tuple[str, RedrivePosition]] = []
        for one in waiting:
            is_committed = one.pending_id in self.pending_ids
            partitions += _read_by(row, one.on_commit if is_committed else one.on_abort)
            positions += [(name, position) for position in one.positions if is_committed]
        return QueueChanges(
            partitions=tuple(partitions),
            concluded=tuple((name, one.pending_id) for one in waiting),
            positions=tuple(positions),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteQueue:
    """A decision that deletes a queue."""

    queue: str

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Return the deletion; refused if there is no such queue."""
        if state.queue(self.queue).row is None:
            return unknown_queue_error(self.queue)
        return QueueChanges(deleted=(self.queue,))


class Decide(SharedDecide[QueuesState, QueueDecision, Outcome]):
    """A change that commits several decisions about queues."""

    table = SystemTable(name=NAME, schema=SCHEMA, directory="settlements")

    def judge(
        self, decisions: Sequence[QueueDecision], state: QueuesState, now_ms: int
    ) -> tuple[list[Outcome], TableContents | None]:
        """Return the queues after their decisions."""
        ahead = QueuesEdit(state)
        outcomes, changes = judge_in_order(
            decisions,
            lambda decision: decision.decide(ahead, now_ms),
            ahead.apply,
            lambda decision: ahead.queue(decision.queue),
        )
        return outcomes, _contents(changes, ahead, now_ms) if changes else None


class Compact(CompactTable[QueuesState]):
    """A change that compacts the table, as ``CompactTable`` describes."""

    def contents(self, state: QueuesState) -> TableContents:
        """Return all queues in their current state."""
        return _contents([snapshot(state)], state, state.modification_time_ms)


def unknown_queue_error(queue: str) -> TidelogError:
    """Return the error for a queue that does not exist."""
    return RequestRefused(f"There is no queue {queue[:100]!r}.", code=ErrorCode.UNKNOWN_QUEUE)


def fenced_or_unknown_error(queue: str, row: QueueRow | None) -> TidelogError:
    """Return the error for a coordinator's decision that does not count: another gateway has the queue, or it is deleted."""
    return unknown_queue_error(queue) if row is None else CoordinatorFenced(queue)


def _with(row: QueueRow, settings: QueueSettings, now_ms: int) -> QueueRow:
    # The coordinator may lock for as long as the settings say, once that is written.
    lock_ms_max = max(row.lock_ms_max, settings.lock_ms) if row.epoch else 0
    return msgspec.structs.replace(row, settings=settings, lock_ms_max=lock_ms_max, changed_at_ms=now_ms)


def _read_by(row: QueueRow, changes: Iterable[PartitionChange]) -> tuple[PartitionChange, ...]:
    return tuple(one for one in changes if one.topic in row.settings.topics)


def _contents(all_changes: Sequence[QueueChanges], now: QueuesView, now_ms: int) -> TableContents:
    touched = {(one.queue, one.key) for changes in all_changes for one in changes.partitions}
    partitions = [
        partition_change(name, key, settled)
        for name, key in sorted(touched)
        if (settled := now.queue(name).partitions.get(key)) is not None
    ]
    rows = len(partitions) + sum(len(changes.queues) for changes in all_changes)
    return TableContents(
        data=encode_rows(all_changes, partitions, now_ms), row_count=rows, tags={TAG_QUEUES: encode_tag(all_changes)}
    )
