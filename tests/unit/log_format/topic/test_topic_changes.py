"""Making, altering and deleting a topic, and deleting records: what is committed, what is refused, what is done already."""

from __future__ import annotations

import json
from typing import Any

import pytest

from log_format import limits
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.errors import ErrorCode, OffsetOutOfRange, RequestRefused, UnknownPartition, UnknownTopic
from log_format.topic.changes import (
    AlterTopic,
    CreateTopic,
    DeleteAllRecords,
    DeleteRecords,
    DeleteTopic,
    RemoveDeadSegments,
)
from log_format.topic.config import TopicConfig
from log_format.topic.retention import ApplyRetention, needs_retention
from tests.support.topic_bench import TopicBench


def creation(partition_count: Any = 2, *, name: str = "flights", topic_id: str = "new", **config: Any) -> CreateTopic:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return CreateTopic(
        name=name, partition_count=partition_count, config=TopicConfig.parse(settings), topic_id=topic_id
    )


def alteration(partition_count: int | None = None, **config: Any) -> AlterTopic:
    return AlterTopic(
        partition_count=partition_count, config={key.replace("_", "."): value for key, value in config.items()}
    )


def test_a_topic_is_made_once(bench: TopicBench) -> None:
    """Creating makes the topic; again, with the same settings however they are said, it says that it was there."""
    gateway = bench.gateway()
    assert gateway.committer.commit(creation(flush_ms=5)).result is True
    version = gateway.log.state.version
    assert gateway.committer.commit(creation(flush_ms="5", retention_bytes=-1, topic_id="other")).result is False
    assert (gateway.log.state.version, gateway.log.state.topic_id) == (version, "new")


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (creation(3), "exists with 2 partitions. "),
        (creation(2, flush_ms=9), "exists with flush.ms=250. "),
        (creation(3, flush_ms=9, owners=4), "exists with 2 partitions and flush.ms=250 and no owners. "),
    ],
)
def test_another_topic_of_the_name_is_refused(bench: TopicBench, other: CreateTopic, said: str) -> None:
    """A topic with another partition count or other settings can't be made while the name is taken: it says which."""
    gateway = bench.create(2)
    with pytest.raises(RequestRefused) as caught:
        gateway.committer.commit(other)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert said in caught.value.detail


@pytest.mark.parametrize("count", [0, -1, limits.PARTITION_COUNT_MAX + 1, True, 1.0, "2", None])
def test_a_partition_count_is_within_bounds(count: Any) -> None:
    """Only 1 to 10,000 partitions, as an integer."""
    with pytest.raises(RequestRefused) as caught:
        creation(count)
    assert caught.value.fields["errors"][0]["where"] == "/partition_count"
    creation(limits.PARTITION_COUNT_MAX)


def test_a_topic_name_is_checked() -> None:
    """No topic is made under a name that could lead out of its directory."""
    with pytest.raises(RequestRefused) as caught:
        creation(name="..")
    assert caught.value.code is ErrorCode.INVALID_TOPIC_NAME


def test_the_first_commit_makes_a_delta_table(bench: TopicBench) -> None:
    """Version 0 has protocol 1/7 with one feature, the schema, no partition columns and the settings; so has one made anew."""
    gateway = bench.create(2, flush_ms=5)
    actions = [json.loads(line) for line in bench.store.get(bench.key(f"{0:020d}.json")).splitlines()]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "protocol", "metaData"]
    assert actions[1]["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["tidelog"]}
    metadata = actions[2]["metaData"]
    assert (metadata["name"], metadata["partitionColumns"], metadata["createdTime"]) == (
        "flights",
        [],
        bench.clock.now_ms(),
    )
    assert metadata["configuration"] == {
        "delta.enableExpiredLogCleanup": "false",
        "tidelog.partition.count": "2",
        "tidelog.flush.ms": "5",
    }
    gateway.committer.commit(DeleteTopic())
    gateway.committer.commit(creation())
    actions = [json.loads(line) for line in bench.store.get(bench.key(f"{2:020d}.json")).splitlines()]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "protocol", "metaData"]


def test_settings_are_altered(bench: TopicBench) -> None:
    """New settings and more partitions come at once; the topic, its age and its records stay."""
    gateway = bench.create(2, flush_ms=5, flush_bytes=7)
    bench.append(gateway, {0: [b"a"]})
    bench.clock.pass_ms(1_000)
    before = gateway.log.state
    gateway.committer.commit(alteration(4, flush_ms=None, retention_ms=9))
    after = gateway.log.state
    assert (after.topic_id, after.created_at_ms) == (before.topic_id, before.created_at_ms)
    assert after.config.overrides == {"flush.bytes": 7, "retention.ms": 9}
    assert after.next_offsets.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("change", [alteration(), alteration(2), alteration(flush_ms=5), alteration(retention_ms=None)])
def test_an_alteration_of_nothing_commits_nothing(bench: TopicBench, change: AlterTopic) -> None:
    """What is so already needs no commit."""
    gateway = bench.create(2, flush_ms=5)
    assert gateway.committer.commit(change).attempts == 0
    assert gateway.log.state.version == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (alteration(1), ErrorCode.INVALID_REQUEST),
        (alteration(limits.PARTITION_COUNT_MAX + 1), ErrorCode.INVALID_REQUEST),
        (alteration(3, flush_ms=-1), ErrorCode.INVALID_CONFIG),
        (alteration(3, nonsense=1), ErrorCode.INVALID_CONFIG),
    ],
)
def test_an_alteration_is_all_or_nothing(bench: TopicBench, change: AlterTopic, code: ErrorCode) -> None:
    """Fewer partitions or one bad setting: nothing of it happens."""
    gateway = bench.create(2)
    with pytest.raises(RequestRefused) as caught:
        gateway.committer.commit(change)
    assert caught.value.code is code
    assert gateway.log.state.version == 0


@pytest.mark.parametrize("change", [alteration(3), DeleteTopic(), DeleteRecords(before={0: -1})])
def test_what_does_not_exist_can_not_be_changed(bench: TopicBench, change: Any) -> None:
    """A topic that never was or was deleted is unknown to every change but its creation."""
    with pytest.raises(UnknownTopic):
        bench.gateway().committer.commit(change)
    gateway = bench.create(2)
    gateway.committer.commit(DeleteTopic())
    with pytest.raises(UnknownTopic):
        gateway.committer.commit(change)


def test_a_deleted_topic_leaves_nothing_to_its_successor(bench: TopicBench) -> None:
    """Deleting removes every segment; the next topic of the name starts empty at offset 0, with fewer partitions if asked."""
    gateway = bench.create(3)
    bench.append(gateway, {0: [b"a"], 2: [b"b", b"c"]})
    bench.append(gateway, {2: [b"d"]})
    gateway.committer.commit(DeleteRecords(before={2: 1}))
    paths = gateway.committer.commit(DeleteTopic()).result
    assert len(paths) == 2
    assert all(path.startswith("segments/") for path in paths)
    gateway.committer.commit(creation(1))
    for state in (gateway.log.state, bench.gateway().log.refresh()):
        assert (state.topic_id, state.next_offsets.tolist(), state.log_starts.tolist()) == ("new", [0], [0])
        assert state.manifest.segment_count() == 0
    bench.append(gateway, {0: [b"x"]})
    assert bench.gateway().log.refresh().high_watermark(0) == 1


def test_records_are_deleted_from_the_beginning(bench: TopicBench) -> None:
    """The log start moves to the offset given, or to the high watermark for -1; never back; all partitions at once."""
    gateway = bench.create(3)
    bench.append(gateway, {0: [b"a", b"b", b"c"], 1: [b"d", b"e"]})
    assert gateway.committer.commit(DeleteRecords(before={0: 2, 1: -1})).result == {0: 2, 1: 2}
    assert gateway.log.state.log_starts.tolist() == [2, 2, 0]
    assert gateway.committer.commit(DeleteRecords(before={0: 1, 1: 0, 2: -1})).result == {0: 2, 1: 2, 2: 0}
    assert gateway.log.state.version == 2, "what moves nothing commits nothing"
    assert bench.gateway().log.refresh().log_starts.tolist() == [2, 2, 0]


def test_dead_segments_leave_the_table(bench: TopicBench) -> None:
    """A segment whose every record is below a log start is removed; the newest of a partition stays, readable or not."""
    gateway = bench.create(2)
    for values in ({0: [b"a"]}, {0: [b"b"], 1: [b"c"]}, {0: [b"d"]}):
        bench.append(gateway, values)
    first, second, third = (segment.path for segment in gateway.log.state.manifest.segments())
    gateway.committer.commit(DeleteRecords(before={0: -1}))
    assert [segment.path for segment in gateway.log.state.manifest.segments()] == [second, third]
    gateway.committer.commit(DeleteRecords(before={1: -1}))
    assert [segment.path for segment in gateway.log.state.manifest.segments()] == [second, third]
    bench.append(gateway, {1: [b"e"]})
    gateway.committer.commit(DeleteRecords(before={1: -1}))
    remaining = [segment.path for segment in gateway.log.state.manifest.segments()]
    assert (first in remaining, second in remaining, third in remaining) == (False, False, True)
    assert bench.gateway().log.refresh().next_offsets.tolist() == [3, 2]


def test_many_dead_segments_leave_the_table_by_several_commits(bench: TopicBench) -> None:
    """The memory of every reader that follows the log is bounded: a commit removes a bounded number of segments, oldest first.

    The log start moves at once, and retention takes the rest, also for a reader that has just loaded the checkpoint.
    """
    gateway = bench.create(1, retention_ms=-1)
    for number in range(6):
        bench.append(gateway, {0: [b"%d" % number]})
    paths = [segment.path for segment in gateway.log.state.manifest.segments()]
    assert gateway.committer.commit(DeleteRecords(before={0: -1}, removes_max=2)).result == {0: 6}
    assert gateway.log.state.log_start(0) == 6
    assert [segment.path for segment in gateway.log.state.manifest.segments()] == paths[2:]
    version = gateway.log.state.version
    assert gateway.committer.commit(DeleteRecords(before={0: 1})).result == {0: 6}
    assert gateway.log.state.version == version, "what moves nothing commits nothing"
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    fresh = bench.gateway()
    change = ApplyRetention(topic_id=str(fresh.log.refresh().topic_id), removes_max=2)
    removed = []
    while needs_retention(fresh.log.state, bench.clock.now_ms()):
        retained = fresh.committer.commit(change).result
        assert retained.log_starts == {}
        removed.append(list(retained.removed))
    assert removed == [paths[2:4], paths[4:5]]
    assert [segment.path for segment in fresh.log.state.manifest.segments()] == paths[5:], "the newest stays"


def test_a_topic_is_emptied_step_by_step(bench: TopicBench) -> None:
    """Before a large topic is deleted all its records go, and its segments a few at a time until the newest are left; another
    incarnation is left alone."""
    gateway = bench.create(2)
    for number in range(5):
        bench.append(gateway, {number % 2: [b"%d" % number]})
    change = DeleteAllRecords(topic_id=str(gateway.log.state.topic_id), removes_max=2)
    assert [gateway.committer.commit(change).result for _ in range(3)] == [True, True, False]
    assert gateway.log.state.log_starts.tolist() == gateway.log.state.next_offsets.tolist() == [3, 2]
    assert gateway.log.state.manifest.segment_count() == 2
    rest = RemoveDeadSegments(topic_id=change.topic_id, removes_max=2)
    bench.append(gateway, {0: [b"5"]})
    assert [gateway.committer.commit(rest).result for _ in range(2)] == [True, False]
    assert gateway.log.state.log_starts.tolist() == [3, 2]
    gateway.committer.commit(DeleteTopic())
    gateway.committer.commit(creation())
    for number in range(3):
        bench.append(gateway, {0: [b"%d" % number]})
    gateway.committer.commit(DeleteRecords(before={0: 3}))
    version = gateway.log.state.version
    with pytest.raises(UnknownTopic):
        gateway.committer.commit(change)
    assert gateway.committer.commit(rest).result is False
    assert gateway.log.state.version == version


@pytest.mark.parametrize(
    ("before", "error"),
    [({0: 1, 1: 1}, OffsetOutOfRange), ({0: 1, 2: 0}, UnknownPartition), ({0: 1, -1: 0}, UnknownPartition)],
)
def test_deleting_records_is_all_or_nothing(bench: TopicBench, before: dict[int, int], error: type[Exception]) -> None:
    """An offset beyond the high watermark or a partition that is not there: nothing moves anywhere."""
    gateway = bench.create(2)
    bench.append(gateway, {0: [b"a"]})
    with pytest.raises(error):
        gateway.committer.commit(DeleteRecords(before=before))
    assert bench.gateway().log.refresh().log_starts.tolist() == [0, 0]
