"""A pinned version reads the same at any time, whatever retention, merges, clean-up and collection do; then it goes."""

from __future__ import annotations

from functools import partial

import pytest

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.pinned_versions import (
    held_back_bytes,
    keep_version,
    look_at_version,
    pinned_paths,
    version_at,
)
from log_format.checkpoints.state import read_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import CommitInfo, as_decoded_commit
from log_format.errors import CorruptData, ErrorCode, RequestRefused
from log_format.inspection.backup import copy_log
from log_format.inspection.verify import verify_topic
from log_format.stores.memory import MemoryStore
from log_format.topic.attachment import NO_MOVE
from log_format.topic.changes import AlterTopic, DeleteAllRecords, DeleteTopic, moved_metadata
from log_format.topic.pin_changes import CreatePin, DeletePin, LookAgain
from log_format.topic.pins import PINS_MAX, Pin
from tests.support.maintenance_bench import MaintenanceBench, NotedStore

HOUR = 3_600_000
DAY = 24 * HOUR


def fill(bench: MaintenanceBench, count: int, first: int = 0) -> list[tuple[int, bytes]]:
    for number in range(first, first + count):
        bench.append((0, b"k", b"v%d" % number))
        bench.clock.pass_ms(10)
    return [(number, b"v%d" % number) for number in range(first, first + count)]


def pin(bench: MaintenanceBench, name: str = "p", expires_at_ms: int | None = None, version: int | None = None) -> Pin:
    """Pin as a gateway does: the head, or an older version after a look; then the checkpoint."""
    state = bench.log.refresh()
    older = None
    if version is not None:
        older = look_at_version(bench.store, "t", state, version, bench.clock.now_ms())
    change = CreatePin(name=name, expires_at_ms=expires_at_ms, topic_id=state.existing_id, older=older)
    made: Pin = bench.commit(change)[0]
    keep_version(bench.store, "t", made.version, bench.clock.now_ms())
    return made


def read_at(bench: MaintenanceBench, version: int) -> list[tuple[int, bytes | None]]:
    """Every record of the version, as a reader that has its commit, its checkpoint and its files, and nothing else."""
    root = layout.topic_root("t")
    bench.store.get(layout.table_commit_key(root, version))
    state = read_checkpoint(bench.store.get(layout.table_checkpoint_key(root, version)), "t", version)
    return bench.read(0, state)


def age(bench: MaintenanceBench, days: int, first: int = 100) -> None:
    """Days of appends and maintenance, so that whatever is not pinned goes."""
    for day in range(days):
        fill(bench, 6, first + 6 * day)
        write_checkpoint(bench.store, "t", bench.log.refresh().version, bench.clock.now_ms())
        bench.clock.pass_ms(DAY)
        totals = bench.job().run_round(collect=True)
        assert totals.failed_topics == 0, bench.report.events[-5:]


def test_a_pinned_version_outlasts_everything(bench: MaintenanceBench) -> None:
    """Its records were merged, retired, cleaned from the log and collected days ago; it reads as on the first day."""
    bench.create(1, retention_ms=HOUR)
    records = fill(bench, 7)
    made = pin(bench)
    before = read_at(bench, made.version)
    assert before == records
    files = pinned_paths(bench.store, "t", made.version)
    age(bench, 6)
    assert bench.log.refresh().log_start(0) > 7
    commits = {version for key in bench.stored("_delta_log/") if (version := layout.commit_version(key)) is not None}
    assert made.version in commits
    assert made.version + 1 not in commits, "clean-up went over it"
    assert read_at(bench, made.version) == before
    assert files <= {key.removeprefix("topics/t/") for key in bench.stored("")}
    bench.assert_whole()
    report = verify_topic(bench.store, "t", clock=bench.clock)
    assert report.orphan_count == 0
    held_back = held_back_bytes(bench.store, "t", bench.log.refresh(), [made.version], bench.clock.now_ms())
    assert held_back == sum(bench.store.head(f"topics/t/{path}").size_bytes for path in files)
    totals = bench.job().run_round(collect=True)
    assert (totals.pins, totals.pinned_bytes) == (1, held_back)


def test_verification_tells_what_a_pin_lacks(bench: MaintenanceBench) -> None:
    """Its commit, a file, and its checkpoint once the log does not give it any more."""
    bench.create(1, retention_ms=HOUR)
    fill(bench, 7)
    made = pin(bench)
    age(bench, 4)
    root = layout.topic_root("t")
    path = min(pinned_paths(bench.store, "t", made.version))
    for key, said in (
        (f"{root}{path}", f"lacks its file {path}"),
        (layout.checkpoint_key("t", made.version), "has no checkpoint, and the log no longer gives one"),
    ):
        before = bench.store.get(key)
        MemoryStore.delete(bench.store, key)
        (problem,) = verify_topic(bench.store, "t", clock=bench.clock).problems
        assert problem.startswith(f"Pin 'p' of version {made.version} ")
        assert said in problem
        bench.store.put(key, before)
    bench.assert_whole()


def test_a_copy_has_pinned_versions(bench: MaintenanceBench) -> None:
    """Over the gap in the log: the copy's pin has its commit, its checkpoint and its files, and reads the same."""
    bench.create(1, retention_ms=HOUR)
    fill(bench, 7)
    made = pin(bench)
    before = read_at(bench, made.version)
    age(bench, 4)
    target = NotedStore(clock=bench.clock)
    (copied,) = copy_log(bench.store, target, bench.clock)
    assert copied.problems == ()
    assert copied.topic == "t"
    bench.store = target
    assert read_at(bench, made.version) == before
    assert TopicLog(target, "t", bench.clock).refresh().pins == (made,)


def test_what_a_pin_kept_goes_when_it_is_deleted(bench: MaintenanceBench) -> None:
    """Files, commit and checkpoint go with the next rounds, and nothing else does."""
    bench.create(1, retention_ms=HOUR)
    fill(bench, 7)
    made = pin(bench)
    files = pinned_paths(bench.store, "t", made.version)
    age(bench, 4)
    bench.commit(DeletePin(name="p", topic_id=bench.log.refresh().existing_id))
    age(bench, 2, 200)
    stored = {key.removeprefix("topics/t/") for key in bench.stored("")}
    assert not files & stored
    assert not [key for key in stored if f"{made.version:020d}" in key]
    bench.assert_whole()


def test_a_pin_ends_when_it_expires_and_not_before(bench: MaintenanceBench) -> None:
    """The round before its expiry keeps everything; the first one afterwards drops the pin by a commit, later ones its files."""
    bench.create(1, retention_ms=HOUR)
    records = fill(bench, 7)
    made = pin(bench, expires_at_ms=bench.clock.now_ms() + 4 * DAY)
    age(bench, 3)
    assert read_at(bench, made.version) == records
    assert bench.log.refresh().pins == (made,)
    age(bench, 3, 200)
    assert bench.log.refresh().pins == ()
    assert bench.events("unpin") == [{"topic": "t", "pin": "p", "version": made.version}]
    with pytest.raises(Exception, match="no such object"):
        read_at(bench, made.version)


def test_an_older_version_is_pinned_and_stays(bench: MaintenanceBench) -> None:
    """A version without a checkpoint of its own, some of whose files were merged away since."""
    bench.create(1, retention_ms=DAY)
    records = fill(bench, 7)
    version = bench.log.refresh().version
    fill(bench, 5, 7)
    bench.job().run_round(collect=True)
    assert pin(bench, version=version).version == version
    age(bench, 6)
    assert read_at(bench, version) == records


def test_a_version_is_found_by_its_time(bench: MaintenanceBench) -> None:
    """The newest version that the store had then; before the log's beginning there is none."""
    bench.create(1)
    begun_ms = bench.clock.now_ms()
    bench.clock.pass_ms(100)
    fill(bench, 3)
    at_ms = bench.clock.now_ms()
    fill(bench, 3, 3)
    assert version_at(bench.store, "t", at_ms - 1) == 3
    with pytest.raises(RequestRefused) as refused:
        version_at(bench.store, "t", begun_ms - 1)
    assert refused.value.code is ErrorCode.VERSION_GONE


def test_a_version_that_retention_may_delete_soon_is_refused(bench: MaintenanceBench) -> None:
    """Its files are still there, but a plan to delete them may have been made already."""
    bench.create(1, deleted_file_retention_ms=HOUR)
    fill(bench, 7)
    version = bench.log.refresh().version
    bench.job().run_round(collect=False)
    bench.clock.pass_ms(HOUR - 300_000)
    with pytest.raises(RequestRefused, match="files that left the table") as refused:
        pin(bench, version=version)
    assert refused.value.code is ErrorCode.VERSION_GONE
    assert bench.log.refresh().pins == ()


def test_an_older_version_is_looked_at_again_when_its_files_leave(bench: MaintenanceBench) -> None:
    """A merge between the look and the commit takes files that the look found in the table: without another look a collector
    that saw the merge might delete them.
    """
    bench.create(1)
    fill(bench, 7)
    state = bench.log.refresh()
    fill(bench, 1, 7)
    older = look_at_version(bench.store, "t", bench.log.refresh(), state.version, bench.clock.now_ms())
    change = partial(CreatePin, name="p", expires_at_ms=None, topic_id=state.existing_id)
    bench.job().run_round(collect=False)
    with pytest.raises(LookAgain):
        bench.commit(change(older=older))
    again = look_at_version(bench.store, "t", bench.log.refresh(), state.version, bench.clock.now_ms())
    bench.commit(AlterTopic(partition_count=None, config={"deleted.file.retention.ms": 0}))
    with pytest.raises(LookAgain):
        bench.commit(change(older=again))
    with pytest.raises(RequestRefused, match="can't be pinned"):
        look_at_version(bench.store, "t", bench.log.refresh(), state.version, bench.clock.now_ms())


def test_versions_that_can_not_be_pinned(bench: MaintenanceBench) -> None:
    """Of the future, cleaned away, and of a topic that was deleted under the name."""
    bench.create(1)
    fill(bench, 3)
    with pytest.raises(RequestRefused, match="has no version 99 yet"):
        pin(bench, version=99)
    bench.commit(DeleteTopic())
    old = bench.log.refresh().version - 1
    bench.create(1)
    with pytest.raises(RequestRefused, match="of an earlier topic"):
        pin(bench, version=old)
    age(bench, 4)
    with pytest.raises(RequestRefused, match="clean-up") as refused:
        pin(bench, version=old)
    assert refused.value.code is ErrorCode.VERSION_GONE


def test_a_pinner_that_died_leaves_the_rest_to_maintenance(bench: MaintenanceBench) -> None:
    """Only the commit of the pin was made. Clean-up keeps what the checkpoint is made from, and the next round makes it."""
    bench.create(1, retention_ms=HOUR)
    records = fill(bench, 7)
    state = bench.log.refresh()
    made, _ = bench.commit(CreatePin(name="p", expires_at_ms=None, topic_id=state.existing_id))
    age(bench, 5)
    assert read_at(bench, made.version) == records


def test_nothing_is_collected_while_a_pinned_version_can_not_be_read(bench: MaintenanceBench) -> None:
    """Without the checkpoint nobody knows which files the pin needs, so the topic's maintenance says so and deletes nothing."""
    bench.create(1, retention_ms=HOUR)
    fill(bench, 7)
    made = pin(bench)
    age(bench, 3)
    bench.store.put(layout.checkpoint_key("t", made.version), b"garbled")
    bench.store.put("topics/t/segments/orphan.parquet", b"x")
    bench.clock.pass_ms(3 * DAY)
    before = bench.stored("segments/")
    assert bench.job().run_round(collect=True).failed_topics == 1
    assert bench.stored("segments/") == before
    (failed,) = bench.events("failed")
    assert "tidelog pin delete t p" in str(failed)
    bench.commit(DeletePin(name="p", topic_id=bench.log.refresh().existing_id))
    assert bench.job().run_round(collect=True).failed_topics == 0
    assert "topics/t/segments/orphan.parquet" not in bench.stored("segments/")


def test_a_name_has_one_version_until_it_is_deleted(bench: MaintenanceBench) -> None:
    """A name is not moved to another version by accident; the same version by the same name gets the new expiry."""
    bench.create(1)
    fill(bench, 3)
    made = pin(bench)
    fill(bench, 3, 3)
    with pytest.raises(RequestRefused) as refused:
        pin(bench)
    assert refused.value.code is ErrorCode.PIN_ALREADY_EXISTS
    longer = pin(bench, expires_at_ms=bench.clock.now_ms() + DAY, version=made.version)
    assert longer == made._replace(expires_at_ms=bench.clock.now_ms() + DAY)
    assert bench.log.refresh().pins == (longer,)
    with pytest.raises(RequestRefused) as refused:
        bench.commit(DeletePin(name="q", topic_id=bench.log.state.existing_id))
    assert refused.value.code is ErrorCode.UNKNOWN_PIN
    for name in ("", "a b", "a/b", "x" * 101):
        with pytest.raises(RequestRefused, match="name of a pin"):
            CreatePin(name=name, expires_at_ms=None, topic_id="t")


def test_a_topic_has_so_many_pins_at_most(bench: MaintenanceBench) -> None:
    """The bound counts pins that have not expired; expired ones make room by the commit of the next."""
    bench.create(1)
    topic_id, soon_ms = bench.log.refresh().existing_id, bench.clock.now_ms() + HOUR
    for number in range(PINS_MAX):
        bench.commit(CreatePin(name=f"p{number}", expires_at_ms=soon_ms, topic_id=topic_id))
    with pytest.raises(RequestRefused, match="has 100 pins already"):
        bench.commit(CreatePin(name="one-more", expires_at_ms=None, topic_id=topic_id))
    bench.clock.pass_ms(HOUR)
    bench.commit(CreatePin(name="one-more", expires_at_ms=None, topic_id=topic_id))
    assert [each.name for each in bench.log.refresh().pins] == ["one-more"]


def test_a_topic_with_pins_is_deleted_only_by_force(bench: MaintenanceBench) -> None:
    """Pins end with their topic: one that is made again under the name has none, and what they kept goes."""
    bench.create(1)
    fill(bench, 3)
    pin(bench)
    topic_id = bench.log.refresh().existing_id
    for change in (DeleteTopic(), DeleteAllRecords(topic_id=topic_id)):
        with pytest.raises(RequestRefused, match="has pins") as refused:
            bench.commit(change)
        assert refused.value.code is ErrorCode.TOPIC_HAS_PINS
    bench.commit(DeleteTopic(force=True))
    bench.create(1)
    assert bench.log.refresh().pins == ()
    bench.clock.pass_ms(2 * DAY)
    bench.job().run_round(collect=True)
    assert bench.stored("segments/") == []


def test_pins_survive_a_checkpoint_and_a_change_of_settings(bench: MaintenanceBench) -> None:
    """A gateway that starts from a checkpoint knows them, and the feature that stops earlier releases stays."""
    bench.create(1)
    made = pin(bench)
    bench.commit(AlterTopic(partition_count=2, config={"flush.ms": 10}))
    version = bench.log.refresh().version
    pin(bench, "q")
    state = read_checkpoint(bench.store.get(layout.checkpoint_key("t", version)), "t", version)
    assert state.pins == (made,)
    assert state.has_table_feature
    assert state.is_guarded


def test_pins_that_can_not_be_read_stop_the_topic(bench: MaintenanceBench) -> None:
    """Whoever ignored them would delete their files."""
    bench.create(1)
    state = bench.log.refresh()
    metadata = moved_metadata(state, NO_MOVE)
    metadata.configuration["tidelog.pins"] = '{"p": [1]}'
    commit = as_decoded_commit(CommitInfo(), [metadata])
    with pytest.raises(CorruptData, match=r"tidelog\.pins of topic 't' can't be read"):
        state.apply(commit, state.version + 1)


def test_many_rounds_with_pins_cost_no_checkpoints_again(bench: MaintenanceBench) -> None:
    """A round asks once in a process whether a pin has its checkpoint."""
    bench.create(1)
    fill(bench, 3)
    made = pin(bench)
    job = bench.job()
    job.run_round(collect=False)
    bench.store.delete(layout.checkpoint_key("t", made.version))
    job.run_round(collect=False)
    assert layout.checkpoint_key("t", made.version) not in bench.stored("_delta_log/")
    bench.job().run_round(collect=False)
    assert layout.checkpoint_key("t", made.version) in bench.stored("_delta_log/")
