"""The state of ``system/queues`` at one version: every queue, and what it has settled of its partitions.

1. The state follows from the live ``add`` actions in the order of their times. A rewrite (``dataChange`` false) only changes
   which files are live.
2. A partition is identified by its topic's incarnation: settlements of a deleted topic do not apply to a new one of that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

from log_format import layout
from log_format.checkpoints.system_table import system_table
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState, decode_add_tag
from log_format.delta.table import Table
from log_format.queues.memory import partition_bytes, pending_bytes, row_bytes
from log_format.queues.row import (
    TAG_QUEUES,
    Key,
    PartitionChange,
    PendingSettlement,
    QueueChanges,
    QueueRow,
    RedrivePosition,
    decode_tag,
)
from log_format.queues.runs import Run, overlay_runs

NAME: Final = "system/queues"


@dataclass(frozen=True, slots=True)
class PartitionSettlements:
    """The settlements of a partition: everything before ``start_offset``, and what ``runs`` say. Immutable."""

    topic: str
    start_offset: int = 0
    runs: tuple[Run, ...] = ()

    def after(self, change: PartitionChange) -> PartitionSettlements:
        """Return the settlements after a change."""
        start = max(self.start_offset, change.start_offset)
        start, runs = overlay_runs(start, self.runs, change.runs)
        return PartitionSettlements(self.topic, start, runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """The state of one queue. Immutable."""

    row: QueueRow | None = None
    """Settings and coordinator; None if the queue does not exist."""
    partitions: Mapping[Key, PartitionSettlements] = field(default_factory=lambda: MappingProxyType({}))
    """Partitions with settlements; in others nothing is settled."""
    pending: Mapping[str, PendingSettlement] = field(default_factory=lambda: MappingProxyType({}))
    """Pending settlements by pending id."""
    positions: Mapping[Key, RedrivePosition] = field(default_factory=lambda: MappingProxyType({}))
    """Positions in partitions of the dead letter topic; in others nothing is redriven."""
    memory_bytes: int = field(default=0, compare=False)

    @property
    def epoch(self) -> int:
        """Epoch of the coordinator; 0 if no gateway has coordinated the queue yet."""
        return 0 if self.row is None else self.row.epoch

    @property
    def run_count(self) -> int:
        """Number of runs in all partitions."""
        return sum(len(one.runs) for one in self.partitions.values())

    def of_transaction(self, transaction_id: str) -> list[PendingSettlement]:
        """Return the settlements that wait for the transaction."""
        return [one for one in self.pending.values() if one.transaction_id == transaction_id]


NO_QUEUE: Final = Queue()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuesState(SystemTableState):
    """Every queue at one version. Immutable."""

    queues: Mapping[str, Queue] = field(default_factory=lambda: MappingProxyType({}))
    memory_bytes: int = field(default=0, compare=False)

    def queue(self, name: str) -> Queue:
        """Return the queue; an empty one if it does not exist."""
        return self.queues.get(name, NO_QUEUE)

    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after the changes in the tags of these ``add``. Raises ``CorruptData``."""
        return self.after(*(one for add in adds for one in decode_changes(add.path, add.tags or {})))

    def after(self, *all_changes: QueueChanges) -> Self:
        """Return the state after these changes, with the same version and files."""
        edit = QueuesEdit(self)
        for changes in all_changes:
            edit.apply(changes)
        return replace(
            self, queues=MappingProxyType(edit.queues()), memory_bytes=self.memory_bytes + edit.grown_bytes()
        )


class QueuesEdit:
    """A change to the state in progress, one decision after another. Untouched queues are not copied."""

    def __init__(self, state: QueuesState) -> None:
        self.version = state.version
        self._before = state.queues
        self._edited: dict[str, _Edited] = {}

    def queue(self, name: str) -> Queue:
        """Return the queue; an empty one if it does not exist."""
        edited = self._edited.get(name)
        return self._before.get(name, NO_QUEUE) if edited is None else edited.queue()

    def apply(self, changes: QueueChanges) -> None:
        """Apply a decision's changes."""
        for row in changes.queues:
            self._edit(row.queue).row = row
        for name, topic_id in changes.forgotten:
            self._edit(name).forget(topic_id)
        for change in changes.partitions:
            self._edit(change.queue).settle(change)
        for pending in changes.pending:
            self._edit(pending.queue).pending[pending.pending_id] = pending
        for name, pending_id in changes.concluded:
            self._edit(name).pending.pop(pending_id, None)
        for name, position in changes.positions:
            self._edit(name).positions[position.key] = position
        for name in changes.deleted:
            self._edited[name] = _Edited(NO_QUEUE)

    def queues(self) -> dict[str, Queue]:
        """Return all queues in their current state."""
        queues = dict(self._before)
        for name, edited in self._edited.items():
            if edited.row is None:
                queues.pop(name, None)
            else:
                queues[name] = edited.queue()
        return queues

    def grown_bytes(self) -> int:
        """Return by how many bytes the queues' memory has grown; negative if it shrank."""
        return sum(self.queue(name).memory_bytes for name in self._edited) - sum(
            self._before[name].memory_bytes for name in self._edited if name in self._before
        )

    def _edit(self, name: str) -> _Edited:
        edited = self._edited.get(name)
        if edited is None:
            edited = self._edited[name] = _Edited(self._before.get(name, NO_QUEUE))
        return edited


class _Edited:
    """A change to a queue in progress."""

    def __init__(self, queue: Queue) -> None:
        self.row = queue.row
        self.partitions = dict(queue.partitions)
        self.pending = dict(queue.pending)
        self.positions = dict(queue.positions)

    def settle(self, change: PartitionChange) -> None:
        known = self.partitions.get(change.key)
        self.partitions[change.key] = (known or PartitionSettlements(change.topic)).after(change)

    def forget(self, topic_id: str) -> None:
        for key in [key for key in self.partitions if key[0] == topic_id]:
            del self.partitions[key]

    def queue(self) -> Queue:
        if self.row is None:
            return NO_QUEUE
        return Queue(
            row=self.row,
            partitions=MappingProxyType(dict(self.partitions)),
            pending=MappingProxyType(dict(self.pending)),
            positions=MappingProxyType(dict(self.positions)),
            memory_bytes=row_bytes(self.row)
            + sum(partition_bytes(len(one.runs)) for one in self.partitions.values())
            + sum(map(pending_bytes, self.pending.values())),
        )


QueuesView = QueuesState | QueuesEdit
"""State at which a decision about queues is judged."""


def queues_table() -> Table[QueuesState]:
    """Return the description of the table."""
    return system_table(layout.QUEUES_ROOT, "the queues", QueuesState)


def decode_changes(path: str, tags: Mapping[str, str | None]) -> list[QueueChanges]:
    """Return the changes in an ``add``. Raises ``CorruptData``."""
    return decode_add_tag(NAME, path, tags, TAG_QUEUES, decode_tag)


def snapshot(state: QueuesState) -> QueueChanges:
    """Return the changes that give all queues of ``state``."""
    return QueueChanges(
        queues=tuple(queue.row for queue in state.queues.values() if queue.row is not None),
        partitions=tuple(
            partition_change(name, key, one)
            for name, queue in state.queues.items()
            for key, one in queue.partitions.items()
        ),
        pending=tuple(one for queue in state.queues.values() for one in queue.pending.values()),
        positions=tuple((name, one) for name, queue in state.queues.items() for one in queue.positions.values()),
    )


def partition_change(queue: str, key: Key, settled: PartitionSettlements) -> PartitionChange:
    """Return the change that gives ``settled`` when applied to nothing."""
    return PartitionChange(
        queue=queue,
        topic=settled.topic,
        topic_id=key[0],
        partition=key[1],
        start_offset=settled.start_offset,
        runs=settled.runs,
    )
