"""Batches -> one segment and the commit that gives them their offsets."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pyarrow as pa
import pytest

from log_format.errors import ErrorCode, TidelogError, TopicReplaced, UnknownTopic
from log_format.records.schema import BATCH_SCHEMA, RECORD_SCHEMA
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.changes import AlterTopic, DeleteTopic
from tests.support.topic_bench import TopicBench


def rows(append: Append) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of what was staged."""
    assert append.records is not None
    assert append.records.schema == RECORD_SCHEMA
    return list(zip(*(append.records[name].to_pylist() for name in ("partition", "offset", "value")), strict=True))


def test_records_get_consecutive_offsets(bench: TopicBench) -> None:
    """A request's records for one partition are consecutive and in its order; requests follow each other."""
    gateway = bench.create(3)
    bench.append(gateway, {1: [b"before"]})
    append = Append(
        [bench.batch(gateway, {2: [b"a"], 1: [b"b", b"c"]}), bench.batch(gateway, {1: [b"d"], 0: [b"e"]})], bench.new_id
    )
    result = gateway.committer.commit(append).result
    assert result == [
        (AppendedRange(1, 1, 2), AppendedRange(2, 0, 1)),
        (AppendedRange(0, 0, 1), AppendedRange(1, 3, 1)),
    ]
    assert rows(append) == [(0, 0, b"e"), (1, 1, b"b"), (1, 2, b"c"), (1, 3, b"d"), (2, 0, b"a")]


def test_records_that_alternate_between_partitions_keep_their_order(bench: TopicBench) -> None:
    """Sorting by partition never swaps two records of one partition, however they come."""
    gateway = bench.create(2)
    values = [b"%d" % number for number in range(50)]
    batch = bench.batch(gateway, {0: values})
    batch = type(batch)(
        topic_id=batch.topic_id,
        records=batch.records,
        partitions=np.array([number * 7 % 2 for number in range(50)], np.int32),
        record_bytes_max=2,
    )
    append = Append([batch], bench.new_id)
    gateway.committer.commit(append)
    assert [value for _, _, value in rows(append)] == values[0::2] + values[1::2]
    assert append.counts() == {0: 25, 1: 25}


def test_a_flush_is_one_segment_and_one_commit(bench: TopicBench) -> None:
    """However many requests and partitions take part: two puts. The commit has one ``add`` and a ``txn`` per partition."""
    gateway = bench.create(3)
    bench.store.requests.clear()
    bench.append(gateway, {0: [b"a"], 2: [b"b"]}, {2: [b"c"]})
    assert [name for name, _ in bench.store.requests] == ["put", "put_if_absent"]
    actions = [json.loads(line) for line in bench.store.get(bench.key(f"{1:020d}.json")).splitlines()]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add", "txn", "txn"]
    assert [(a["txn"]["appId"], a["txn"]["version"]) for a in actions[2:]] == [("0", 1), ("2", 2)]
    assert (actions[1]["add"]["dataChange"], actions[1]["add"]["partitionValues"]) == (True, {})


def test_modification_times_keep_the_order_of_commits(bench: TopicBench) -> None:
    """A reader that goes by modification times sees offsets in order, also when a writer's clock goes back."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    bench.clock.elapsed_ms -= 60_000
    bench.append(gateway, {0: [b"b"]})
    times = []
    for version in (1, 2):
        lines = bench.store.get(bench.key(f"{version:020d}.json")).splitlines()
        times.append(json.loads(lines[1])["add"]["modificationTime"])
    assert times[0] < times[1]


def test_a_proposal_is_pure(bench: TopicBench) -> None:
    """The same state gives the same segment, so that a retry uploads nothing again; other offsets give another one."""
    gateway = bench.create(2)
    append = Append([bench.batch(gateway, {0: [b"a"]})], bench.new_id)
    state = gateway.log.state
    first, second = append.propose(state, 1), append.propose(state, 1)
    assert first.actions == second.actions
    assert first.segment is second.segment is not None
    other = bench.gateway()
    other.log.refresh()
    bench.append(other, {1: [b"x"]})
    assert append.propose(other.log.state, 1).segment is first.segment, "another partition's records move nothing here"
    bench.append(other, {0: [b"x"]})
    third = append.propose(other.log.state, 1)
    assert third.segment is not None
    assert first.segment is not None
    assert third.segment.path != first.segment.path
    assert rows(append) == [(0, 1, b"a")]


def test_staging_ahead_saves_an_upload(bench: TopicBench) -> None:
    """What was staged for the offsets that came true is committed as it is; what was not is encoded anew."""
    gateway = bench.create(1)
    first, second = (Append([bench.batch(gateway, {0: [value]})], bench.new_id) for value in (b"a", b"b"))
    ahead = second.stage(gateway.log.state, gateway.log.state.next_offsets + 1)
    wrong = Append([bench.batch(gateway, {0: [b"c"]})], bench.new_id)
    stale = wrong.stage(gateway.log.state, gateway.log.state.next_offsets + 1)
    assert ahead is not None
    assert stale is not None
    gateway.committer.stage(ahead)
    gateway.committer.stage(stale)
    gateway.committer.commit(first)
    bench.store.requests.clear()
    assert gateway.committer.commit(second).result == [(AppendedRange(0, 1, 1),)]
    assert [name for name, _ in bench.store.requests] == ["put_if_absent"]
    assert gateway.committer.commit(wrong).result == [(AppendedRange(0, 2, 1),)]
    assert [segment.path for segment in gateway.log.state.manifest.segments()][2] != stale.path


def test_one_bad_batch_does_not_hold_up_the_others(bench: TopicBench) -> None:
    """A batch for the topic's predecessor and one with a record too large are refused by themselves; the rest is committed."""
    gateway = bench.create(2, topic_id="old")
    late = bench.batch(gateway, {0: [b"late"]})
    gateway.committer.commit(DeleteTopic())
    bench.create(2, topic_id="new")
    gateway.log.refresh()
    good, large, last = (bench.batch(gateway, {0: [value]}) for value in (b"good", b"x" * 50, b"last"))
    gateway.committer.commit(AlterTopic(partition_count=None, config={"max.message.bytes": 49}))
    append = Append([late, good, large, last], bench.new_id)
    replaced, first, too_large, second = gateway.committer.commit(append).result
    assert isinstance(replaced, TopicReplaced)
    assert isinstance(too_large, TidelogError)
    assert (too_large.code, too_large.fields["limit_bytes"]) == (ErrorCode.RECORD_TOO_LARGE, 49)
    assert (first, second) == ((AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),))
    assert [value for _, _, value in rows(append)] == [b"good", b"last"]


def test_nothing_is_written_when_nothing_stands(bench: TopicBench) -> None:
    """When every batch is refused, there is neither segment nor commit."""
    gateway = bench.create(1)
    append = Append([bench.batch(gateway, {0: [b"a"]})], bench.new_id)
    gateway.committer.commit(DeleteTopic())
    bench.store.requests.clear()
    committed = gateway.committer.commit(append)
    assert [type(refusal) for refusal in committed.result] == [UnknownTopic]
    assert committed.attempts == 0
    assert not [name for name, _ in bench.store.requests if name.startswith("put")]
    assert append.stage(gateway.log.state, gateway.log.state.next_offsets) is None


@pytest.mark.parametrize("compression", ["zstd", "lz4", "snappy", "gzip", "uncompressed"])
def test_a_topic_chooses_its_compression(bench: TopicBench, compression: str) -> None:
    """The segment is compressed as the topic's setting says at the moment of the commit."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    gateway = bench.create(1, compression_type=compression)
    bench.append(gateway, {0: [b"a" * 100]})
    data = bench.store.get(f"topics/flights/{gateway.log.state.manifest.segments()[0].path}")
    column = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(4)
    assert column.compression.lower().removesuffix("_raw") == compression


def test_records_routed_by_a_partition_count_that_changed_are_refused(bench: TopicBench) -> None:
    """A key keeps to one partition: what was routed before partitions were added must be routed again. Named ones stand."""
    gateway = bench.create(2)
    routed, named = bench.batch(gateway, {0: [b"by key"]}), bench.batch(gateway, {1: [b"named"]})
    routed.partition_count = 2
    bench.gateway().committer.commit(AlterTopic(partition_count=3, config={}))
    result = gateway.committer.commit(Append([routed, named], bench.new_id)).result
    assert isinstance(result[0], TopicReplaced)
    assert not result[0].may_have_happened
    assert result[1] == (AppendedRange(1, 0, 1),)


def test_a_flush_is_freed_without_the_garbage_collector(bench: TopicBench) -> None:
    """A flush and its segment are megabytes: nothing that they hold may hold them."""
    gateway = bench.create(1)
    append = Append([bench.batch(gateway, {0: [b"a"]})], bench.new_id)
    gateway.committer.commit(append)
    freed = weakref.ref(append)
    gc.disable()
    try:
        del append
        assert freed() is None
    finally:
        gc.enable()


def test_a_batch_without_keys_is_judged_by_the_policy_at_the_head(bench: TopicBench) -> None:
    """Where keys are compacted one without is refused, by itself; what a decided transaction brings is not: it must be in."""
    gateway = bench.create(1, cleanup_policy="compact")
    keyless = bench.batch(gateway, {0: [b"a"]})
    keyed = Batch(
        topic_id=keyless.topic_id,
        records=keyless.records.set_column(1, BATCH_SCHEMA.field("key"), [pa.array([b"k"])]),
        partitions=keyless.partitions,
        record_bytes_max=2,
    )
    decided = Batch(
        topic_id=keyless.topic_id,
        records=keyless.records,
        partitions=keyless.partitions,
        record_bytes_max=0,
        transaction=TransactionStamp("t-1", 5, 0),
    )
    refused, *stored = gateway.committer.commit(Append([keyless, keyed, decided], bench.new_id)).result
    assert isinstance(refused, TidelogError)
    assert refused.code is ErrorCode.INVALID_RECORD
    assert stored == [(AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),)]


def test_with_log_append_time_a_transaction_has_the_time_of_its_appending(bench: TopicBench) -> None:
    """By the setting at the head, also where it changed since the segment was encoded; other batches have their times already."""
    gateway = bench.create(1)
    usual, decided = (bench.batch(gateway, {0: [value]}, timestamp_ms=1_000) for value in (b"usual", b"decided"))
    decided.transaction, decided.append_time_ms = TransactionStamp("t-1", 5, 0), 7_000
    append = Append([usual, decided], bench.new_id)
    state = gateway.log.state
    assert append.stage(state, state.next_offsets) is not None
    assert times_ms(append) == [1_000, 1_000]
    bench.gateway().committer.commit(
        AlterTopic(partition_count=None, config={"message.timestamp.type": "LogAppendTime"})
    )
    gateway.committer.commit(append)
    assert times_ms(append) == [1_000, 7_000]


def times_ms(append: Append) -> list[int]:
    assert append.records is not None
    return [int(time.timestamp() * 1000) for time in append.records["timestamp"].to_pylist()]
