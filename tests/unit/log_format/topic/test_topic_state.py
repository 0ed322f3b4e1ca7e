"""Replaying commits: what each of them does to the state, and every way in which a commit can be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from log_format.delta.actions import Action, Add, CommitInfo, MetaData, Txn, decode_commit, encode_commit
from log_format.errors import CorruptData
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment, remove_segment
from log_format.topic.state import TopicState


def metadata(topic_id: str = "first", count: object = 2, **properties: str) -> MetaData:
    configuration = {"tidelog.partition.count": str(count), **{f"tidelog.{k}": v for k, v in properties.items()}}
    return MetaData(id=topic_id, name="t", schema_string="{}", configuration=configuration, created_time=5)


def run(partition: int, base: int, end: int) -> Run:
    return Run(partition, base, end, end - base, 10, 0, 9)


def ref(name: str) -> SegmentRef:
    return SegmentRef(f"segments/{name}.parquet", 100, 50, 7)


def add(name: str, *runs: Run, time_ms: int = 1, data_change: bool = True) -> Add:
    return add_segment(ref(name), runs, modification_time_ms=time_ms, data_change=data_change)


def txn(app_id: str, version: int) -> Txn:
    return Txn(app_id=app_id, version=version, last_updated=1)


def apply(state: TopicState, *actions: Action) -> TopicState:
    commit = decode_commit(encode_commit(CommitInfo(txn_id="x"), actions), "key")
    return state.apply(commit, state.version + 1)


@pytest.fixture
def topic() -> TopicState:
    """Two partitions; partition 0 has offsets [0, 3) in segment a."""
    state = apply(TopicState.absent("t"), metadata())
    return apply(state, add("a", run(0, 0, 3)), txn("0", 3))


def test_a_topic_is_made() -> None:
    """The first metadata makes the topic: empty partitions, its settings, its creation time."""
    state = apply(TopicState.absent("t"), metadata(**{"flush.ms": "7"}))
    assert (state.version, state.topic_id, state.exists, state.partition_count) == (0, "first", True, 2)
    assert (state.next_offsets.tolist(), state.log_starts.tolist(), state.created_at_ms) == ([0, 0], [0, 0], 5)
    assert state.config.overrides == {"flush.ms": 7}


def test_an_append_moves_next_offsets(topic: TopicState) -> None:
    """New data continues each partition, and its modification time is remembered."""
    state = apply(topic, add("b", run(0, 3, 5), run(1, 0, 1), time_ms=77), txn("0", 5), txn("1", 1))
    assert (state.high_watermark(0), state.high_watermark(1), state.modification_time_ms) == (5, 1, 77)
    located = state.manifest.find(0, 4)
    assert located is not None
    assert located.segment == ref("b")
    with pytest.raises(ValueError):
        state.next_offsets[0] = 9


def test_an_older_state_keeps_its_offsets(topic: TopicState) -> None:
    """A state is a value: what is applied on top of it does not change its positions."""
    apply(topic, add("b", run(0, 3, 5)), txn("0", 5))
    assert (topic.version, topic.high_watermark(0)) == (1, 3)


def test_partitions_are_added(topic: TopicState) -> None:
    """The same incarnation with more partitions keeps what it has; the new ones are empty."""
    state = apply(topic, metadata(count=4))
    assert (state.next_offsets.tolist(), state.log_starts.tolist()) == ([3, 0, 0, 0], [0, 0, 0, 0])
    assert state.manifest.segment_count() == 1


def test_a_log_start_hides_what_is_below(topic: TopicState) -> None:
    """A log start moves up, and runs wholly below it are not found any more."""
    state = apply(topic, txn("log-start-0", 3))
    assert (state.log_start(0), state.high_watermark(0)) == (3, 3)
    assert state.manifest.find(0, 0) is None


def test_another_id_is_another_topic(topic: TopicState) -> None:
    """Nothing of the old incarnation remains in the new one, also where no commit reset its numbers."""
    deleted = apply(
        topic, metadata(deleted="true"), remove_segment(ref("a"), deletion_timestamp_ms=1, data_change=True)
    )
    assert (deleted.exists, deleted.topic_id, deleted.partition_count) == (False, None, 0)
    made = apply(deleted, metadata("second", count=1))
    assert (made.topic_id, made.next_offsets.tolist(), made.manifest.segment_count()) == ("second", [0], 0)
    replaced = apply(topic, metadata("third", count=1))
    assert (replaced.topic_id, replaced.next_offsets.tolist(), replaced.manifest.segment_count()) == ("third", [0], 0)


def test_compaction_changes_no_offsets(topic: TopicState) -> None:
    """Segments rewritten without a change of data keep next offsets, and are found instead of the old ones."""
    removal = remove_segment(ref("a"), deletion_timestamp_ms=1, data_change=False)
    state = apply(topic, removal, add("big", run(0, 0, 3), data_change=False))
    assert state.high_watermark(0) == 3
    located = state.manifest.find(0, 0)
    assert located is not None
    assert located.segment == ref("big")


@pytest.mark.parametrize(
    "app_id", ["spark-query", "07", "0x1", "-1", "log-start-", "log-start-x", "٣", "9" * 5_000, ""]
)
def test_others_txns_are_theirs(topic: TopicState, app_id: str) -> None:
    """A ``txn`` that names no partition is another program's and means nothing here."""
    assert apply(topic, txn(app_id, 100)).next_offsets.tolist() == [3, 0]


def test_leftovers_of_a_larger_topic_are_ignored(topic: TopicState) -> None:
    """A partition that this incarnation has not may have a ``txn`` of 0: what deleting the old one left."""
    assert apply(topic, txn("7", 0), txn("log-start-7", 0)).partition_count == 2


def damages() -> dict[str, list[Any]]:
    """What may not follow the topic above."""
    return {
        "a gap": [add("b", run(0, 4, 5)), txn("0", 5)],
        "an overlap": [add("b", run(0, 2, 5)), txn("0", 5)],
        "offsets that are there": [add("b", run(0, 0, 3)), txn("0", 3)],
        "a txn that says more": [add("b", run(0, 3, 5)), txn("0", 6)],
        "a txn that says less": [add("b", run(0, 3, 5)), txn("0", 4)],
        "no txn": [add("b", run(0, 3, 5))],
        "a txn without records": [txn("0", 4)],
        "a next offset that goes back": [txn("0", 2)],
        "a log start beyond the end": [txn("log-start-0", 4)],
        "a partition that is not there": [add("b", run(2, 0, 1)), txn("2", 1)],
        "a txn of a partition that is not there": [txn("2", 1)],
        "a log start of a partition that is not there": [txn("log-start-2", 1)],
        "a segment that is there": [add("a", run(1, 0, 1)), txn("1", 1)],
        "the same offsets in two segments": [add("b", run(1, 0, 1)), add("c", run(1, 0, 1)), txn("1", 1)],
        "the same offsets twice in a segment": [add("b", run(1, 0, 1), run(1, 0, 1)), txn("1", 1)],
        "a compaction over live offsets": [add("b", run(0, 0, 3), data_change=False)],
        "fewer partitions": [metadata(count=1)],
        "no partitions": [metadata(count=0)],
        "too many partitions": [metadata(count=10_001)],
        "partitions that are no number": [metadata(count="two")],
        "partitions beyond all numbers": [metadata(count="9" * 5_000)],
    }


@pytest.mark.parametrize("damage", damages())
def test_a_damaged_log_is_found_out(topic: TopicState, damage: str) -> None:
    """Each invariant is checked with every commit: a commit that breaks one raises ``CorruptData`` with topic and version."""
    with pytest.raises(CorruptData) as caught:
        apply(topic, *damages()[damage])
    if "topic" in caught.value.fields:
        assert (caught.value.fields["topic"], caught.value.fields["table_version"]) == ("t", 2)


def test_a_log_start_never_goes_back(topic: TopicState) -> None:
    """What was deleted stays deleted."""
    state = apply(topic, txn("log-start-0", 2))
    with pytest.raises(CorruptData):
        apply(state, txn("log-start-0", 1))


def test_commits_follow_each_other(topic: TopicState) -> None:
    """A state takes the next version and no other."""
    commit = decode_commit(encode_commit(CommitInfo(txn_id="x"), []), "key")
    for version in (topic.version, topic.version + 2):
        with pytest.raises(ValueError):
            topic.apply(commit, version)


def test_a_topic_that_does_not_exist_takes_nothing() -> None:
    """In the log of a deleted topic, other commits change nothing but the version."""
    state = apply(TopicState.absent("t"), txn("0", 5))
    assert (state.version, state.exists, state.next_offsets.tolist()) == (0, False, [])
