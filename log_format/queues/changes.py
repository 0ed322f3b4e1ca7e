"""Decisions about queues. Many share one commit of ``system/queues``; each is accepted or refused by itself.

1. A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head. So a former
   coordinator (a gateway that was paused) settles nothing: its epoch is old.
2. Settings are anyone's to replace, and what waited for a transaction is concluded by the gateway that ends it. Only the
   coordinator settles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from log_format.delta.change import Proposal
from log_format.delta.system_table import CompactTable, Contents, written
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.ids import NewId
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
"""The queue after the decision, or why nothing was decided."""


class CoordinatorFenced(BackOff):
    """Another gateway coordinates the queue now, and nothing happened. The client should ask that one."""

    def __init__(self, queue: str) -> None:
        super().__init__(f"Another gateway coordinates queue {queue!r} now.")


class QueueDecision(Protocol):
    """A change to a queue."""

    @property
    def queue(self) -> str:
        """The queue whose state is the outcome."""

    def decide(self, state: QueuesView, now_ms: int, /) -> QueueChanges | TidelogError:
        """What to write (perhaps nothing), or the refusal. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutQueue:
    """Make a queue, or replace its settings."""

    queue: str
    queue_id: str
    """Of the queue, where this makes it."""
    settings: QueueSettings
    has_start: bool
    """Whether the client named a ``start``; else an existing queue keeps its own."""
    starts: tuple[PartitionChange, ...]
    """Where to begin in topics that the queue does not read yet; in partitions left out at 0."""
    positions: tuple[RedrivePosition, ...] = ()
    """The ends of the dead letter topic, where that is another one than before."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """The queue's row, and where it begins."""
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
class Subscribe:
    """Have a queue read further topics, with the settings that it has; make it where there is none."""

    queue: str
    queue_id: str
    """Of the queue, where this makes it."""
    settings: QueueSettings
    """Of a new queue; of one that exists only the topics count."""
    starts: tuple[PartitionChange, ...]
    """Where to begin in these topics, as ``PutQueue``."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """The queue's row, and where it begins in what it did not read before."""
        row = state.queue(self.queue).row
        settings = self.settings
        if row is not None:
            known = row.settings.topics
            topics = (*known, *(one for one in settings.topics if one not in known))
            if row.settings.dead_letter_topic in topics:
                return RequestRefused(f"{row.settings.dead_letter_topic!r} has the dead letters of this queue.")
            settings = msgspec.structs.replace(row.settings, topics=topics)
        if len(settings.topics) > QUEUE_TOPICS_MAX:
            return RequestRefused(f"A queue reads at most {QUEUE_TOPICS_MAX} topics.")
        put = PutQueue(queue=self.queue, queue_id=self.queue_id, settings=settings, has_start=False, starts=self.starts)
        return put.decide(state, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQueue:
    """Change some settings of a queue; make it, without topics, where there is none."""

    queue: str
    queue_id: str
    """Of the queue, where this makes it."""
    settings: QueueSettings
    """Of a new queue, before the changes."""
    changes: Mapping[str, object]
    """Fields of ``QueueSettings``, but for topics and the dead letter topic."""

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """The queue's row. One that reads nothing yet may begin elsewhere, others are refused (``QUEUE_ALREADY_EXISTS``)."""
        row = state.queue(self.queue).row
        before = self.settings if row is None else row.settings
        settings = msgspec.structs.replace(before, **self.changes)
        if row is not None and not before.topics and settings.start != before.start:
            return QueueChanges(queues=(_with(row, settings, now_ms),))
        put = PutQueue(queue=self.queue, queue_id=self.queue_id, settings=settings, has_start=True, starts=())
        return put.decide(state, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimQueue:
    """Become the queue's coordinator; the former one is fenced."""

    queue: str
    coordinator: str

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """The queue's row with the next epoch, and the longest lock of leases that may be live."""
        row = state.queue(self.queue).row
        if row is None:
            return unknown_queue(self.queue)
        # Of the earliest version that can hold the row, so that a queue deleted and made anew repeats no epoch.
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
    """Let the coordinator lock for ``lock_ms_min``, from now on; or say that no live lease is longer than ``lock_ms_max``."""

    queue: str
    epoch: int
    lock_ms_min: int = 0
    lock_ms_max: int | None = None

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """The queue's row."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown(self.queue, row)
        known_ms = row.lock_ms_max if self.lock_ms_max is None else self.lock_ms_max
        lock_ms_max = max(known_ms, self.lock_ms_min)
        if lock_ms_max == row.lock_ms_max:
            return QueueChanges()
        return QueueChanges(queues=(msgspec.structs.replace(row, lock_ms_max=lock_ms_max),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Settle ranges of a queue's partitions, as its coordinator decided."""

    queue: str
    epoch: int
    changes: tuple[PartitionChange, ...]
    forgotten: tuple[str, ...] = ()
    """Ids of topics that are no more."""

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """The changes, but for topics that the queue does not read any more."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown(self.queue, row)
        return QueueChanges(
            forgotten=tuple((self.queue, topic_id) for topic_id in self.forgotten),
            partitions=_read_by(row, self.changes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Let settlements wait for a transaction."""

    pending: PendingSettlement
    epoch: int

    @property
    def queue(self) -> str:
        """Of the settlements."""
        return self.pending.queue

    def decide(self, state: QueuesView, now_ms: int) -> QueueChanges | TidelogError:
        """They wait, with the current time."""
        row = state.queue(self.queue).row
        if row is None or row.epoch != self.epoch:
            return fenced_or_unknown(self.queue, row)
        return QueueChanges(pending=(msgspec.structs.replace(self.pending, prepared_at_ms=now_ms),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclude:
    """End what waits for a transaction that is decided. Never refused. Of a committed one only ``pending_ids`` belong to it."""

    queue: str
    transaction_id: str
    pending_ids: frozenset[str] = frozenset()

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """The settlements, or their undoing; nothing when they are concluded already."""
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
    """End a queue."""

    queue: str

    def decide(self, state: QueuesView, _now_ms: int) -> QueueChanges | TidelogError:
        """Its end; refused where there is none."""
        if state.queue(self.queue).row is None:
            return unknown_queue(self.queue)
        return QueueChanges(deleted=(self.queue,))


class Decide:
    """Decisions that share a commit. The result has an outcome for each."""

    def __init__(self, decisions: Sequence[QueueDecision], new_id: NewId) -> None:
        assert decisions
        self._decisions = tuple(decisions)
        self._new_id = new_id

    def propose(self, state: QueuesState, now_ms: int) -> Proposal[Sequence[Outcome]]:
        """One ``add`` with the rows; nothing when no decision needs one. The result holds refusals, too."""
        all_changes: list[QueueChanges] = []
        outcomes: list[Outcome] = []
        ahead = QueuesEdit(state)
        for decision in self._decisions:
            decided = decision.decide(ahead, now_ms)
            if isinstance(decided, TidelogError):
                outcomes.append(decided)
                continue
            if decided:
                ahead.take(decided)
                all_changes.append(decided)
            outcomes.append(ahead.queue(decision.queue))
        if not all_changes:
            return Proposal(operation="WRITE", actions=(), result=outcomes)
        return written(
            state,
            _contents(all_changes, ahead, now_ms),
            outcomes,
            name=NAME,
            schema=SCHEMA,
            directory="settlements",
            new_id=self._new_id,
            now_ms=now_ms,
        )


class Compact(CompactTable[QueuesState]):
    """See ``CompactTable``."""

    def contents(self, state: QueuesState) -> Contents:
        """All queues in their current state."""
        return _contents([snapshot(state)], state, state.modification_time_ms)


def unknown_queue(queue: str) -> TidelogError:
    """The answer for a queue that does not exist."""
    return RequestRefused(f"There is no queue {queue[:100]!r}.", code=ErrorCode.UNKNOWN_QUEUE)


def fenced_or_unknown(queue: str, row: QueueRow | None) -> TidelogError:
    """Why a coordinator's decision does not count: another has the queue, or it is gone."""
    return unknown_queue(queue) if row is None else CoordinatorFenced(queue)


def _with(row: QueueRow, settings: QueueSettings, now_ms: int) -> QueueRow:
    # The coordinator locks for as long as the settings say, and has written that before.
    lock_ms_max = max(row.lock_ms_max, settings.lock_ms) if row.epoch else 0
    return msgspec.structs.replace(row, settings=settings, lock_ms_max=lock_ms_max, changed_at_ms=now_ms)


def _read_by(row: QueueRow, changes: Iterable[PartitionChange]) -> tuple[PartitionChange, ...]:
    return tuple(one for one in changes if one.topic in row.settings.topics)


def _contents(all_changes: Sequence[QueueChanges], now: QueuesView, now_ms: int) -> Contents:
    touched = {(one.queue, one.key) for changes in all_changes for one in changes.partitions}
    partitions = [
        partition_change(name, key, settled)
        for name, key in sorted(touched)
        if (settled := now.queue(name).partitions.get(key)) is not None
    ]
    rows = len(partitions) + sum(len(changes.queues) for changes in all_changes)
    return Contents(
        data=encode_rows(all_changes, partitions, now_ms), row_count=rows, tags={TAG_QUEUES: encode_tag(all_changes)}
    )
