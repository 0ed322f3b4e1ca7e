"""Erasures reach the archive: rows that are only in the table lose what is named, and old archived files go like others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compaction.archive_erasures import ArchiveErasures, Erased
from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.cloning import TableVersion, clone_topic
from log_format.checkpoints.topic_log import TopicLog
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import CommitInfo, decode_commit, encode_commit
from log_format.errors import CorruptData
from log_format.ids import random_id
from log_format.inspection.erased import verify_erased
from log_format.records.erasing import Matcher, digest_of
from log_format.topic.archiving import ArchivedFile, RemoveArchived
from log_format.topic.changes import AlterTopic
from log_format.topic.erasure_changes import FinishErasures, RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.live_segments import LiveSegment
from log_format.topic.pin_changes import CreatePin
from tests.support.interfering_workers import InterferingWorkers
from tests.support.killed_store import Broken, KilledStore
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.table_rows import rows_by_delta, rows_by_log

HOUR_MS = 3_600_000
QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)
"""Merges nothing by itself."""
NAMES = (b"anna", b"bo", b"anna", b"bo", b"anna", b"anna")
"""Keys of the records in order of offset; the last one is in the log, the others are archived."""


def archive(bench: MaintenanceBench) -> None:
    """Keep in the table only what is older than an hour: each record in a file of its own, and one more with the key in the
    log."""
    more = {"compression_type": "uncompressed", "deleted_file_retention_ms": 7 * 24 * HOUR_MS}
    bench.create(1, retention_ms=HOUR_MS, table_retention_ms=-1, **more)
    for number, key in enumerate(NAMES[:-1]):
        bench.append((0, key, b"%s-%d" % (key, number)))
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, NAMES[-1], b"%s-%d" % (NAMES[-1], len(NAMES) - 1)))
    assert bench.job(QUIET).run_round(collect=False).failed_topics == 0, bench.report.events
    assert bench.log.refresh().archive.segment_count == len(NAMES) - 1


@pytest.fixture
def bench() -> MaintenanceBench:
    made = MaintenanceBench(make_store=KilledStore)
    archive(made)
    return made


def ask(bench: MaintenanceBench, *keys: bytes, name: str = "e1", **more: Any) -> None:
    """Ask to erase what these keys have."""
    secret = load_cluster(bench.store, random_id).producer_key
    wanted = tuple(Matcher(digest_of(secret, key)) for key in keys)
    erasure = Erasure(erasure_id=name, requested_ms=0, wanted=wanted, **more)
    bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=erasure))


def rows(bench: MaintenanceBench) -> dict[int, bytes | None]:
    """Offset and value of every row of the table, each of which is there once."""
    found = [(offset, value) for _, offset, _, value in rows_by_log(bench.store, "t", bench.clock)]
    assert len(dict(found)) == len(found)
    return dict(found)


def archived_paths(bench: MaintenanceBench) -> list[str]:
    files = archived_files(bench.store, bench.log.refresh(), bench.clock.now_ms())
    return sorted(files.column("path").to_pylist())


def files_with(bench: MaintenanceBench, value: bytes) -> list[str]:
    """Objects of the topic with these bytes: nothing here is compressed."""
    return [info.key for info in bench.store.list("topics/t/") if value in bench.store.get(info.key)]


def assert_counts(bench: MaintenanceBench) -> None:
    """What a gateway that replays counts is what one that loads a checkpoint counts, and what is there."""
    loaded = TopicLog(bench.store, "t", bench.clock).refresh()
    assert loaded.archive.counts == bench.log.refresh().archive.counts
    bench.assert_whole()


ALL = {offset: b"%s-%d" % (key, offset) for offset, key in enumerate(NAMES)}
WITHOUT_ANNA = {offset: value if NAMES[offset] == b"bo" else None for offset, value in ALL.items()}


def test_archived_rows_lose_what_is_named(bench: MaintenanceBench, tmp_path: Path) -> None:
    """Rows keep offset and key, others their files; Delta readers see the same; part 2 of the checkpoint has the new files."""
    before = archived_paths(bench)
    assert rows(bench) == ALL
    ask(bench, b"anna")
    asked_version = bench.log.state.version
    bench.job(QUIET).run_round(collect=False)
    assert rows(bench) == WITHOUT_ANNA
    assert rows_by_delta(bench.store, "t", tmp_path) == [(0, offset, value) for offset, value in WITHOUT_ANNA.items()]
    assert {key for _, _, key, _ in rows_by_log(bench.store, "t", bench.clock)} == {b"anna", b"bo"}
    after = archived_paths(bench)
    assert (len(after), len(set(before) & set(after))) == (5, 2)
    (done,) = bench.log.refresh().erasures
    assert (done.record_count, done.is_rewritten) == (4, True)
    newest = checkpoint.last_checkpoint_version(bench.store, "t")
    assert newest is not None
    assert newest > asked_version, "gateways leave a changed archive to maintenance"
    assert bench.store.head(layout.table_checkpoint_part_key("topics/t/", newest, 2))
    assert_counts(bench)


def test_rows_go_with_keep_nothing(bench: MaintenanceBench) -> None:
    """Whole files go with their only row; what is left is whole, and retention goes on."""
    ask(bench, b"anna", keep="nothing")
    bench.job(QUIET).run_round(collect=False)
    assert rows(bench) == {1: b"bo-1", 3: b"bo-3"}
    assert bench.log.refresh().archive.segment_count == 2
    assert_counts(bench)
    bench.append((0, b"cy", b"cy-6"))
    bench.commit(AlterTopic(partition_count=None, config={"table.retention.ms": "log"}))
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"cy", b"cy-7"))
    bench.job(QUIET).run_round(collect=True)
    assert bench.log.refresh().archive.segment_count == 0
    assert rows(bench) == {7: b"cy-7"}
    bench.assert_whole()


def test_a_row_of_several_in_a_file_leaves_a_gap_that_is_declared() -> None:
    """The check of a topic tells a row that an erasure took from one that was lost."""
    bench = MaintenanceBench()
    bench.create(1, retention_ms=HOUR_MS, table_retention_ms=-1)
    bench.append((0, b"bo", b"bo-0"), (0, b"anna", b"anna-1"), (0, b"bo", b"bo-2"))
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"bo", b"bo-3"))
    bench.job(QUIET).run_round(collect=False)
    assert bench.log.refresh().archive.segment_count == 1
    ask(bench, b"anna", keep="nothing")
    bench.job(QUIET).run_round(collect=False)
    assert rows(bench) == {0: b"bo-0", 2: b"bo-2", 3: b"bo-3"}
    assert_counts(bench)


def test_old_archived_files_go_after_the_grace_time(bench: MaintenanceBench) -> None:
    """Whatever other retentions say; then the request is over. The check reads archived files, and old ones until they go."""
    ask(bench, b"anna")
    asked = verify_erased(bench.store, "t", b"anna", bench.clock)
    assert (sum(one.record_count for one in asked.left), asked.object_count) == (4, 6)
    bench.job(QUIET).run_round(collect=True)
    bench.clock.pass_ms(24 * HOUR_MS - 1)
    bench.job(QUIET).run_round(collect=True)
    assert len(files_with(bench, b"anna-")) == 4
    assert sum(one.record_count for one in verify_erased(bench.store, "t", b"anna", bench.clock).left) == 4
    bench.clock.pass_ms(2)
    bench.job(QUIET).run_round(collect=True)
    assert not files_with(bench, b"anna-")
    assert not bench.log.refresh().erasures
    assert verify_erased(bench.store, "t", b"anna", bench.clock).ok
    assert rows(bench) == WITHOUT_ANNA
    assert_counts(bench)


def test_maintenance_may_be_killed_anywhere(bench: MaintenanceBench) -> None:
    """Whatever write it dies before, the checkpoint's parts among them: counts stay right, each record is counted once."""
    store = bench.store
    assert isinstance(store, KilledStore)
    ask(bench, b"anna")
    killed = 0
    for puts_left in range(20):
        store.puts_left = puts_left
        try:
            bench.job(QUIET).run_round(collect=False)
        except Broken:
            killed += 1
        store.puts_left = None
        assert_counts(bench)
        if bench.log.refresh().erasures[0].is_rewritten:
            break
    (done,) = bench.log.state.erasures
    assert (done.is_rewritten, done.record_count, killed > 3) == (True, 4, True)
    assert rows(bench) == WITHOUT_ANNA


def run_with(bench: MaintenanceBench, happens: Callable[[], object]) -> None:
    job = bench.job(QUIET)
    job.workers = InterferingWorkers(bench.store, happens)
    assert job.run_round(collect=False).failed_topics == 0, bench.report.events


def test_retention_may_take_a_file_meanwhile(bench: MaintenanceBench) -> None:
    """The erasing rewrite brings no removed file back, and the request is carried out in the same round."""
    ask(bench, b"anna")
    first = archived_files(bench.store, bench.log.state, bench.clock.now_ms()).slice(0, 1).to_pylist()[0]

    def remove() -> None:
        state = bench.log.refresh()
        file = ArchivedFile(first["path"], first["size"])
        change = RemoveArchived(topic_id=state.existing_id, archive_version=state.archive.version, files=[file])
        assert bench.commit(change)

    run_with(bench, remove)
    assert "overtaken" in {one["outcome"] for one in bench.events("erase")}
    assert bench.log.refresh().erasures[0].is_rewritten
    gone = next(offset for offset, value in ALL.items() if offset not in rows(bench))
    assert rows(bench) == {offset: value for offset, value in WITHOUT_ANNA.items() if offset != gone}
    assert_counts(bench)


def test_two_maintenances_erase_once(bench: MaintenanceBench) -> None:
    """The second one's plan is void; each record is counted once, and no file is there twice."""
    ask(bench, b"anna")
    other = bench.job(QUIET)
    run_with(bench, lambda: other.run_round(collect=False))
    (done,) = bench.log.refresh().erasures
    assert (done.is_rewritten, done.record_count) == (True, 4)
    assert rows(bench) == WITHOUT_ANNA
    assert_counts(bench)


def test_a_rewrite_that_took_too_long_is_no_rewrite(bench: MaintenanceBench) -> None:
    """What was uploaded an hour before its commit may be deleted as orphans: the next pass erases."""
    ask(bench, b"bo")
    run_with(bench, lambda: bench.clock.pass_ms(HOUR_MS + 1))
    assert [one["outcome"] for one in bench.events("erase")] == ["too old", "committed"]
    assert rows(bench) == {offset: None if NAMES[offset] == b"bo" else value for offset, value in ALL.items()}
    assert_counts(bench)


def test_a_request_is_not_done_in_an_archive_that_has_changed(bench: MaintenanceBench) -> None:
    """Its end is bound to the version of the archive that was looked at."""
    ask(bench, b"anna")
    state = bench.log.state
    clean = {segment.path for segment in state.manifest.segments()}
    for version, is_done in ((state.archive.version - 1, False), (state.archive.version, True)):
        finish = FinishErasures(topic_id=state.existing_id, erasure_ids=["e1"], clean=clean, archive_version=version)
        assert bench.commit(finish) == is_done


def test_a_request_is_not_done_by_a_pass_of_before_it(bench: MaintenanceBench) -> None:
    """What came while the archive was looked at is carried out by the next pass, of all files."""
    ask(bench, b"bo")
    run_with(bench, lambda: ask(bench, b"anna", name="e2"))
    assert [one.is_rewritten for one in bench.log.refresh().erasures] == [True, False]
    bench.job(QUIET).run_round(collect=False)
    assert [one.record_count for one in bench.log.refresh().erasures] == [2, 4]
    assert set(rows(bench).values()) == {None}
    assert_counts(bench)


def test_a_clone_of_before_erases_too(bench: MaintenanceBench) -> None:
    """A clone of an older version has the archived rows again, and the request that is about them."""
    bench.commit(CreatePin(name="p", expires_at_ms=None, topic_id=bench.log.state.existing_id))
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=False)
    at = TableVersion(pin="p")
    clone_topic(bench.store, "t", "u", bench.clock, bench.new_id, config={}, at=at)
    cloned = [value for *_, value in rows_by_log(bench.store, "u", bench.clock)]
    assert b"anna-0" in cloned
    for _ in range(2):
        bench.job(QUIET).run_round(collect=True)
    cloned = [value for *_, value in rows_by_log(bench.store, "u", bench.clock)]
    assert sorted(value for value in cloned if value) == [b"bo-1", b"bo-3"]


def test_a_pin_loses_archived_files_with_it(bench: MaintenanceBench) -> None:
    """Erasure wins over pins: of a pinned version's archived files only those without it stay."""
    bench.commit(CreatePin(name="p", expires_at_ms=None, topic_id=bench.log.state.existing_id))
    ask(bench, b"anna", b"bo")
    bench.job(QUIET).run_round(collect=True)
    bench.clock.pass_ms(25 * HOUR_MS)
    bench.job(QUIET).run_round(collect=True)
    assert not files_with(bench, b"anna-")
    assert not bench.log.refresh().erasures
    assert bench.log.state.pins
    assert_counts(bench)


def test_what_a_foreign_commit_took_out_comes_back_erased(bench: MaintenanceBench) -> None:
    """A rewritten archived file that another program removed is named again, and counted once."""
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=False)
    before = bench.log.refresh().archive.counts
    path = next(path for path in archived_paths(bench) if path.startswith(layout.COMPACTED))
    line = f'{{"remove":{{"path":"{path}","dataChange":true,"deletionTimestamp":1}}}}'
    info = '{"commitInfo":{"engineInfo":"other/1","operation":"DELETE"}}'
    bench.store.put(layout.commit_key("t", bench.log.state.version + 1), f"{info}\n{line}\n".encode())
    bench.job(QUIET).run_round(collect=True)
    assert bench.log.refresh().archive.counts == before
    assert rows(bench) == WITHOUT_ANNA
    assert_counts(bench)


def test_no_segment_joins_an_archive_from_nowhere(bench: MaintenanceBench) -> None:
    """A commit that adds an archived segment in no other's place is damage, not a wrong count."""
    ask(bench, b"anna")
    bench.job(QUIET).run_round(collect=False)
    commits = (decode_commit(bench.store.get(key), key) for key in bench.stored("_delta_log/") if key.endswith(".json"))
    [again] = [one for one in commits for add in one.adds[:1] if add.path.startswith(layout.COMPACTED) and one.removes][
        :1
    ]
    data = encode_commit(CommitInfo(txn_id="x"), again.adds)
    bench.store.put(layout.commit_key("t", bench.log.refresh().version + 1), data)
    with pytest.raises(CorruptData, match="in no other's place"):
        bench.log.refresh()


def test_a_damaged_second_part_is_passed_over(bench: MaintenanceBench) -> None:
    """The archive is read from the checkpoint before and the commits; a damaged segment is an error that names it."""
    ask(bench, b"anna")
    newest = checkpoint.last_checkpoint_version(bench.store, "t")
    assert newest is not None
    key = layout.table_checkpoint_part_key("topics/t/", newest, 2)
    part = bench.store.get(key)
    bench.store.put(key, part[:-20])
    bench.job(QUIET).run_round(collect=False)
    assert rows(bench) == WITHOUT_ANNA
    bench.store.put(key, part)
    ask(bench, b"bo", name="e2")
    path = f"topics/t/{archived_paths(bench)[-1]}"
    bench.store.put(path, bench.store.get(path)[:-1] + b"x")
    job = bench.job(QUIET)
    job.workers = workers = InterferingWorkers(bench.store)
    assert job.run_round(collect=False).failed_topics == 1
    assert path.removeprefix("topics/t/") in str(bench.events("failed"))
    assert workers.calls == 1, "the checkpoint is whole"
    assert not bench.log.refresh().erasures[1].is_rewritten


def test_a_pass_looks_at_each_file_once(bench: MaintenanceBench) -> None:
    """What was looked at is known by its path, also when the archive has to be looked at again."""
    state, sizes = bench.log.refresh(), []

    def erase(some: Sequence[LiveSegment], version: int) -> Erased:
        sizes.append(len(some))
        return Erased(set(), version)

    erasures = ArchiveErasures(bench.store, "t")
    assert erasures.run(state, bench.clock.now_ms(), erase) == state.archive.version
    assert erasures.run(state, bench.clock.now_ms(), erase) == state.archive.version
    assert (sum(sizes), erasures.read_count) == (5, 5), "a second pass has nothing new"
