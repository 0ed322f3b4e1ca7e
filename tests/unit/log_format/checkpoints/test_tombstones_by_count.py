"""Checkpoints of a busy topic leave out the tombstones of merged flushes: Delta's own reader loads every one."""

from __future__ import annotations

import pytest

from log_format import limits
from log_format.checkpoints.checkpoint import removed_paths
from log_format.checkpoints.memory import NO_MEMORY, with_memory
from log_format.delta.actions import Add, Commit, MetaData, Remove
from log_format.delta.checkpoint_schema import SCHEMA, present
from log_format.topic.state import PARTITION_COUNT_PROPERTY
from tests.support.reconciled import reconcile

NOW_MS = 10**12
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
KEPT_MS = limits.FLUSHED_TOMBSTONES_KEPT_MS
EMPTY = with_memory(SCHEMA.empty_table(), NO_MEMORY)


def commit(removed: dict[str, int], added: tuple[str, ...] = (), **config: int) -> Commit:
    """``removed``: path -> age of its removal in ms. Settings, of a topic's metadata, have underscores for dots."""
    configuration = {f"tidelog.{name.replace('_', '.')}": str(value) for name, value in config.items()}
    return Commit(
        commit_id=None,
        protocol=None,
        metadata=MetaData(id="t", schema_string="{}", configuration={PARTITION_COUNT_PROPERTY: "1", **configuration}),
        adds=tuple(
            Add(path=path, partition_values={}, size=1, modification_time=0, data_change=True) for path in added
        ),
        removes=tuple(
            Remove(path=path, deletion_timestamp=NOW_MS - age_ms, data_change=False) for path, age_ms in removed.items()
        ),
        txns=(),
    )


OLD, YOUNG = "segments/old", "segments/young"
MERGED = "compacted/old"
REMOVED = {OLD: KEPT_MS + 1, YOUNG: KEPT_MS, MERGED: DAY_MS}


@pytest.mark.parametrize(
    ("count", "named"),
    [(-1, {OLD, YOUNG, MERGED}), (3, {OLD, YOUNG, MERGED}), (2, {YOUNG, MERGED}), (0, {YOUNG, MERGED})],
)
def test_more_tombstones_than_commits_are_kept(count: int, named: set[str]) -> None:
    """Beyond the count, flushed segments are named for two hours; merged ones, of which there are few, for the whole time."""
    table = reconcile(EMPTY, [commit(REMOVED, commit_retention_count=count)], NOW_MS)
    assert removed_paths(table) == named


def test_tombstones_of_a_checkpoint_and_of_commits_count_together() -> None:
    """The same, however many of them the checkpoint before had already; a segment that came back counts no more."""
    before = reconcile(EMPTY, [commit({OLD: KEPT_MS + 1, MERGED: 0}, commit_retention_count=2)], NOW_MS)
    assert removed_paths(before) == {OLD, MERGED}
    after = reconcile(before, [commit({YOUNG: 0}, commit_retention_count=2)], NOW_MS)
    assert removed_paths(after) == {YOUNG, MERGED}
    back = reconcile(before, [commit({YOUNG: 0}, (MERGED,), commit_retention_count=2)], NOW_MS)
    assert removed_paths(back) == {OLD, YOUNG}


def test_those_that_have_faded_do_not_count() -> None:
    """What may have been deleted long ago is no reason to leave out what may not."""
    removed = {OLD: KEPT_MS + 1, "segments/faded": DAY_MS + HOUR_MS + 1, "compacted/faded": 3 * DAY_MS}
    assert removed_paths(reconcile(EMPTY, [commit(removed, commit_retention_count=1)], NOW_MS)) == {OLD}


def test_files_that_must_go_before_a_day_keep_their_tombstones() -> None:
    """Without it the file would stay as an orphan does, for longer than ``deleted.file.retention.ms`` says."""
    young = {OLD: KEPT_MS + 1, YOUNG: 0}
    kept = [
        removed_paths(
            reconcile(EMPTY, [commit(young, commit_retention_count=0, deleted_file_retention_ms=after_ms)], NOW_MS)
        )
        for after_ms in (DAY_MS - 1, DAY_MS)
    ]
    assert kept == [{OLD, YOUNG}, {YOUNG}]


def test_what_is_left_out_is_no_add() -> None:
    """The segment does not come back: a tombstone that is not named still took it out of the table."""
    added = reconcile(EMPTY, [commit({}, (OLD, MERGED))], NOW_MS)
    after = reconcile(added, [commit({OLD: KEPT_MS + 1}, commit_retention_count=0)], NOW_MS)
    assert [add["path"] for add in present(after, "add").to_pylist()] == [MERGED]
    assert removed_paths(after) == set()
