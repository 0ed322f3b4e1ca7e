"""Typed columns of a topic's table: written by the commit that acknowledges, kept by everything that comes later."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.delta.features import COLUMNS_FEATURE, FEATURE
from log_format.errors import ErrorCode, RequestRefused, TopicReplaced
from log_format.records.typed_columns import DATA, DATA_ERROR, TypedColumns
from log_format.topic.append import Append, Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.changes import AlterTopic, CreateTopic
from log_format.topic.config import Subjects, TopicConfig
from log_format.topic.table_columns import parse_typed_columns
from tests.support.topic_bench import TopicBench, TopicUser

ORDER = pa.struct([("id", pa.int64()), ("name", pa.string())])
LATER = pa.struct([*ORDER, pa.field("note", pa.string())])
SUBJECTS = Subjects("orders-value", "")


def create(bench: TopicBench, data: pa.DataType = ORDER) -> TopicUser:
    """A topic whose values have a schema."""
    user = bench.gateway()
    config = TopicConfig.parse({"value.schema": SUBJECTS.value})
    change = CreateTopic(
        name=bench.name, partition_count=2, config=config, topic_id="topic", columns=TypedColumns(data)
    )
    user.committer.commit(change)
    return user


def typed_batch(bench: TopicBench, user: TopicUser, rows: list[Any], data: pa.DataType = ORDER) -> Batch:
    """One request's records for partition 0 with these values of the column."""
    plain = bench.batch(user, {0: [json.dumps(row).encode() for row in rows]})
    typed = pa.table({DATA: pa.array(rows, data), DATA_ERROR: pa.nulls(len(rows), pa.string())})
    return Batch(
        topic_id="topic",
        records=plain.records,
        partitions=0,
        record_bytes_max=plain.record_bytes_max,
        typed=typed,
        subjects=SUBJECTS,
    )


def actions(bench: TopicBench, version: int) -> list[dict[str, Any]]:
    """The actions of a commit."""
    return [json.loads(line) for line in bench.store.get(bench.key(f"{version:020d}.json")).splitlines()]


def test_a_commit_has_the_columns_and_their_statistics(bench: TopicBench) -> None:
    """The ``add`` says what is in the columns, so that readers skip the file; the tail and readers of records see none."""
    user = create(bench)
    append = Append([typed_batch(bench, user, [{"id": 3, "name": "b"}, {"id": 5, "name": None}])], bench.new_id)
    user.committer.commit(append)
    (stats,) = [json.loads(action["add"]["stats"]) for action in actions(bench, 1) if "add" in action]
    assert (stats["minValues"][DATA], stats["maxValues"][DATA]) == ({"id": 3, "name": "b"}, {"id": 5, "name": "b"})
    assert stats["nullCount"][DATA] == {"id": 0, "name": 1}
    assert append.records is not None
    assert DATA not in append.records.schema.names


def test_marked_records_are_counted_whatever_the_number_of_members(bench: TopicBench) -> None:
    """Members beyond the 32nd have no statistics; the reasons have, so that a search for them skips files."""
    wide = pa.struct([(f"m{number}", pa.int64()) for number in range(40)])
    user = create(bench, wide)
    user.committer.commit(Append([typed_batch(bench, user, [{"m0": 1}], wide)], bench.new_id))
    (stats,) = [json.loads(action["add"]["stats"]) for action in actions(bench, 1) if "add" in action]
    assert len(stats["nullCount"][DATA]) == 32
    assert stats["nullCount"][DATA_ERROR] == 1


def test_a_typed_table_stops_earlier_releases(bench: TopicBench) -> None:
    """The protocol names a feature that releases without typed columns don't know; readers see version 1 as before."""
    create(bench)
    (protocol,) = [action["protocol"] for action in actions(bench, 0) if "protocol" in action]
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [FEATURE, COLUMNS_FEATURE]}


def test_new_members_come_with_the_first_segment_that_has_them(bench: TopicBench) -> None:
    """One commit has the wider schema and the segment; a batch of the older schema fits afterwards, too."""
    user = create(bench)
    user.committer.commit(Append([typed_batch(bench, user, [{"id": 1, "name": "a"}])], bench.new_id))
    wider = typed_batch(bench, user, [{"id": 2, "name": "b", "note": "n"}], LATER)
    user.committer.commit(Append([wider, typed_batch(bench, user, [{"id": 3, "name": "c"}])], bench.new_id))
    (metadata,) = [action["metaData"] for action in actions(bench, 2) if "metaData" in action]
    assert parse_typed_columns(metadata["schemaString"]) == TypedColumns(LATER)
    assert user.log.state.columns == bench.gateway().log.refresh().columns == TypedColumns(LATER)
    user.committer.commit(Append([typed_batch(bench, user, [{"id": 4, "name": "d"}])], bench.new_id))
    assert not [action for action in actions(bench, 3) if "metaData" in action]


def test_a_member_of_another_type_is_refused_alone(bench: TopicBench) -> None:
    """The batches beside it are committed, and the table keeps its type."""
    user = create(bench)
    other = pa.struct([("id", pa.string())])
    batches = [typed_batch(bench, user, [{"id": "x"}], other), typed_batch(bench, user, [{"id": 1, "name": "a"}])]
    refused, taken = user.committer.commit(Append(batches, bench.new_id)).result
    assert isinstance(refused, RequestRefused)
    assert refused.code == ErrorCode.INVALID_RECORD
    assert "id" in refused.detail
    assert isinstance(taken, tuple)
    assert user.log.state.columns == TypedColumns(ORDER)


def test_records_that_no_schema_judged_are_refused(bench: TopicBench) -> None:
    """A batch that was routed before the topic got its schema is sent back to be judged."""
    user = bench.create(2, topic_id="topic")
    before = bench.batch(user, {0: [b"anything"]})
    change = AlterTopic(
        partition_count=None, config={"value.schema": SUBJECTS.value}, columns=TypedColumns(ORDER), topic_id="topic"
    )
    user.committer.commit(change)
    refused, taken = user.committer.commit(
        Append([before, typed_batch(bench, user, [{"id": 1, "name": "a"}])], bench.new_id)
    ).result
    assert isinstance(refused, TopicReplaced)
    assert isinstance(taken, tuple)


def test_marked_records_are_refused_by_a_topic_that_marks_no_more(bench: TopicBench) -> None:
    """A batch that was judged while the topic marked is sent back to be refused; one without marks is taken."""
    user = create(bench)
    marked = typed_batch(bench, user, [{"id": 1, "name": "a"}])
    assert marked.typed is not None
    reason = pa.array(["value: it is not JSON"], pa.string())
    marked = marked.with_typed(marked.typed.set_column(1, DATA_ERROR, reason), SUBJECTS)
    taken = typed_batch(bench, user, [{"id": 2, "name": "b"}])
    results = user.committer.commit(Append([marked, taken], bench.new_id)).result
    assert [isinstance(one, TopicReplaced) for one in results] == [True, False]
    user.committer.commit(AlterTopic(partition_count=None, config={"data.on.error": "mark"}))
    assert isinstance(user.committer.commit(Append([marked], bench.new_id)).result[0], tuple)


def test_a_staged_flush_is_judged_again_when_the_topic_gets_other_schemas(bench: TopicBench) -> None:
    """Records of a transaction that were encoded for the topic's former schema have no columns of it in a topic without one."""
    user = create(bench)
    plain = bench.batch(user, {0: [b"{}"]})
    late = Batch(
        topic_id="topic",
        records=plain.records,
        partitions=0,
        record_bytes_max=0,
        transaction=TransactionStamp("x", 1, 0),
        append_time_ms=0,
    )
    append = Append([late], bench.new_id)
    assert append.stage(user.log.state, user.log.state.next_offsets) is not None
    user.committer.commit(AlterTopic(partition_count=None, config={"value.schema": None}))
    user.committer.commit(append)
    (add,) = [action["add"] for action in actions(bench, 2) if "add" in action]
    table = pq.read_table(pa.BufferReader(bench.store.get(bench.key(add["path"]).replace("_delta_log/", ""))))
    assert table.column(DATA_ERROR).null_count == 1


def test_altering_a_typed_topic_keeps_its_columns(bench: TopicBench) -> None:
    """Whatever setting is changed, and after a checkpoint, too; the schema may be taken away, the columns stay."""
    user = create(bench)
    user.committer.commit(Append([typed_batch(bench, user, [{"id": 1, "name": "a"}])], bench.new_id))
    user.committer.commit(AlterTopic(partition_count=3, config={"value.schema": None}))
    write_checkpoint(bench.store, bench.name, user.log.state.version, bench.clock.now_ms())
    state = bench.gateway().log.refresh()
    assert (state.columns, state.config.subjects) == (TypedColumns(ORDER), Subjects())


def test_a_schema_that_contradicts_the_columns_is_refused(bench: TopicBench) -> None:
    """Altering says which member it is."""
    user = create(bench)
    change = AlterTopic(
        partition_count=None,
        config={"value.schema": "others"},
        columns=TypedColumns(pa.struct([("id", pa.string())])),
    )
    with pytest.raises(RequestRefused, match=r"id is string, and its column is int64"):
        user.committer.commit(change)


def test_a_flush_overtaken_by_wider_columns_is_encoded_again(bench: TopicBench) -> None:
    """Two gateways: the one that learns of the new member on its way writes its segment with it."""
    one, other = create(bench), bench.gateway()
    other.log.refresh()
    append = Append([typed_batch(bench, one, [{"id": 1, "name": "a"}])], bench.new_id)
    append.stage(one.log.state, one.log.state.next_offsets)
    wider = typed_batch(bench, one, [{"id": 2, "name": "b", "note": "n"}], LATER)
    other.committer.commit(Append([wider], bench.new_id))
    one.committer.commit(append)
    assert one.log.state.columns == replace(one.log.state).columns == TypedColumns(LATER)
    (stats,) = [json.loads(action["add"]["stats"]) for action in actions(bench, 2) if "add" in action]
    assert stats["nullCount"][DATA] == {"id": 0, "name": 0, "note": 1}


def test_promised_records_that_nobody_can_judge_are_marked(bench: TopicBench) -> None:
    """A decided transaction's records are appended in any case; without the schemas they say why they have no columns."""
    user = create(bench)
    plain = bench.batch(user, {0: [b"anything"]})
    promised = Batch(
        topic_id="topic",
        records=plain.records,
        partitions=0,
        record_bytes_max=8,
        transaction=TransactionStamp("t" * 40, 1, 0),
    )
    append = Append([promised], bench.new_id)
    user.committer.commit(append)
    (path,) = [segment.path for segment in user.log.state.manifest.segments()]
    table = pq.read_table(pa.BufferReader(bench.store.get(f"topics/{bench.name}/{path}")))
    assert table.column(DATA).to_pylist() == [None]
    assert "not known" in table.column(DATA_ERROR)[0].as_py()
