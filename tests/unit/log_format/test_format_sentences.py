"""Sentences of docs/format.md that nothing else proves, each with its section."""

from __future__ import annotations

import hashlib
import hmac
import io
import json

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format import layout
from log_format.checkpoints.checkpoint import decode_checkpoint, write_checkpoint
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.records.schema import BATCH_SCHEMA
from log_format.segments.run import Run
from log_format.segments.segment import encode_segment
from log_format.segments.writer import SegmentWriter
from log_format.stores.memory import MemoryStore
from log_format.topic import producer_id
from log_format.topic.append import Append, Batch
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.changes import DeleteTopic
from log_format.topic.producers import ProducerStamp
from log_format.topic.segment_tags import statistics
from log_format.transactions.changes import Decide, ForbidTransaction
from log_format.transactions.staged_records import StagedRecords, encode_staged
from log_format.transactions.state import transactions_table
from tests.support.topic_bench import TopicBench, TopicUser

DAY_MS = 86_400_000
KEY = b"key"


def issued(ms: int) -> str:
    return producer_id.issue(producer_id.PLAIN, ms, "0" * 20, KEY)


def append(
    bench: TopicBench,
    gateway: TopicUser,
    *,
    stamp: ProducerStamp | None = None,
    transaction: TransactionStamp | None = None,
) -> None:
    """One record."""
    batch = bench.batch(gateway, {0: [b"a"]})
    batch.stamp, batch.transaction = stamp, transaction
    gateway.committer.commit(Append([batch], bench.new_id))


def append_nothing(bench: TopicBench, gateway: TopicUser, stamp: ProducerStamp) -> None:
    """A request without records, whose sequence is used up."""
    batch = Batch(
        topic_id=str(gateway.log.state.topic_id),
        records=BATCH_SCHEMA.empty_table(),
        partitions=np.zeros(0, np.int32),
        record_bytes_max=0,
        stamp=stamp,
    )
    gateway.committer.commit(Append([batch], bench.new_id))


def compressed(data: bytes) -> set[str]:
    """The columns of the first row group that are."""
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema for column in columns if column.compression != "UNCOMPRESSED"}


def test_headers_are_compressed_where_there_are_some_and_in_rewritten_segments(bench: TopicBench) -> None:
    """4.2: a flush knows whether it has any; a rewrite does not know what comes."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    (segment,) = gateway.log.state.manifest.segments()
    flushed = bench.store.get(f"topics/{bench.name}/{segment.path}")
    headers = {"headers.list.element.key", "headers.list.element.value"}
    assert not headers & compressed(flushed)
    records = pq.read_table(io.BytesIO(flushed))
    writer = SegmentWriter(compression="zstd")
    writer.add(records)
    written = writer.finish()
    assert written is not None
    assert headers <= compressed(written.data)
    index = records.schema.get_field_index("headers")
    some = pa.array([[{"key": "a", "value": b"1"}]], records.schema.field("headers").type)
    assert headers <= compressed(encode_segment(records.set_column(index, "headers", some), compression="zstd").data)


def test_a_commit_without_stamped_requests_forgets_no_producer(bench: TopicBench) -> None:
    """5.4: expiry is of commits with stamped requests, in a replay of them and in checkpoints alike."""
    gateway = bench.create(1)
    first, second = issued(bench.clock.now_ms()), issued(bench.clock.now_ms() + 1)
    append(bench, gateway, stamp=ProducerStamp(first, 0, 0))
    bench.clock.pass_ms(2 * DAY_MS)
    for stamp, known in ((None, {first}), (ProducerStamp(second, 0, 0), {second})):
        append(bench, gateway, stamp=stamp)
        assert set(gateway.log.state.producers.by_id) == known
        write_checkpoint(bench.store, bench.name, gateway.log.state.version, 0)
        assert set(bench.gateway().log.refresh().producers.by_id) == known


def test_the_key_of_producer_ids_is_what_its_digits_stand_for() -> None:
    """5.4: an HMAC under the bytes, not under the text."""
    store = MemoryStore()
    made = load_cluster(store, lambda: "0123456789abcdef" * 2)
    key = bytes.fromhex(json.loads(store.get("system/cluster.json"))["producer_key"])
    body, proof = producer_id.issue(producer_id.PLAIN, 1, "a" * 20, made.producer_key).split("_")
    assert hmac.new(key, body.encode(), hashlib.sha256).hexdigest()[:20] == proof


def test_in_a_checkpoint_the_keys_count_and_not_the_txn_actions(bench: TopicBench) -> None:
    """9: the floor among the ``txn`` may be an older incarnation's; empty requests have none; every ``add`` is no new data."""
    gateway = bench.create(1)
    append(bench, gateway, transaction=TransactionStamp("t1", 7, 5))
    assert gateway.log.state.transactions.floor == 5
    gateway.committer.commit(DeleteTopic())
    bench.create(1)
    gateway.log.refresh()
    bench.append(gateway, {0: [b"b"]})
    append_nothing(bench, gateway, ProducerStamp(issued(1), 0, 0))
    version = gateway.log.state.version
    write_checkpoint(bench.store, bench.name, version, 0)
    root = layout.topic_root(bench.name)
    table = decode_checkpoint(bench.store.get(layout.checkpoint_key(bench.name, version)), root, version)
    txns = {row["appId"]: row["version"] for row in table.column("txn").drop_null().to_pylist()}
    assert txns["ended-transactions"] == 5
    assert not [app_id for app_id in txns if app_id.startswith("empty-request-")]
    assert [row["dataChange"] for row in table.column("add").drop_null().to_pylist()] == [False]
    for state in (gateway.log.state, bench.gateway().log.refresh()):
        assert state.transactions.floor == -1
        assert len(state.producers) == 1


def test_files_of_system_tables_have_their_count_alone() -> None:
    """9: ``stats`` is ``numRecords``, and there is no checksum of theirs."""
    store = MemoryStore()
    log = TableLog(store, transactions_table(), SystemClock())
    Committer(log, new_id=lambda: "id").commit(Decide([ForbidTransaction(transaction_id="x")], lambda: "id"))
    lines = store.get("system/transactions/_delta_log/00000000000000000000.json").splitlines()
    (add,) = [line["add"] for line in map(json.loads, lines) if "add" in line]
    assert json.loads(add["stats"]) == {"numRecords": 1}
    assert set(add["tags"]) == {"tidelog.transactions"}


def test_staged_records_have_their_partitions_and_times(bench: TopicBench) -> None:
    """10: types and metadata of a staged object."""
    gateway = bench.create(2)
    batch = bench.batch(gateway, {0: [b"a"], 1: [b"b"]})
    staged = StagedRecords(topic="t", topic_id="i", records=batch.records, partitions=batch.partitions)
    schema = pa.ipc.open_stream(encode_staged(staged)).schema
    assert {field.name: str(field.type) for field in schema} == {
        "timestamp": "timestamp[us, tz=UTC]",
        "key": "binary",
        "value": "binary",
        "headers": "list<element: struct<key: string, value: binary>>",
        "partition": "int32",
    }
    assert schema.metadata == {b"tidelog.topic": b"t", b"tidelog.topic_id": b"i"}


@pytest.mark.parametrize("time_ms", [0, 3, 1_763_683_200_000, 253_402_300_799_999])
def test_statistics_write_times_with_milliseconds_in_utc(bench: TopicBench, time_ms: int) -> None:
    """5.1: the text of a timestamp."""
    found = msgspec.json.decode(statistics([Run(0, 0, 1, 1, 1, time_ms, time_ms)]))["maxValues"]["timestamp"]
    assert len(found) == len("2025-11-21T00:00:00.003Z")
    assert found.endswith(f".{time_ms % 1000:03d}Z")
