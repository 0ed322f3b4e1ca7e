"""Decisions about groups: many share one commit of ``system/consumer_offsets``, and each stands or falls by itself.

1. A decision is judged against the state with the decisions before it in the same commit applied, and again against each newer
   head. So a former coordinator (a gateway that was paused) can't move a group's offsets: its epoch is old.
2. What a member that has lost its generation sends is refused by the coordinator; here it is refused by what the log says.
3. Offsets of a transaction are prepared before the transaction is decided, under the same rules, and settled after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from log_format.delta.change import Proposal
from log_format.delta.system_table import CompactTable, Contents, data_file, with_table
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.groups.row import (
    TAG_GROUPS,
    GroupChanges,
    GroupRow,
    OffsetRow,
    PendingOffsets,
    encode_rows,
    encode_tag,
    schema_string,
)
from log_format.groups.state import NAME, Group, GroupsEdit, GroupsState, GroupsView, snapshot
from log_format.ids import NewId

Outcome = Group | TidelogError
"""The group as it is then, or why nothing was decided."""


class CoordinatorFenced(BackOff):
    """Another gateway coordinates the group now; nothing happened. The request is for that one."""

    def __init__(self, group: str) -> None:
        super().__init__(f"Another gateway coordinates group {group!r} now.")


class GroupDecision(Protocol):
    """A wish about groups."""

    @property
    def group(self) -> str:
        """The group whose state is the outcome."""
        ...

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """What to write (perhaps nothing), or the refusal. Pure."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Become the group's coordinator; the one before is fenced."""

    group: str
    coordinator: str

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """The group's row with the next epoch; members stay."""
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
        # By the version that it will be in at the earliest: also a group that was deleted and made anew repeats no epoch.
        row = msgspec.structs.replace(known, epoch=state.version + 2, coordinator=self.coordinator)
        return GroupChanges(groups=(row,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Regroup:
    """Write down a group's members and what each may hold, as its coordinator has decided."""

    row: GroupRow

    @property
    def group(self) -> str:
        """Of the row."""
        return self.row.group

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """The row."""
        refusal = _fenced(state, self.row.group, self.row.epoch)
        return refusal or GroupChanges(groups=(msgspec.structs.replace(self.row, changed_at_ms=now_ms),))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets:
    """Commit offsets; null offsets erase what is there. Any gateway may: it is judged by the members that the log knows."""

    group: str
    offsets: tuple[OffsetRow, ...]
    member: str | None = None
    """None: the group has no members."""
    generation: int | None = None
    transaction_id: str | None = None
    """The offsets become the group's when this transaction is committed; until then they are pending."""
    instead_of: Mapping[tuple[str, int], int | None] | None = None
    """Only where these are the offsets of ``offsets`` now, for the same incarnation of the topic (None: none)."""
    epoch: int | None = None
    """The coordinator's when it took the request: one that a gateway has had in its hands since before another took the
    group over is refused, since its sender may have gone on there."""

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """The offsets, with the time."""
        group = state.group(self.group)
        keys = [row.key for row in self.offsets]
        refusal = _fenced(state, self.group, self.epoch) if self.epoch is not None else None
        refusal = refusal or judge_commit(self.group, group, keys, self.member, self.generation)
        if refusal is not None:
            return refusal
        if self.instead_of is not None:
            for row in self.offsets:
                known = group.offsets.get(row.key)
                # One of a topic that was deleted is none.
                offset = known.offset if known is not None and known.topic_id == row.topic_id else None
                if offset != self.instead_of.get(row.key):
                    return stale(self.group, f"the committed offset of {row.topic}/{row.partition} changed meanwhile")
        rows = tuple(msgspec.structs.replace(row, committed_at_ms=now_ms) for row in self.offsets)
        if self.transaction_id is None:
            if not rows and group.row is not None and not group.is_there:
                # A commit of nothing makes the group all the same.
                return GroupChanges(groups=(msgspec.structs.replace(group.row, generation=1, changed_at_ms=now_ms),))
            return GroupChanges(offsets=rows)
        pending = PendingOffsets(
            transaction_id=self.transaction_id, group=self.group, offsets=rows, prepared_at_ms=now_ms
        )
        return GroupChanges(pending=(pending,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Make a transaction's pending offsets the group's, or drop them. The transaction is decided: nothing is judged."""

    group: str
    transaction_id: str
    is_committed: bool

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """The offsets, with the time; nothing when they are settled already."""
        pending = state.group(self.group).pending.get(self.transaction_id)
        if pending is None:
            return GroupChanges()
        rows = tuple(msgspec.structs.replace(row, committed_at_ms=now_ms) for row in pending.offsets)
        return GroupChanges(offsets=rows if self.is_committed else (), settled=((self.group, self.transaction_id),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """End a group without members, its offsets included."""

    group: str
    epoch: int

    def decide(self, state: GroupsView, now_ms: int) -> GroupChanges | TidelogError:
        """Nulls for every offset, for readers of the table, and the end of the group."""
        group = state.group(self.group)
        refusal = _fenced(state, self.group, self.epoch)
        if refusal is not None:
            return refusal
        if group.row is not None and group.row.members:
            return not_empty(self.group)
        erased = tuple(
            msgspec.structs.replace(row, offset=None, metadata=None, committed_at_ms=now_ms)
            for row in group.offsets.values()
        )
        return GroupChanges(offsets=erased, deleted=(self.group,))


class Decide:
    """Decisions that share a commit. The result has an outcome for each."""

    def __init__(self, decisions: Sequence[GroupDecision], new_id: NewId) -> None:
        assert decisions
        self._decisions = tuple(decisions)
        self._new_id = new_id

    def propose(self, state: GroupsState, now_ms: int) -> Proposal[Sequence[Outcome]]:
        """One ``add`` with the rows; nothing when no decision needs one. Refusals are in the result."""
        all_changes: list[GroupChanges] = []
        outcomes: list[Outcome] = []
        ahead = GroupsEdit(state)
        for decision in self._decisions:
            decided = decision.decide(ahead, now_ms)
            if isinstance(decided, TidelogError):
                outcomes.append(decided)
                continue
            if decided:
                ahead.take(decided)
                all_changes.append(decided)
            # At once: a later decision of this commit may end the group, and does not take back what this one did.
            outcomes.append(ahead.group(decision.group))
        if not all_changes:
            return Proposal(operation="WRITE", actions=(), result=outcomes)
        path = f"offsets/{self._new_id()}.parquet"
        file, add = data_file(state, _contents(all_changes), path, now_ms, data_change=True)
        actions = with_table(state, add, name=NAME, schema=schema_string(), new_id=self._new_id, now_ms=now_ms)
        return Proposal(operation="WRITE", actions=actions, result=outcomes, segment=file)


class Compact(CompactTable[GroupsState]):
    """See ``CompactTable``."""

    def contents(self, state: GroupsState) -> Contents:
        """All groups as they are."""
        return _contents([snapshot(state)])


def judge_commit(
    name: str, group: Group, keys: Sequence[tuple[str, int]], member: str | None, generation: int | None
) -> TidelogError | None:
    """Why a commit for these partitions by this member (None: by no member) is refused by what the log says; None: it is not."""
    members = group.row.members if group.row is not None else ()
    if member is None:
        return stale(name, "it has members, so a commit needs a member_id and its generation") if members else None
    row = next((row for row in members if row.member_id == member), None)
    if row is None:
        is_former = any(member in other.former_ids for other in members)
        return fenced_member(name, member) if is_former else unknown_member(name, member)
    assert group.row is not None
    if generation is None or not row.acknowledged <= generation <= group.row.generation:
        return stale(name, f"generation {generation} is not the member's, whose last is {row.acknowledged}")
    for topic, partition in keys:
        if not group.holdings.holds(member, topic, partition):
            return stale(name, f"member {member} does not hold {topic}/{partition}")
    return None


def stale(group: str, what: str) -> TidelogError:
    """The refusal of what comes from another generation."""
    return RequestRefused(f"Group {group!r}: {what}.", code=ErrorCode.STALE_GENERATION)


def unknown_member(group: str, member: str) -> TidelogError:
    """The answer to a member that is out, or never was in."""
    return RequestRefused(
        f"Group {group!r} has no member {member[:100]!r}: it left, its session ended, or it never joined. Join again.",
        code=ErrorCode.UNKNOWN_MEMBER,
    )


def fenced_member(group: str, member: str) -> TidelogError:
    """The answer to a static member whose place was taken by its next instance."""
    return RequestRefused(
        f"Member {member[:100]!r} of group {group!r} was replaced by another with the same instance_id.",
        code=ErrorCode.FENCED_MEMBER,
    )


def not_empty(group: str) -> TidelogError:
    """The refusal of what only a group without members allows."""
    return RequestRefused(f"Group {group!r} has live members.", code=ErrorCode.GROUP_NOT_EMPTY)


def _fenced(state: GroupsView, group: str, epoch: int) -> TidelogError | None:
    return None if state.group(group).epoch == epoch else CoordinatorFenced(group)


def _contents(all_changes: Sequence[GroupChanges]) -> Contents:
    rows = [row for changes in all_changes for row in changes.offsets]
    return Contents(data=encode_rows(rows), row_count=len(rows), tags={TAG_GROUPS: encode_tag(all_changes)})
