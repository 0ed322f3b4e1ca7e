"""Clones of a topic: the same records at the same offsets, in files of their own, beside maintenance."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import deltalake
import pytest

from compaction.collection import Deletion, DeletionReason, spare_copies
from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format import layout, limits
from log_format.checkpoints.cloning import NEWEST, REPEATED_MS_MAX, ClonedTopic, TableVersion, clone_topic
from log_format.checkpoints.pinned_versions import keep_version
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.delta.actions import Add
from log_format.delta.committer import Committer
from log_format.errors import BackOff, ErrorCode, RequestRefused, StoreUnavailable, UnknownTopic
from log_format.ids import random_id
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher, digest_of
from log_format.store import ObjectInfo
from log_format.stores.local import LocalStore
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.clone import cloned_add
from log_format.topic.config import TopicConfig
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.pin_changes import CreatePin
from log_format.topic.state import TopicState
from tests.support.collected_events import CollectedEvents
from tests.support.maintenance_bench import SMALL, MaintenanceBench
from tests.support.records import batch_of
from tests.support.table_rows import rows_by_log
from tests.support.topic_bench import counted_ids


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic of two partitions with five flushes, the oldest records deleted."""
    bench = MaintenanceBench()
    bench.create(2, retention_ms=-1)
    for number in range(5):
        bench.append((0, b"k%d" % number, b"a%d" % number), (1, None, b"b%d" % number))
    bench.commit(DeleteRecords(before={0: 2}))
    return bench


def clone(bench: MaintenanceBench, name: str = "copy", **more: Any) -> ClonedTopic:
    """Clone the bench's topic."""
    return clone_topic(bench.store, "t", name, bench.clock, bench.new_id, config={}, **more)


def read_all(bench: MaintenanceBench, topic: str) -> list[list[tuple[int, bytes | None]]]:
    """Every record of each partition, as a reader that has just started."""
    state = TopicLog(bench.store, topic, bench.clock).refresh()
    return [bench.read(partition, state) for partition in range(state.partition_count)]


def append_to(bench: MaintenanceBench, topic: str, value: bytes) -> None:
    """Append one record to partition 0."""
    log = TopicLog(bench.store, topic, bench.clock)
    batch = batch_of(log.refresh().existing_id, [value], [0], timestamps_ms=bench.clock.now_ms())
    Committer(log, new_id=bench.new_id).commit(Append([batch], bench.new_id))


def made_with_values(store: LocalStore, topic: str, *values: bytes) -> Committer[TopicState]:
    """Make a topic of one partition with a flush for each value; what commits to it."""
    clock, ids = SystemClock(), counted_ids()

    def new_id() -> str:
        return f"{topic}-{ids()}"

    committer = Committer(TopicLog(store, topic, clock), new_id=new_id)
    change = CreateTopic(name=topic, partition_count=1, config=TopicConfig.parse({}), topic_id=new_id())
    committer.commit(change)
    for value in values:
        batch = batch_of(change.topic_id, [value], [0], timestamps_ms=clock.now_ms())
        committer.commit(Append([batch], new_id))
    return committer


def rows_of(directory: Path, topic: str) -> list[Any]:
    """The rows of a topic's table, by deltalake."""
    rows: list[Any] = (
        deltalake.DeltaTable(str(directory / "topics" / topic)).to_pyarrow_table().sort_by("offset").to_pylist()
    )
    return rows


def test_a_clone_has_the_same_records_at_the_same_offsets(bench: MaintenanceBench) -> None:
    """Log starts and next offsets, too, whether the files were merged or not; it is whole by ``tidelog verify``."""
    for _ in range(2):
        made = clone(bench, f"copy-{bench.log.refresh().version}")
        source = bench.log.refresh()
        assert made.source_version == source.version
        assert read_all(bench, made.state.topic) == read_all(bench, "t")
        assert made.state.log_starts.tolist() == source.log_starts.tolist() == [2, 0]
        assert made.state.next_offsets.tolist() == source.next_offsets.tolist() == [5, 5]
        assert made.state.topic_id != source.topic_id
        assert verify_topic(bench.store, made.state.topic, clock=bench.clock).problems == ()
        bench.job().run_round(collect=True)


def test_neither_topic_touches_the_other(bench: MaintenanceBench) -> None:
    """Appends, maintenance and the deletion of one leave the other as it was."""
    clone(bench)
    before = read_all(bench, "t")
    append_to(bench, "copy", b"new")
    assert read_all(bench, "t") == before
    assert read_all(bench, "copy")[0][-1] == (5, b"new")
    cloned = read_all(bench, "copy")
    bench.commit(DeleteTopic())
    for _ in range(3):
        bench.clock.pass_ms(3 * limits.ORPHAN_GRACE_MS)
        bench.job().run_round(collect=True)
    assert read_all(bench, "copy") == cloned


def test_what_is_no_topic_or_one_already_is_refused_before_anything_is_copied(bench: MaintenanceBench) -> None:
    """Also a name that no topic can have, and a setting that does not exist."""
    clone(bench)
    bench.clock.pass_ms(REPEATED_MS_MAX + 1)
    stored = [info.key for info in bench.store.list("topics/copy/")]
    with pytest.raises(RequestRefused) as refused:
        clone(bench)
    assert refused.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(UnknownTopic):
        clone_topic(bench.store, "none", "other", bench.clock, bench.new_id, config={})
    with pytest.raises(RequestRefused):
        clone(bench, "not/a/name")
    with pytest.raises(RequestRefused):
        clone_topic(bench.store, "t", "other", bench.clock, bench.new_id, config={"no.setting": 1})
    assert [info.key for info in bench.store.list("topics/copy/")] == stored
    assert not list(bench.store.list("topics/other/"))


def test_a_file_that_maintenance_deletes_meanwhile_makes_it_begin_again(bench: MaintenanceBench) -> None:
    """The clone is of a later version then, and whole; without end it gives up, and leaves nothing."""
    lost = next(bench.log.state.manifest.segments().__iter__())
    data = bench.store.get(f"topics/t/{lost.path}")
    bench.store.delete(f"topics/t/{lost.path}")
    with pytest.raises(BackOff):
        clone(bench)
    assert not list(bench.store.list("topics/copy/"))
    bench.store.put(f"topics/t/{lost.path}", data)
    clone(bench)
    assert read_all(bench, "copy") == read_all(bench, "t")


def test_maintenance_spares_copies_on_their_way() -> None:
    """No orphan is deleted while a note is young; afterwards they are, and the note. Removed files are never spared."""
    hour = 3_600_000
    removed = Deletion(key="r", size_bytes=1, why=DeletionReason.REMOVED)
    orphan = Deletion(key="o", size_bytes=1, why=DeletionReason.ORPHAN)
    note = ObjectInfo(key="n", size_bytes=2, modified_at_ms=0)
    assert spare_copies([removed, orphan], [], now_ms=0) == [removed, orphan]
    assert spare_copies([removed, orphan], [note], now_ms=hour) == [removed]
    spent = spare_copies([removed, orphan], [note], now_ms=limits.ORPHAN_GRACE_MS + 1)
    assert [deletion.key for deletion in spent] == ["r", "o", "n"]


def test_copies_into_a_deleted_topic_are_not_collected(tmp_path: Path) -> None:
    """In a directory copies have the age of their sources, so maintenance would take them for orphans before their commit."""
    store, clock, new_id = LocalStore(tmp_path), SystemClock(), counted_ids()
    made_with_values(store, "t", b"a", b"b")
    committer = made_with_values(store, "copy", b"former")
    committer.commit(DeleteTopic())
    old_s = time.time() - 10 * limits.ORPHAN_GRACE_MS / 1000
    for path in (tmp_path / "topics").glob("*/segments/*"):
        os.utime(path, (old_s, old_s))
    job = Job(
        store=store,
        workers=LocalWorkers(store),
        clock=clock,
        report=CollectedEvents(),
        policy=SMALL,
        new_id=new_id,
    )

    def collect(done: int, of: int) -> None:
        if done == of:
            job.run_round(collect=True)

    clone_topic(
        *(store, "t", "copy", clock, new_id),
        config={},
        progress=collect,
    )
    assert len(rows_of(tmp_path, "copy")) == 2
    assert not list(store.list(layout.cloning_prefix("copy")))


def test_requests_to_erase_go_along(bench: MaintenanceBench) -> None:
    """Those that are not done, and those that came while files were copied: the copies have what they are about."""

    def ask(name: str) -> None:
        wanted = (Matcher(digest_of(b"secret", name.encode())),)
        asked = Erasure(erasure_id=name, requested_ms=0, wanted=wanted)
        bench.log.refresh()
        bench.commit(RequestErasure(topic_id=bench.log.state.existing_id, erasure=asked))

    ask("before")
    clone(bench, progress=lambda done, of: ask("meanwhile") if done == of else None)
    state = TopicLog(bench.store, "copy", bench.clock).refresh()
    assert [erasure.erasure_id for erasure in state.erasures] == ["before", "meanwhile"]
    assert all(erasure.ends == (5, 5) for erasure in state.erasures)
    assert state.has_table_feature


def test_the_archive_is_cloned(bench: MaintenanceBench) -> None:
    """Rows that only the table has are in the clone's table, at the newest version and at an older one; maintenance makes them
    its archive."""
    bench.commit(AlterTopic(partition_count=None, config={"retention.ms": 1_000, "table.retention.ms": -1}))
    bench.clock.pass_ms(10_000)
    bench.append((0, b"k", b"young"), (1, None, b"young"))
    bench.job().run_round(collect=True)
    source = bench.log.refresh()
    assert source.archive.segment_count > 0
    rows = sorted(rows_by_log(bench.store, "t", bench.clock))
    bench.append((0, b"k", b"later"))
    for name, at in (("new", NEWEST), ("old", TableVersion(number=source.version))):
        clone(bench, name, at=at)
        expected = sorted(rows_by_log(bench.store, "t", bench.clock)) if at == NEWEST else rows
        assert sorted(rows_by_log(bench.store, name, bench.clock)) == expected
        bench.job().run_round(collect=True)
        state = TopicLog(bench.store, name, bench.clock).refresh()
        assert state.archive.segment_count > 0
        assert sorted(rows_by_log(bench.store, name, bench.clock)) == expected
        assert verify_topic(bench.store, name, clock=bench.clock).problems == ()


def test_an_older_version_is_cloned_with_what_is_erased_since(bench: MaintenanceBench) -> None:
    """By number, by a pin's name and by time: its records, after later appends, merges and clean-up; requests to erase that
    came since are made in the clone, too."""
    bench.commit(CreatePin(name="before", topic_id=bench.log.refresh().existing_id, expires_at_ms=None))
    version, records = bench.log.state.pins[0].version, read_all(bench, "t")
    keep_version(bench.store, "t", version, bench.clock.now_ms())
    at_ms = bench.clock.now_ms()
    bench.clock.pass_ms(60_000)
    bench.append((0, b"k", b"later"))
    wanted = (Matcher(digest_of(b"secret", b"k")),)
    asked = Erasure(erasure_id="since", requested_ms=0, wanted=wanted)
    bench.commit(RequestErasure(topic_id=bench.log.state.existing_id, erasure=asked))
    bench.job().run_round(collect=True)
    for name, at, cloned in (
        ("by-number", TableVersion(number=version), version),
        ("by-pin", TableVersion(pin="before"), version),
        ("by-time", TableVersion(at_ms=at_ms), version + 1),  # the pin's own commit
    ):
        made = clone(bench, name, at=at)
        assert made.source_version == cloned
        assert read_all(bench, name) == records != read_all(bench, "t")
        assert [erasure.erasure_id for erasure in made.state.erasures] == ["since"]
        assert made.state.pins == ()


def test_an_older_version_is_cloned_before_a_request_about_more(bench: MaintenanceBench) -> None:
    """A request that came after the cloned version is about offsets that the clone has not: maintenance carries it out in the
    clone for those that it has."""
    version = bench.log.refresh().version
    bench.append((0, b"k4", b"later"), (1, b"k4", b"later"))
    wanted = (Matcher(digest_of(load_cluster(bench.store, random_id).producer_key, b"k4")),)
    asked = Erasure(erasure_id="since", requested_ms=0, wanted=wanted)
    bench.commit(RequestErasure(topic_id=bench.log.state.existing_id, erasure=asked))
    clone(bench, at=TableVersion(number=version))
    assert not bench.job().run_round(collect=False).failed_topics
    state = TopicLog(bench.store, "copy", bench.clock).refresh()
    assert [erasure.is_rewritten for erasure in state.erasures] == [True]
    assert read_all(bench, "copy")[0][-1] == (4, None)


def test_a_topic_whose_newest_records_are_gone_is_cloned(bench: MaintenanceBench) -> None:
    """Offsets go on behind what was erased without a trace, in the clone as in its source."""
    bench.append((0, b"z", b"newest"))
    wanted = (Matcher(digest_of(load_cluster(bench.store, random_id).producer_key, b"z")),)
    asked = Erasure(erasure_id="e", requested_ms=0, wanted=wanted, keep="nothing")
    bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=asked))
    bench.job(Policy(flushed_min=2_000, fan_in=10_000)).run_round(collect=False)
    clone(bench)
    assert read_all(bench, "copy") == read_all(bench, "t")
    append_to(bench, "copy", b"new")
    assert read_all(bench, "copy")[0][-1] == (6, b"new")
    assert verify_topic(bench.store, "copy", clock=bench.clock).problems == ()


def test_versions_that_can_not_be_cloned(bench: MaintenanceBench) -> None:
    """One of the future, a pin that is none, one whose files are gone, one of an earlier topic: nothing is made."""
    first = bench.log.state.version
    head = bench.log.refresh()
    for at, code in (
        (TableVersion(number=head.version + 1), ErrorCode.INVALID_REQUEST),
        (TableVersion(at_ms=bench.clock.now_ms() + 1), ErrorCode.INVALID_REQUEST),
        (TableVersion(pin="none"), ErrorCode.UNKNOWN_PIN),
    ):
        with pytest.raises(RequestRefused) as refused:
            clone(bench, at=at)
        assert refused.value.code == code
    bench.commit(DeleteTopic())
    bench.create(1)
    with pytest.raises(RequestRefused) as refused:
        clone(bench, at=TableVersion(number=first))
    assert refused.value.code == ErrorCode.VERSION_GONE
    bench.append((0, None, b"a"))
    bench.append((0, None, b"b"))
    version = bench.log.refresh().version
    for segment in bench.log.state.manifest.segments():
        bench.store.delete(f"topics/t/{segment.path}")
    bench.append((0, None, b"c"))
    with pytest.raises(RequestRefused) as refused:
        clone(bench, at=TableVersion(number=version))
    assert refused.value.code == ErrorCode.VERSION_GONE
    assert not [info.key for info in bench.store.list("topics/copy/") if "_log" not in info.key]


def test_a_failure_leaves_no_copies(bench: MaintenanceBench) -> None:
    """The store fails while files are copied: the call says so, and the copies are gone."""

    def fail(_done: int, _of: int) -> None:
        raise StoreUnavailable("key", "it is away", may_have_happened=False)

    with pytest.raises(StoreUnavailable):
        clone(bench, progress=fail)
    assert not [info.key for info in bench.store.list("topics/copy/") if info.key.endswith(".parquet")]


def test_what_belongs_to_the_source_is_not_in_the_clone() -> None:
    """Its producers and transactions: they go on there."""
    tags: dict[str, str | None] = {"tidelog.runs": "[]", "tidelog.producers": "[]", "tidelog.applied": "[]"}
    add = Add(path="segments/a", size=1, modification_time=2, data_change=True, stats="{}", tags=tags)
    copy = cloned_add(add, "segments/b")
    assert (copy.path, copy.data_change, copy.tags) == ("segments/b", False, {"tidelog.runs": "[]"})
    assert (copy.size, copy.modification_time, copy.stats) == (1, 2, "{}")


def test_other_programs_read_a_clone(tmp_path: Path) -> None:
    """deltalake reads the same rows of both; in a directory a copy is the same file under a second name."""
    store = LocalStore(tmp_path)
    made_with_values(store, "t", b"a", b"b")
    clone_topic(store, "t", "copy", SystemClock(), counted_ids(), config={})
    rows = [rows_of(tmp_path, name) for name in ("t", "copy")]
    assert len(rows[0]) == 2
    assert rows[0] == rows[1]
    folders = [tmp_path / "topics" / name / "segments" for name in ("t", "copy")]
    inodes = [{path.stat().st_ino for path in folder.iterdir()} for folder in folders]
    assert inodes[0] == inodes[1]
