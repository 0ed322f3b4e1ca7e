"""The table of consumers' offsets: the log decides which member may commit, and any Delta reader opens the table."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import deltalake
import msgspec
import pytest

from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import CorruptData, ErrorCode, TidelogError
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
from log_format.groups.row import GroupChanges, GroupRow, MemberRow, OffsetRow, decode_tag, encode_tag
from log_format.groups.state import GroupsState, consumer_offsets_table, decode_changes
from log_format.stores.local import LocalStore
from tests.support.group_rows import member_row


def _offset(offset: int | None, partition: int = 0, topic_id: str = "first") -> OffsetRow:
    return OffsetRow(group="g", topic="t", partition=partition, topic_id=topic_id, offset=offset, committed_at_ms=0)


def _member(name: str, *, target: tuple[int, ...], held: tuple[int, ...], acknowledged: int) -> MemberRow:
    former = (f"{name}-before",)
    return member_row(name, target={"t": target}, held={"t": held}, acknowledged=acknowledged, former_ids=former)


def _row(*members: MemberRow, generation: int = 5) -> GroupRow:
    return GroupRow(
        group="g",
        epoch=1,
        coordinator="c",
        generation=generation,
        assignor="range",
        members=members,
        changed_at_ms=0,
    )


MOVING = GroupsState().after(
    GroupChanges(
        groups=(
            _row(
                _member("old", target=(0,), held=(0, 1), acknowledged=4),
                _member("new", target=(1, 2), held=(), acknowledged=5),
            ),
        )
    )
)
"""Partition 1 moves from ``old``, which has not acknowledged generation 5, to ``new``."""


@pytest.mark.parametrize(
    ("member", "generation", "partitions", "wanted"),
    [
        ("old", 4, (0, 1), None),
        ("old", 5, (0, 1), None),
        ("new", 5, (2,), None),
        ("new", 5, (), None),
        ("old", 3, (0,), ErrorCode.STALE_GENERATION),
        ("old", 6, (0,), ErrorCode.STALE_GENERATION),
        ("old", None, (0,), ErrorCode.STALE_GENERATION),
        ("new", 4, (2,), ErrorCode.STALE_GENERATION),
        ("new", 5, (1,), ErrorCode.STALE_GENERATION),
        ("new", 5, (2, 0), ErrorCode.STALE_GENERATION),
        ("old", 5, (2,), ErrorCode.STALE_GENERATION),
        (None, None, (0,), ErrorCode.STALE_GENERATION),
        ("other", 5, (0,), ErrorCode.UNKNOWN_MEMBER),
        ("old-before", 5, (0,), ErrorCode.FENCED_MEMBER),
    ],
)
def test_who_may_commit(
    member: str | None, generation: int | None, partitions: tuple[int, ...], wanted: ErrorCode | None
) -> None:
    """Under its last generation or the present one, for what it holds, and all of it or nothing."""
    rows = tuple(_offset(7, partition) for partition in partitions)
    decided = CommitOffsets(group="g", offsets=rows, member=member, generation=generation).decide(MOVING, 9)
    assert (decided.code if isinstance(decided, TidelogError) else None) == wanted


@pytest.mark.parametrize(("epoch", "wanted"), [(None, None), (1, None), (0, "refused")])
def test_who_held_a_commit_while_the_group_was_taken_over_commits_nothing(
    epoch: int | None, wanted: str | None
) -> None:
    """A commit with an older coordinator's epoch than the log's is refused, since the member may have gone on elsewhere (G7).

    The epoch is the coordinator's when it took the request. A commit that names no epoch is judged by the members alone.
    """
    late = CommitOffsets(group="g", offsets=(_offset(7),), member="old", generation=5, epoch=epoch)
    decided = late.decide(MOVING, 9)
    assert ("refused" if isinstance(decided, CoordinatorFenced) else None) == wanted


def test_a_first_position_replaces_only_what_it_was_to() -> None:
    """``instead_of``: another offset meanwhile refuses it; one of a topic that was deleted is none."""
    state = GroupsState().after(GroupChanges(offsets=(_offset(4),)))
    begin = CommitOffsets(group="g", offsets=(_offset(0),), instead_of={("t", 0): None})
    refusal = begin.decide(state, 9)
    assert isinstance(refusal, TidelogError)
    assert refusal.code == ErrorCode.STALE_GENERATION
    moved = CommitOffsets(group="g", offsets=(_offset(5),), instead_of={("t", 0): 4})
    assert not isinstance(moved.decide(state, 9), TidelogError)
    anew = CommitOffsets(group="g", offsets=(_offset(0, topic_id="second"),), instead_of={("t", 0): None})
    assert not isinstance(anew.decide(state, 9), TidelogError)


def test_pending_offsets_count_once_their_transaction_is_decided() -> None:
    """Prepared offsets count for no reader; committed they are the group's, aborted nothing, and settling again does
    nothing.
    """
    state = GroupsState()
    for transaction in ("x1", "x2"):
        prepared = CommitOffsets(
            group="g", offsets=(_offset(3 if transaction == "x1" else 9),), transaction_id=transaction
        )
        changes = prepared.decide(state, 1)
        assert isinstance(changes, GroupChanges)
        state = state.after(changes)
    assert (dict(state.group("g").offsets), set(state.group("g").pending)) == ({}, {"x1", "x2"})
    for transaction, is_committed in (("x1", True), ("x2", False)):
        changes = SettleOffsets(group="g", transaction_id=transaction, is_committed=is_committed).decide(state, 2)
        assert isinstance(changes, GroupChanges)
        state = state.after(changes)
    group = state.group("g")
    assert ({key: row.offset for key, row in group.offsets.items()}, dict(group.pending)) == ({("t", 0): 3}, {})
    assert SettleOffsets(group="g", transaction_id="x1", is_committed=True).decide(state, 3) == GroupChanges()


def test_every_version_is_a_delta_table(tmp_path: Path) -> None:
    """deltalake opens it at each version, sees each commit's rows once, and a rewrite leaves the newest of each key."""
    store, ids = LocalStore(tmp_path), count()

    def new_id() -> str:
        return f"id-{next(ids)}"

    log = TableLog(store, consumer_offsets_table(), SystemClock())
    committer = Committer(log, new_id=new_id)
    path = str(tmp_path / "system" / "consumer_offsets")
    steps: list[tuple[list[GroupDecision], int]] = [
        ([CommitOffsets(group="g", offsets=(_offset(1), _offset(2, 1)))], 2),
        ([ClaimGroup(group="g", coordinator="c")], 2),
        ([CommitOffsets(group="g", offsets=(_offset(4),))], 3),
    ]
    for decisions, row_count in steps:
        committer.commit(Decide(decisions, new_id))
        assert deltalake.DeltaTable(path).to_pyarrow_table().num_rows == row_count
    assert committer.commit(Compact(new_id, files_min=4)).result == 0
    assert committer.commit(Compact(new_id, files_min=3)).result == 3
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted((row["partition"], row["offset"], row["generation"]) for row in rows) == [(0, 4, None), (1, 2, None)]
    assert deltalake.DeltaTable(path, version=2).to_pyarrow_table().num_rows == 3
    row = log.state.group("g").row
    assert row is not None
    joined = msgspec.structs.replace(row, generation=1, members=(_member("m", target=(0,), held=(), acknowledged=1),))
    committer.commit(Decide([PutGroup(row=joined)], new_id))
    refused = committer.commit(Decide([DeleteGroup(group="g", epoch=row.epoch)], new_id)).result[0]
    assert isinstance(refused, TidelogError)
    assert refused.code == ErrorCode.GROUP_NOT_EMPTY
    committer.commit(Decide([PutGroup(row=msgspec.structs.replace(row, generation=2))], new_id))
    committer.commit(Decide([DeleteGroup(group="g", epoch=row.epoch)], new_id))
    assert "g" not in log.state.groups
    erased = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sum(row["offset"] is None for row in erased) == 2
    deltalake.DeltaTable(path).create_checkpoint()
    fresh = TableLog(store, consumer_offsets_table(), SystemClock()).refresh()
    assert (fresh.version, fresh.groups) == (log.state.version, log.state.groups)


def test_a_tag_is_changes_or_damage() -> None:
    """What was encoded is decoded, also where it is long enough to be compressed; anything else is corrupt data."""
    for size in (1, 5_000):
        changes = [GroupChanges(offsets=tuple(_offset(1, partition) for partition in range(size)))]
        tag = encode_tag(changes)
        assert tag.startswith("[") is (size == 1)
        assert decode_tag(tag) == changes
    for bad in ("", "[[1]]", '{"a":1}', "eJw", "!!!!", "AAAA"):
        with pytest.raises(CorruptData):
            decode_changes("offsets/x.parquet", {"tidelog.groups": bad})
    with pytest.raises(CorruptData):
        decode_changes("offsets/x.parquet", {})
