"""The Parquet object of a checkpoint: a reader of the state alone does not pay for what was removed."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from log_format.checkpoints.checkpoint import decode_checkpoint, removed_paths, write_checkpoint
from log_format.checkpoints.memory import NO_MEMORY, add_memory
from log_format.delta.actions import Add, Commit, Remove
from log_format.delta.checkpoint_file import decode_checkpoint_file, encode_checkpoint_pieces
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.topic.changes import DeleteRecords
from tests.support.reconciled import reconcile
from tests.support.topic_bench import TopicBench

HOUR_MS = 3_600_000


def stored(bench: TopicBench) -> bytes:
    """A checkpoint of a topic with three removed segments and one that stays."""
    gateway = bench.create(1, deleted_file_retention_ms=HOUR_MS)
    for number in range(4):
        bench.append(gateway, {0: [b"%d" % number]})
    gateway.committer.commit(DeleteRecords(before={0: 3}))
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    data: bytes = bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet"))
    return data


def test_tombstones_lie_apart(bench: TopicBench) -> None:
    """Passing over the row groups of tombstones takes all of them away and nothing else, and leaves the metadata."""
    data = stored(bench)
    whole, state = (decode_checkpoint(data, "topics/flights/", 5, with_tombstones=wanted) for wanted in (True, False))
    assert len(removed_paths(whole)) == 3
    assert removed_paths(state) == set()
    assert state.equals(whole.filter(pc.is_null(whole.column("remove"))))
    assert state.schema.metadata == whole.schema.metadata
    assert pq.ParquetFile(pa.BufferReader(data)).metadata.num_row_groups == 2


def test_rows_that_are_mixed_are_read() -> None:
    """A checkpoint whose tombstones share their row group with other actions, as others write it, is read whole."""
    rows = [{"remove": {"path": "a"}}, {"txn": {"appId": "0", "version": 1}}]
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)
    assert decode_checkpoint_file(sink.getvalue().to_pybytes(), with_tombstones=False).num_rows == 2
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, write_statistics=False, row_group_size=1)
    assert decode_checkpoint_file(sink.getvalue().to_pybytes(), with_tombstones=False).num_rows == 2


def test_nothing_is_a_checkpoint_too() -> None:
    """A log in which nothing is left gives an object that can be read, with and without tombstones."""
    empty = add_memory(SCHEMA.empty_table(), NO_MEMORY)
    data, _ = encode_checkpoint_pieces([empty], empty.schema.metadata)
    for wanted in (True, False):
        assert decode_checkpoint(data, "topics/t/", 0, with_tombstones=wanted).num_rows == 0


def test_each_file_has_one_entry(bench: TopicBench) -> None:
    """Of a tombstone in the checkpoint and what later commits say of its file the newest counts: no file is there twice."""
    table = decode_checkpoint(stored(bench), "topics/flights/", 5)
    back, again, other = sorted(removed_paths(table))
    add = Add(path=back, size=1, modification_time=1, data_change=False)
    remove = Remove(path=again, deletion_timestamp=bench.clock.now_ms() + 1, data_change=False)
    commit = Commit(commit_id=None, protocol=None, metadata=None, adds=(add,), removes=(remove,), txns=())
    moved_on = reconcile(table, [commit], bench.clock.now_ms())
    removes = moved_on.column("remove").drop_null().to_pylist()
    assert sorted(entry["path"] for entry in removes) == [again, other]
    assert {entry["path"]: entry["deletionTimestamp"] for entry in removes}[again] == remove.deletion_timestamp
    assert back in {entry["path"] for entry in moved_on.column("add").drop_null().to_pylist()}
