"""The state of ``system/consumer_offsets`` at one version: every group's offsets and members, and the live data files.

1. For a group only the newest row of members counts; for a (topic, partition) only the newest offset.
2. The state follows from the tags of the live ``add`` actions in order of their times, so a checkpoint needs nothing else.
3. A rewrite (``dataChange`` false) only changes which files are live.
4. ``memory_bytes`` is updated with each change, at a cost in proportion to the change's size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Final, Self

from log_format import layout
from log_format.checkpoints.system_table import system_table
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState, decode_add_tag
from log_format.delta.table import Table
from log_format.groups.holdings import Holdings
from log_format.groups.memory import GROUP_BYTES, offset_bytes, pending_bytes, row_bytes, share_texts
from log_format.groups.row import TAG_GROUPS, GroupChanges, GroupRow, OffsetRow, PendingOffsets, decode_tag

NAME: Final = "system/consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The state of one group. Immutable."""

    row: GroupRow | None = None
    """Members and coordinator; None if no gateway has coordinated the group yet."""
    offsets: Mapping[tuple[str, int], OffsetRow] = field(default_factory=lambda: MappingProxyType({}))
    """Offsets by topic and partition, without null offsets."""
    pending: Mapping[str, PendingOffsets] = field(default_factory=lambda: MappingProxyType({}))
    """Pending offsets by transaction id."""
    changed_at_ms: int = 0
    """Time of the newest change."""
    holdings: Holdings = field(default_factory=lambda: Holdings(None), compare=False)
    memory_bytes: int = field(default=0, compare=False)
    """Estimated memory of row, offsets and pending offsets in bytes."""

    @property
    def epoch(self) -> int:
        """Epoch of the coordinator; 0 if no gateway has coordinated the group yet."""
        return 0 if self.row is None else self.row.epoch

    @property
    def exists(self) -> bool:
        """Whether the group exists. A group that was only claimed, for a join that failed, does not."""
        return bool(self.offsets) or (self.row is not None and self.row.generation > 0)


NO_GROUP: Final = Group()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsState(SystemTableState):
    """Every group at one version. Immutable."""

    groups: Mapping[str, Group] = field(default_factory=lambda: MappingProxyType({}))
    memory_bytes: int = field(default=0, compare=False)
    """Estimated memory of the groups in bytes."""

    def group(self, name: str) -> Group:
        """Return the group; an empty one if it does not exist."""
        return self.groups.get(name, NO_GROUP)

    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after the changes in the tags of these ``add``. Raises ``CorruptData``."""
        return self.after(*(one for add in adds for one in decode_changes(add.path, add.tags or {})))

    def after(self, *all_changes: GroupChanges) -> Self:
        """Return the state after these changes, with the same version and files."""
        edit = GroupsEdit(self)
        for changes in all_changes:
            edit.apply(changes)
        return self.edited(edit)

    def edited(self, edit: GroupsEdit) -> Self:
        """Return the state with the changes of ``edit``, which began at this state; version and files stay."""
        groups = MappingProxyType(edit.groups())
        return replace(self, groups=groups, memory_bytes=self.memory_bytes + edit.grown_bytes())


class GroupsEdit:
    """A change to the state in progress, one decision after another. Untouched groups are not copied."""

    def __init__(self, state: GroupsState) -> None:
        self.version = state.version
        self._before = state.groups
        self._edited: dict[str, _Edited] = {}

    def group(self, name: str) -> Group:
        """Return the group; an empty one if it does not exist. Valid until the next change."""
        edited = self._edited.get(name)
        return self._before.get(name, NO_GROUP) if edited is None else edited.group()

    def apply(self, changes: GroupChanges) -> None:
        """Apply a decision's changes."""
        for row in changes.groups:
            self._edit(row.group).take_row(row)
        for name, rows in groupby(changes.offsets, key=attrgetter("group")):
            # The offsets of a deleted group stay in views taken earlier.
            if name not in changes.deleted:
                self._edit(name).take_offsets(rows)
        for pending in changes.pending:
            self._edit(pending.group).take_pending(pending)
        for name, transaction_id in changes.settled:
            self._edit(name).settle(transaction_id)
        for name in changes.deleted:
            self._edited[name] = _Edited(NO_GROUP)

    def groups(self) -> dict[str, Group]:
        """Return all groups in their current state."""
        groups = dict(self._before)
        for name, one in self._edited.items():
            if one.is_nothing:
                groups.pop(name, None)
            else:
                groups[name] = one.group()
        return groups

    def grown_bytes(self) -> int:
        """Return by how many bytes the groups' memory has grown; negative if it shrank."""
        after = sum(GROUP_BYTES + one.memory_bytes for one in self._edited.values() if not one.is_nothing)
        known = [self._before[name] for name in self._edited if name in self._before]
        return after - sum(GROUP_BYTES + one.memory_bytes for one in known)

    def _edit(self, name: str) -> _Edited:
        edited = self._edited.get(name)
        if edited is None:
            edited = self._edited[name] = _Edited(self._before.get(name, NO_GROUP))
        return edited


class _Edited:
    """A change to a group in progress."""

    def __init__(self, group: Group) -> None:
        self._row = group.row
        self._holdings = group.holdings
        self._offsets = dict(group.offsets)
        self._pending = dict(group.pending)
        self._changed_at_ms = group.changed_at_ms
        self._last: OffsetRow | None = None
        self.memory_bytes = group.memory_bytes

    @property
    def is_nothing(self) -> bool:
        return self._row is None and not self._offsets and not self._pending

    def take_row(self, row: GroupRow) -> None:
        self.memory_bytes += row_bytes(row) - row_bytes(self._row)
        self._row = row
        self._holdings = Holdings(row)
        self._note(row.changed_at_ms)

    def take_offsets(self, rows: Iterable[OffsetRow]) -> None:
        offsets, last = self._offsets, self._last
        for row in rows:
            key = row.key
            known = offsets.get(key)
            self.memory_bytes -= 0 if known is None else offset_bytes(known)
            if row.offset is None:
                offsets.pop(key, None)
            else:
                last = offsets[key] = share_texts(row, known or last)
                self.memory_bytes += offset_bytes(row)
            self._note(row.committed_at_ms)
        self._last = last

    def take_pending(self, pending: PendingOffsets) -> None:
        self.settle(pending.transaction_id)
        self._pending[pending.transaction_id] = pending
        self.memory_bytes += pending_bytes(pending)
        self._note(pending.prepared_at_ms)

    def settle(self, transaction_id: str) -> None:
        known = self._pending.pop(transaction_id, None)
        self.memory_bytes -= 0 if known is None else pending_bytes(known)

    def group(self) -> Group:
        return Group(
            row=self._row,
            offsets=MappingProxyType(self._offsets),
            pending=MappingProxyType(self._pending),
            changed_at_ms=self._changed_at_ms,
            holdings=self._holdings,
            memory_bytes=self.memory_bytes,
        )

    def _note(self, time_ms: int) -> None:
        self._changed_at_ms = max(self._changed_at_ms, time_ms)


GroupsView = GroupsState | GroupsEdit
"""State at which a decision about groups is judged."""


def consumer_offsets_table() -> Table[GroupsState]:
    """Return the description of the table."""
    return system_table(layout.CONSUMER_OFFSETS_ROOT, "the consumers' offsets", GroupsState)


def decode_changes(path: str, tags: Mapping[str, str | None]) -> list[GroupChanges]:
    """Return the changes in an ``add``. Raises ``CorruptData``."""
    return decode_add_tag(NAME, path, tags, TAG_GROUPS, decode_tag)


def snapshot(state: GroupsState) -> GroupChanges:
    """Return the changes that give all groups of ``state``."""
    groups = state.groups.values()
    return GroupChanges(
        groups=tuple(group.row for group in groups if group.row is not None),
        offsets=tuple(row for group in groups for row in group.offsets.values()),
        pending=tuple(pending for group in groups for pending in group.pending.values()),
    )
