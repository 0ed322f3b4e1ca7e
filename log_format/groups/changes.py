"""Decisions about groups. Many share one commit of ``system/consumer_offsets``; each is accepted or refused on its own.

1. A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head. So a former
   coordinator (a gateway that was paused) can't move the group's offsets: its epoch is stale.
2. The coordinator refuses a member with an old generation. The decision refuses the member, too, by what the log says.
3. Offsets of a transaction are prepared before the transaction is decided, under the same rules, and settled after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from log_format.delta.actions import Add
from log_format.delta.change import Proposal
from log_format.delta.system_table import CompactTable, SystemTable, TableContents, judge_in_order
from log_format.delta.system_table import Decide as SharedDecide
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.groups.row import (
    SCHEMA,
    TAG_GROUPS,
    GroupChanges,
    GroupRow,
    OffsetRow,
    PendingOffsets,
    encode_rows,
    encode_tag,
)
from log_format.groups.state import NAME, Group, GroupsEdit, GroupsState, GroupsView, snapshot

Outcome = Group | TidelogError
"""Group after the decision, or the error if nothing was decided."""


class CoordinatorFenced(BackOff):
    """Error: another gateway coordinates the group now, and the client should ask that one. Nothing happened."""

    def __init__(self, group: str) -> None:
        super().__init__(f"Another gateway coordinates group {group!r} now.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimGroup:
    """A decision that makes a gateway the group's coordinator, fencing the former one."""

    group: str
    coordinator: str

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return the group's row with the next epoch; members stay."""
        known = state.group(self.group).row
        if known is None:
            known = GroupRow(
                group=self.group,
                epoch=0,
                coordinator="",
                generation=0,
                assignor=None,
                members=(),
                changed_at_ms=now_ms,
            )
        # The epoch is the earliest version that can have the row, so that a group deleted and re-created repeats no epoch.
        row = msgspec.structs.replace(known, epoch=state.version + 2, coordinator=self.coordinator)
        return GroupChanges(groups=(row,))


@dataclass(frozen=True, slots=True, kw_only=True)
class PutGroup:
    """A decision that stores a group's members and what each may hold, as its coordinator determined."""

    row: GroupRow

    @property
    def group(self) -> str:
        """Name of the row's group."""
        return self.row.group

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return the row with the current time."""
        refusal = _fenced_error(state, self.row.group, self.row.epoch)
        return refusal or GroupChanges(groups=(msgspec.structs.replace(self.row, changed_at_ms=now_ms),))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """A decision that commits offsets; a null offset erases one. Any gateway may make it: it is judged by the members
    in the log."""

    group: str
    offsets: tuple[OffsetRow, ...]
    member: str | None = None
    """Member that commits; None if the group has no members."""
    generation: int | None = None
    transaction_id: str | None = None
    """Transaction until whose commit the offsets are pending, next to the committed ones; then they become the group's."""
    instead_of: Mapping[tuple[str, int], int | None] | None = None
    """Current offsets, of the same incarnation (None: no offset), for the keys of ``offsets``; if they differ, nothing is
    committed."""
    epoch: int | None = None
    """Epoch of the coordinator when it took the request. If another gateway has taken over the group since then, the request is
    refused, since its sender may have gone on there."""

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return the offsets with the current time."""
        group = state.group(self.group)
        keys = [row.key for row in self.offsets]
        refusal = _fenced_error(state, self.group, self.epoch) if self.epoch is not None else None
        refusal = refusal or judge_commit(self.group, group, keys, self.member, self.generation)
        if refusal is not None:
            return refusal
        if self.instead_of is not None:
            for row in self.offsets:
                known = group.offsets.get(row.key)
                # The offset of a deleted topic does not count.
                offset = known.offset if known is not None and known.topic_id == row.topic_id else None
                if offset != self.instead_of.get(row.key):
                    return stale_error(
                        self.group, f"the committed offset of {row.topic}/{row.partition} changed meanwhile"
                    )
        rows = tuple(msgspec.structs.replace(row, committed_at_ms=now_ms) for row in self.offsets)
        if self.transaction_id is None:
            if not rows and group.row is not None and not group.exists:
                # A commit without offsets still creates the group.
                return GroupChanges(groups=(msgspec.structs.replace(group.row, generation=1, changed_at_ms=now_ms),))
            return GroupChanges(offsets=rows)
        before = group.pending.get(self.transaction_id)
        latest = {row.key: row for row in (*(before.offsets if before is not None else ()), *rows)}
        pending = PendingOffsets(
            transaction_id=self.transaction_id,
            group=self.group,
            offsets=tuple(latest.values()),
            prepared_at_ms=now_ms,
        )
        return GroupChanges(pending=(pending,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleOffsets:
    """A decision that makes a transaction's pending offsets the group's, or drops them. Never refused: the transaction is
    decided."""

    group: str
    transaction_id: str
    is_committed: bool

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return the offsets with the current time; nothing if they are settled already."""
        pending = state.group(self.group).pending.get(self.transaction_id)
        if pending is None:
            return GroupChanges()
        rows = tuple(msgspec.structs.replace(row, committed_at_ms=now_ms) for row in pending.offsets)
        return GroupChanges(offsets=rows if self.is_committed else (), settled=((self.group, self.transaction_id),))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """A decision that deletes a group without members, and its offsets."""

    group: str
    epoch: int

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return a null for every offset, for readers of the table, and the deletion of the group."""
        group = state.group(self.group)
        refusal = _fenced_error(state, self.group, self.epoch)
        if refusal is not None:
            return refusal
        if group.row is not None and group.row.members:
            return not_empty_error(self.group)
        erased = tuple(
            msgspec.structs.replace(row, offset=None, metadata=None, committed_at_ms=now_ms)
            for row in group.offsets.values()
        )
        return GroupChanges(offsets=erased, deleted=(self.group,))


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOffsets:
    """A decision that erases offsets of topics to which no member subscribes, even while the group has members."""

    group: str
    keys: tuple[tuple[str, int], ...]

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Return a null for each of these offsets that exists."""
        group = state.group(self.group)
        subscribed = group.row.read_topics if group.row else set()
        if any(topic in subscribed for topic, _ in self.keys):
            return not_empty_error(self.group)
        erased = [
            msgspec.structs.replace(group.offsets[key], offset=None, metadata=None, committed_at_ms=now_ms)
            for key in self.keys
            if key in group.offsets
        ]
        return GroupChanges(offsets=tuple(erased))


GroupDecision = ClaimGroup | PutGroup | CommitOffsets | SettleOffsets | DeleteGroup | EraseOffsets
"""Change to a group. ``decide`` is pure: it returns what to write (perhaps nothing), or the refusal. The outcome is the state of
``group`` then."""


class Decide(SharedDecide[GroupsState, GroupDecision, Outcome]):
    """A change that commits several decisions about groups."""

    table = SystemTable(name=NAME, schema=SCHEMA, directory="offsets")

    def judge(
        self, decisions: Sequence[GroupDecision], state: GroupsState, now_ms: int
    ) -> tuple[list[Outcome], TableContents | None]:
        """Return the groups after their decisions."""
        ahead = GroupsEdit(state)
        outcomes, changes = judge_in_order(
            decisions,
            lambda decision: decision.decide(ahead, now_ms),
            ahead.apply,
            lambda decision: ahead.group(decision.group),
        )
        self._ahead = ahead
        return outcomes, _contents(changes) if changes else None

    def propose(self, state: GroupsState, now_ms: int) -> Proposal[Sequence[Outcome]]:
        """See ``SharedDecide``; the state after the commit is given, too, since it was made by judging."""
        proposal = super().propose(state, now_ms)
        adds = [action for action in proposal.actions if isinstance(action, Add)]
        return replace(proposal, after=state.edited(self._ahead).with_files(adds)) if adds else proposal


class Compact(CompactTable[GroupsState]):
    """A change that compacts the table, as ``CompactTable`` describes."""

    def contents(self, state: GroupsState) -> TableContents:
        """Return all groups in their current state."""
        return _contents([snapshot(state)])


def judge_commit(
    name: str, group: Group, keys: Sequence[tuple[str, int]], member: str | None, generation: int | None
) -> TidelogError | None:
    """Return the error if the log refuses the commit of offsets, else None.

    Args:
        name: the group's name.
        group: its state.
        keys: topic and partition of each offset.
        member: the member that commits; None for a client that is no member.
        generation: the member's generation.
    """
    members = group.row.members if group.row is not None else ()
    if member is None:
        return (
            stale_error(name, "it has members, so a commit needs a member_id and its generation") if members else None
        )
    row = next((row for row in members if row.member_id == member), None)
    if row is None:
        is_former = any(member in other.former_ids for other in members)
        return fenced_member_error(name, member) if is_former else unknown_member_error(name, member)
    assert group.row is not None
    if group.row.classic is not None:
        # The group's clients assign partitions themselves, so a member may commit any, but only under the present generation.
        is_present = generation == group.row.generation
        return (
            None
            if is_present
            else stale_error(name, f"generation {generation} is not the current one, {group.row.generation}")
        )
    if generation is None or not row.acknowledged <= generation <= group.row.generation:
        return stale_error(name, f"generation {generation} is not the member's, which is {row.acknowledged}")
    for topic, partition in keys:
        if not group.holdings.holds(member, topic, partition):
            return stale_error(name, f"member {member} does not hold {topic}/{partition}")
    return None


def stale_error(group: str, what: str) -> TidelogError:
    """Return the error for a request from another generation."""
    return RequestRefused(f"Group {group!r}: {what}.", code=ErrorCode.STALE_GENERATION)


def unknown_member_error(group: str, member: str) -> TidelogError:
    """Return the error for a member that left, was removed, or never joined."""
    return RequestRefused(
        f"Group {group!r} has no member {member[:100]!r}: it left, its session ended, or it never joined. Join again.",
        code=ErrorCode.UNKNOWN_MEMBER,
    )


def foreign_instance_error(group: str, instance: str | None) -> TidelogError:
    """Return the error for a new member that would replace another principal's."""
    return RequestRefused(
        f"Instance {(instance or '')[:100]!r} of group {group!r} is another principal's member.",
        code=ErrorCode.FENCED_MEMBER,
    )


def fenced_member_error(group: str, member: str) -> TidelogError:
    """Return the error for a static member that its next instance replaced."""
    return RequestRefused(
        f"Member {member[:100]!r} of group {group!r} was replaced by another with the same instance_id.",
        code=ErrorCode.FENCED_MEMBER,
    )


def not_empty_error(group: str) -> TidelogError:
    """Return the error for a request that only a group without members allows."""
    return RequestRefused(f"Group {group!r} has live members.", code=ErrorCode.GROUP_NOT_EMPTY)


def _fenced_error(state: GroupsView, group: str, epoch: int) -> TidelogError | None:
    return None if state.group(group).epoch == epoch else CoordinatorFenced(group)


def _contents(all_changes: Sequence[GroupChanges]) -> TableContents:
    rows = [row for changes in all_changes for row in changes.offsets]
    return TableContents(data=encode_rows(rows), row_count=len(rows), tags={TAG_GROUPS: encode_tag(all_changes)})
