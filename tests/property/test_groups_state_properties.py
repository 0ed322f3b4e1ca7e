"""``system/consumer_offsets`` is what its tags say: however it is read, rewritten or checkpointed, the groups are the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.errors import TidelogError
from log_format.groups.changes import (
    ClaimGroup,
    CommitOffsets,
    Compact,
    CoordinatorFenced,
    Decide,
    DeleteGroup,
    GroupDecision,
    PutGroup,
    SettleOffsets,
)
from log_format.groups.row import GroupRow, MemberRow, OffsetRow, decode_tag, encode_tag
from log_format.groups.state import Group, GroupsState, consumer_offsets_table, snapshot
from log_format.layout import CONSUMER_OFFSETS_ROOT
from tests.support.followed_table import FollowedTable
from tests.support.group_rows import member_row

GROUPS = ("a", "b", "\u00e9/:")
TOPICS = ("t", "u")


def _offset(group: str, topic: str, partition: int, offset: int | None) -> OffsetRow:
    return OffsetRow(
        group=group, topic=topic, partition=partition, topic_id=f"id-{topic}", offset=offset, committed_at_ms=0
    )


def _member(name: str, generation: int) -> MemberRow:
    return member_row(name, topics=TOPICS, target={"t": (0, 1)}, held={"t": (1,)}, acknowledged=generation)


groups = st.sampled_from(GROUPS)
offsets = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 2), st.integers(0, 1 << 40)),
    max_size=3,
    unique_by=lambda o: o[:2],
)
steps = st.one_of(
    st.tuples(st.just("claim"), groups, st.sampled_from(("gateway-1", "gateway-2"))),
    st.tuples(st.just("regroup"), groups, st.integers(0, 2)),
    st.tuples(st.just("commit"), groups, offsets),
    st.tuples(st.just("prepare"), groups, st.tuples(st.sampled_from(("x1", "x2")), offsets)),
    st.tuples(st.just("settle"), groups, st.tuples(st.sampled_from(("x1", "x2")), st.booleans())),
    st.tuples(st.just("delete"), groups, st.none()),
)


def _decision(state: GroupsState, step: tuple[str, str, Any]) -> GroupDecision:
    what, name, wish = step
    group = state.group(name)
    if what == "claim":
        return ClaimGroup(group=name, coordinator=wish)
    if what == "regroup":
        generation = 0 if group.row is None else group.row.generation + 1
        members = tuple(_member(f"m{number}", generation) for number in range(wish))
        row = GroupRow(
            group=name,
            epoch=group.epoch,
            coordinator="gateway-1",
            generation=generation,
            assignor="range" if members else None,
            members=members,
            changed_at_ms=0,
        )
        return PutGroup(row=row)
    if what == "delete":
        return DeleteGroup(group=name, epoch=group.epoch)
    if what == "settle":
        return SettleOffsets(group=name, transaction_id=wish[0], is_committed=wish[1])
    transaction_id, rows = wish if what == "prepare" else (None, wish)
    written = tuple(_offset(name, *row) for row in rows)
    return CommitOffsets(group=name, offsets=written, transaction_id=transaction_id)


def _content(state: GroupsState) -> dict[str, Group]:
    # When something last changed is not kept of what was erased.
    return {name: replace(group, changed_at_ms=0) for name, group in state.groups.items()}


@given(st.lists(st.one_of(st.lists(steps, min_size=1, max_size=4), st.sampled_from(("compact", "checkpoint", "pass")))))
@settings(max_examples=120)
def test_every_way_of_reading_gives_the_same(history: list[Any]) -> None:
    """A follower, a log loaded anew with and without checkpoints, a rewrite, and the snapshot of a state all agree."""
    table = FollowedTable(consumer_offsets_table, CONSUMER_OFFSETS_ROOT, _content, Compact)
    for act in history:
        if isinstance(act, str):
            table.act(act)
        else:
            table.commit(Decide([_decision(table.state, step) for step in act], table.new_id))
        table.assert_followed()
    fresh = table.loaded_anew()
    assert _content(GroupsState().after(*decode_tag(encode_tag([snapshot(fresh)])))) == _content(fresh)


@given(st.lists(steps, min_size=1, max_size=6))
@settings(max_examples=120)
def test_decisions_that_share_a_commit_are_as_if_alone(wishes: list[tuple[str, str, Any]]) -> None:
    """Together or one after another: the same outcomes and offsets, each judged with those before it applied. An outcome has the
    row as its decision left it, and every offset that it left, whatever comes behind it in the commit."""
    ids = count()
    alone = GroupsState(version=7)
    decisions, refusals, left = [], list[str | None](), list[Group]()
    for step in wishes:
        decision = _decision(alone, step)
        decisions.append(decision)
        decided = decision.decide(alone, 5)
        refusals.append(decided.detail if isinstance(decided, TidelogError) else None)
        if not isinstance(decided, TidelogError):
            alone = alone.after(decided)
        left.append(alone.group(decision.group))
    proposal = Decide(decisions, lambda: f"id-{next(ids)}").propose(GroupsState(version=7), 5)
    together = GroupsState(version=7)
    for action in proposal.actions:
        tags = getattr(action, "tags", None)
        if tags:
            together = together.after(*decode_tag(next(iter(tags.values()))))
    assert _content(together) == _content(alone)
    # What is kept up with each change is what a count of all would give.
    assert together.memory_bytes == alone.memory_bytes == GroupsState().after(snapshot(alone)).memory_bytes
    assert [one.detail if isinstance(one, TidelogError) else None for one in proposal.result] == refusals
    for group, outcome in zip(left, proposal.result, strict=True):
        if isinstance(outcome, Group):
            assert outcome.row == group.row
            assert outcome.offsets.keys() >= group.offsets.keys()


@given(groups, offsets, st.integers(0, 5))
def test_a_paused_coordinator_writes_nothing(name: str, rows: list[tuple[str, int, int]], others: int) -> None:
    """Once another has claimed the group, members and deletion by the old one are refused, whatever came between."""
    state = GroupsState(version=3)
    claimed = ClaimGroup(group=name, coordinator="old").decide(state, 1)
    assert not isinstance(claimed, TidelogError)
    state = replace(state.after(claimed), version=4)
    row = state.group(name).row
    assert row is not None
    assert not isinstance(PutGroup(row=row).decide(state, 1), TidelogError)
    taken = ClaimGroup(group=name, coordinator="new").decide(replace(state, version=4 + others), 1)
    assert not isinstance(taken, TidelogError)
    state = state.after(taken)
    committed = CommitOffsets(group=name, offsets=tuple(_offset(name, *one) for one in rows)).decide(state, 1)
    assert not isinstance(committed, TidelogError)
    state = state.after(committed)
    for late in (PutGroup(row=row), DeleteGroup(group=name, epoch=row.epoch)):
        assert isinstance(late.decide(state, 2), CoordinatorFenced)
