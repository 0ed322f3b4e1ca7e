"""The archive of a topic: rows that stay in its table after they have left the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import named_adds
from log_format.checkpoints.topic_log import TopicLog
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import CommitInfo, decode_commit, encode_commit
from log_format.errors import BackOff, CorruptData
from log_format.inspection.backup import copy_log
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher
from log_format.stores.memory import MemoryStore
from log_format.topic.archive import archived
from log_format.topic.archiving import ArchivedFile, ArchiveExpired, RemoveArchived
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.state import TopicState
from tests.support.asked_store import AskedStore
from tests.support.maintenance_bench import SMALL, MaintenanceBench
from tests.support.table_rows import rows_by_delta, rows_by_log

HOUR = 3_600_000
NO_MERGES = Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**12, fan_in=1_000, removes_max=3)


def fill(bench: MaintenanceBench, first: int, end: int) -> None:
    for number in range(first, end):
        bench.append((0, b"k", b"v%d" % number))
        bench.clock.pass_ms(10)


def archive_some(bench: MaintenanceBench, count: int = 8, **config: object) -> None:
    """``count`` records an hour too old for the log, in as many segments, and two young ones."""
    bench.create(1, retention_ms=HOUR, **{"table_retention_ms": -1, **config})
    fill(bench, 0, count)
    bench.clock.pass_ms(2 * HOUR)
    fill(bench, count, count + 2)
    assert bench.job(NO_MERGES).run_round(collect=True).failed_topics == 0, bench.report.events
    bench.log.refresh()


def values(rows: list[tuple[int, int, bytes | None, bytes | None]]) -> list[bytes | None]:
    return [value for _, _, _, value in rows]


def all_values(end: int) -> list[bytes]:
    return [b"v%d" % number for number in range(end)]


def test_expired_records_stay_in_the_table(bench: MaintenanceBench, tmp_path: Path) -> None:
    """The log has the young ones, a Delta reader all, at a checkpoint in two parts and after it; a new gateway knows only the
    log's segments and how much the archive has."""
    archive_some(bench)
    assert bench.read() == [(8, b"v8"), (9, b"v9")]
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(10)
    state = TopicLog(bench.store, "t", bench.clock).refresh()
    assert (state.manifest.segment_count(), state.archive.segment_count) == (2, 8)
    assert layout.table_checkpoint_part_key("topics/t/", state.version, 2) in [
        info.key for info in bench.store.list("")
    ]
    expected = [(0, number, b"v%d" % number) for number in range(10)]
    assert rows_by_delta(bench.store, "t", tmp_path / "at") == expected
    fill(bench, 10, 12)
    assert rows_by_delta(bench.store, "t", tmp_path / "after") == [*expected, (0, 10, b"v10"), (0, 11, b"v11")]
    bench.assert_whole()


def test_a_gateway_that_replays_counts_as_one_that_loads(bench: MaintenanceBench) -> None:
    """Each commit's effect on the archive, and what a checkpoint says of it, are the same; bytes, too."""
    follower = TopicLog(bench.store, "t", bench.clock)
    archive_some(bench)
    follower.refresh()
    loaded = TopicLog(bench.store, "t", bench.clock).refresh()
    assert follower.state.archive == bench.log.state.archive
    counted = (loaded.archive.segment_count, loaded.archive.size_bytes)
    assert counted == (bench.log.state.archive.segment_count, bench.log.state.archive.size_bytes)
    assert counted[1] > 0


@pytest.mark.parametrize("lists_from_key", [True, False])
def test_a_gateway_reads_nothing_of_an_archive(lists_from_key: bool) -> None:
    """It loads the topic, and takes over, with as many reads as one without an archive: never the checkpoint's second part."""
    asked = {}
    for retention in (-1, "log"):
        other = MaintenanceBench()
        archive_some(other, table_retention_ms=retention)
        version = other.log.state.version
        checkpoint.write_checkpoint(other.store, "t", version, other.clock.now_ms())
        store = AskedStore(lists_from_key=lists_from_key)
        for info in other.store.list(""):
            store.put(info.key, other.store.get(info.key))
        state = TopicLog(store, "t", other.clock).refresh()
        asked[state.archive.segment_count] = store.asked
        assert layout.table_checkpoint_part_key("topics/t/", version, 2) not in store.asked
    without, with_archive = (asked[count] for count in sorted(asked))
    assert len(asked) == 2
    assert len(with_archive) == len(without)


def test_an_unchanged_archive_is_copied(bench: MaintenanceBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next checkpoint's second part is the store's copy of the one before; one of a changed archive is written."""
    archive_some(bench)
    copies: list[tuple[str, str]] = []
    real = bench.store.copy_if_absent

    def copy(source: str, target: str) -> None:
        copies.append((source, target))
        real(source, target)

    monkeypatch.setattr(bench.store, "copy_if_absent", copy)
    before = bench.log.state.version
    fill(bench, 10, 12)
    checkpoint.write_checkpoint(bench.store, "t", bench.log.state.version, bench.clock.now_ms())
    parts = [layout.table_checkpoint_part_key("topics/t/", version, 2) for version in (before, bench.log.state.version)]
    assert copies == [tuple(parts)]
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(12)
    bench.clock.pass_ms(2 * HOUR)
    bench.job(NO_MERGES).run_round(collect=False)
    assert len(copies) == 1
    assert bench.log.refresh().archive.segment_count == 11  # never the newest segment
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(12)
    bench.assert_whole()


def test_a_gateway_leaves_a_large_changed_archive_to_others(bench: MaintenanceBench) -> None:
    """It writes no checkpoint for which more rows than it may would have to be written again, until it must."""
    archive_some(bench)
    newest = checkpoint.last_checkpoint_version(bench.store, "t")
    state = bench.log.state
    bench.commit(
        RemoveArchived(topic_id=state.existing_id, archive_version=state.archive.version, files=some_files(bench))
    )
    version = bench.log.state.version
    arguments = (bench.store, "topics/t/", version, bench.clock.now_ms())
    assert not checkpoint.write_table_checkpoint(*arguments, archived_max=7)
    assert checkpoint.last_checkpoint_version(bench.store, "t") == newest
    assert checkpoint.write_table_checkpoint(*arguments, archived_max=8)
    assert checkpoint.last_checkpoint_version(bench.store, "t") == version


def some_files(bench: MaintenanceBench, count: int = 1) -> list[ArchivedFile]:
    """Files of the archive, by the commits that archived them."""
    adds = [
        add
        for key in bench.stored("_delta_log/")
        if key.endswith(".json")
        for add in decode_commit(bench.store.get(key), key).adds
        if "tidelog.archive" in (add.tags or {})
    ]
    return [ArchivedFile(add.path, add.size) for add in adds[:count]]


def test_rows_leave_the_table_by_age(bench: MaintenanceBench) -> None:
    """Once all of a file is older than ``table.retention.ms``, and not before; their objects are deleted later."""
    archive_some(bench, table_retention_ms=10 * HOUR, deleted_file_retention_ms=HOUR)
    bench.clock.pass_ms(9 * HOUR)
    bench.job(NO_MERGES).run_round(collect=True)
    assert bench.log.refresh().archive.segment_count == 1  # v8; v9 is the newest segment
    assert values(rows_by_log(bench.store, "t", bench.clock)) == [b"v8", b"v9"]
    bench.clock.pass_ms(30 * HOUR)
    bench.job(NO_MERGES).run_round(collect=True)
    assert len(bench.stored("segments/")) == 1 + len(bench.events("remove from the archive")[-1:])
    bench.assert_whole()


def test_rows_leave_the_table_by_size(bench: MaintenanceBench) -> None:
    """The oldest files leave as long as the table, log and archive, has ``table.retention.bytes`` without them."""
    archive_some(bench)
    sizes = [segment.size_bytes for segment in bench.log.state.manifest.segments()]
    kept = bench.log.state.archive.size_bytes + sum(sizes) - sizes[0] * 3
    bench.commit(AlterTopic(partition_count=None, config={"table.retention.bytes": kept}))
    bench.job(NO_MERGES).run_round(collect=False)
    left = values(rows_by_log(bench.store, "t", bench.clock))
    assert left == all_values(10)[3:] or left == all_values(10)[2:]
    bench.assert_whole()


def test_all_leaves_when_the_table_is_as_the_log_again(bench: MaintenanceBench) -> None:
    """Without ``table.retention.*`` the archive is emptied, in commits of a limited size, and checkpoints have one part again."""
    archive_some(bench)
    bench.commit(AlterTopic(partition_count=None, config={"table.retention.ms": "log"}))
    bench.job(NO_MERGES).run_round(collect=False)
    assert bench.log.refresh().archive.segment_count == 0
    assert len(bench.events("remove from the archive")) == 3
    assert values(rows_by_log(bench.store, "t", bench.clock)) == [b"v8", b"v9"]
    assert layout.table_checkpoint_key("topics/t/", bench.log.state.version) in [
        info.key for info in bench.store.list("")
    ]


def test_deleted_records_stay_in_the_table(bench: MaintenanceBench) -> None:
    """Deleting records moves the log start; their rows leave by the table's retention only, also from a segment with others."""
    bench.create(1, retention_ms=-1, table_retention_ms=-1)
    bench.append(*[(0, b"k", b"v%d" % number) for number in range(4)])
    bench.append(*[(0, b"k", b"v%d" % number) for number in range(4, 8)])
    bench.append((0, b"k", b"v8"))
    bench.commit(DeleteRecords(before={0: 6}))
    for _ in range(2):
        bench.job().run_round(collect=True)
        bench.clock.pass_ms(30 * HOUR)
    assert [offset for offset, _ in bench.read()] == [6, 7, 8]
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(9)
    bench.assert_whole()


def test_archived_files_are_no_orphans(bench: MaintenanceBench) -> None:
    """Collection keeps them, however old, and deletes the log below the keeper with both parts of its checkpoints."""
    archive_some(bench, commit_retention_count=0, deleted_file_retention_ms=HOUR)
    for first in range(10, 40, 10):
        fill(bench, first, first + 10)
        bench.clock.pass_ms(40 * HOUR)
        bench.job(NO_MERGES).run_round(collect=True)
    assert len(bench.stored("segments/")) == 40
    versions = {
        kind: {version for key in bench.stored("_delta_log/") if (version := kind(key)) is not None}
        for kind in (layout.checkpoint_version, layout.archive_part_version)
    }
    assert versions[layout.checkpoint_version] == versions[layout.archive_part_version]
    assert f"{layout.commit_key('t', 0)}" not in bench.stored("_delta_log/")
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(40)
    bench.assert_whole()


def test_a_topic_is_deleted_after_its_archive(bench: MaintenanceBench) -> None:
    """The deletion waits until no archived file is in the table: else Delta readers would see rows of a topic that is gone."""
    archive_some(bench)
    with pytest.raises(BackOff, match="8 archived segments"):
        bench.commit(DeleteTopic())
    state = bench.log.state
    files = some_files(bench, 8)
    assert bench.commit(RemoveArchived(topic_id=state.existing_id, archive_version=state.archive.version, files=files))
    bench.commit(DeleteTopic())
    assert rows_by_log(bench.store, "t", bench.clock) == []


def test_no_file_is_removed_twice(bench: MaintenanceBench) -> None:
    """Of two maintainers with one plan only the first removes: the archive has changed for the second."""
    archive_some(bench)
    state = bench.log.state
    change = RemoveArchived(
        topic_id=state.existing_id, archive_version=state.archive.version, files=some_files(bench, 2)
    )
    assert bench.commit(change)
    assert not bench.commit(change)
    assert bench.log.state.archive.segment_count == 6
    bench.assert_whole()


def test_readable_records_are_never_archived(bench: MaintenanceBench) -> None:
    """A commit that archives a segment with records from the log start on is damage, not data loss in silence."""
    archive_some(bench)
    add = decode_commit(bench.store.get(key := bench.stored("_delta_log/")[10]), key).adds[0]
    newest = [segment.path for segment in bench.log.state.manifest.segments()]
    assert add.path in newest
    data = encode_commit(CommitInfo(txn_id="x"), [archived(add)])
    bench.store.put(layout.commit_key("t", bench.log.state.version + 1), data)
    with pytest.raises(CorruptData, match="from a log start on"):
        bench.log.refresh()


def test_a_foreign_commit_to_the_archive_is_undone(bench: MaintenanceBench, tmp_path: Path) -> None:
    """A file that another program removed from the archive is named again with its row; counts stay as they are."""
    archive_some(bench)
    before = bench.log.state.archive
    [file] = some_files(bench)
    line = f'{{"remove":{{"path":"{file.path}","dataChange":true,"deletionTimestamp":1}}}}'
    info = '{"commitInfo":{"engineInfo":"other/1","operation":"DELETE"}}'
    bench.store.put(layout.commit_key("t", bench.log.state.version + 1), f"{info}\n{line}\n".encode())
    assert len(rows_by_delta(bench.store, "t", tmp_path / "meanwhile")) == 9
    bench.job(NO_MERGES).run_round(collect=True)
    state = TopicLog(bench.store, "t", bench.clock).refresh()
    assert (state.archive.segment_count, state.archive.size_bytes) == (before.segment_count, before.size_bytes)
    assert len(rows_by_delta(bench.store, "t", tmp_path / "after")) == 10
    bench.assert_whole()


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_damaged_second_part_is_made_good(bench: MaintenanceBench, is_lost: bool) -> None:
    """A lost one by the next checkpoint, a damaged one by the next of a changed archive: both are built from the commits. Until
    then it is no checkpoint for which anything may be cleaned away. Gateways, which do not read it, go on."""
    archive_some(bench)
    key = layout.table_checkpoint_part_key("topics/t/", bench.log.state.version, 2)
    damaged = bench.store.get(key)[:-20]
    bench.store.delete(key)
    if not is_lost:
        bench.store.put(key, damaged)
    assert [offset for offset, _ in bench.read()] == [8, 9]
    assert not checkpoint.is_loadable(bench.store, "topics/t/", bench.log.state.version)
    fill(bench, 10, 12)
    checkpoint.write_checkpoint(bench.store, "t", bench.log.state.version, bench.clock.now_ms())
    assert checkpoint.is_loadable(bench.store, "topics/t/", bench.log.state.version) == is_lost
    bench.clock.pass_ms(2 * HOUR)
    bench.job(NO_MERGES).run_round(collect=True)
    assert checkpoint.is_loadable(bench.store, "topics/t/", bench.log.refresh().version)
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(12)
    bench.assert_whole()


def test_verification_reads_the_archive(bench: MaintenanceBench) -> None:
    """A lost archived file is a problem; the report's records are those of the log."""
    archive_some(bench)
    assert verify_topic(bench.store, "t", clock=bench.clock).record_count == 2
    [file] = some_files(bench)
    bench.store.delete(f"topics/t/{file.path}")
    problems = verify_topic(bench.store, "t", clock=bench.clock).problems
    assert problems == (f"Segment {file.path} is missing.",)


def test_a_copy_has_the_archive(bench: MaintenanceBench) -> None:
    """A backup has both parts of checkpoints, and every archived file."""
    archive_some(bench)
    target = MemoryStore(clock=bench.clock)
    [copied] = copy_log(bench.store, target, bench.clock, topics=["t"])
    assert copied.problems == ()
    assert values(rows_by_log(target, "t", bench.clock)) == all_values(10)


def test_merges_keep_what_is_below_the_log_start(bench: MaintenanceBench) -> None:
    """A merge, also one that was planned before retention moved the log start, loses no row of a table that keeps them."""
    bench.create(1, retention_ms=HOUR, table_retention_ms=-1)
    fill(bench, 0, 6)
    bench.append((0, b"k", b"v6"), timestamp_ms=bench.clock.now_ms() + 10 * HOUR)
    bench.clock.pass_ms(2 * HOUR)
    bench.commit(DeleteRecords(before={0: 3}))
    for _ in range(3):
        bench.job(SMALL).run_round(collect=True)
        bench.clock.pass_ms(HOUR)
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(7)
    assert isinstance(bench.log.refresh(), TopicState)
    bench.assert_whole()


def test_the_archive_waits_for_erasures(bench: MaintenanceBench) -> None:
    """What is to be erased is not archived before: an erasure could look for it in the archive before, and in the log after."""
    load_cluster(bench.store, lambda: "0" * 32)
    bench.create(1, retention_ms=HOUR)
    fill(bench, 0, 8)
    request = RequestErasure(
        topic_id=bench.log.refresh().existing_id,
        erasure=Erasure(erasure_id="e", requested_ms=0, wanted=(Matcher("0" * 32, None),)),
    )
    bench.commit(request)
    bench.commit(AlterTopic(partition_count=None, config={"table.retention.ms": -1}))
    bench.clock.pass_ms(2 * HOUR)
    fill(bench, 8, 9)
    state = bench.log.refresh()
    table = checkpoint.reconcile_log(bench.store, "t", state.version, bench.clock.now_ms())
    assert table is not None
    adds = named_adds([table], [segment.path for segment in state.manifest.segments()])
    change = ArchiveExpired(topic_id=state.existing_id, adds=adds)
    assert bench.commit(change).archived_count == 0
    for _ in range(2):
        assert bench.job(NO_MERGES).run_round(collect=False).failed_topics == 0, bench.report.events
    assert bench.log.refresh().erasures[0].is_rewritten
    assert bench.log.state.archive.segment_count > 0
    assert values(rows_by_log(bench.store, "t", bench.clock)) == all_values(9)
