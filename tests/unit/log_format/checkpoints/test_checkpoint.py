"""Checkpoints: they change nothing, every Delta reader opens them, and damage in them is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format import limits
from log_format.checkpoints.checkpoint import (
    decode_checkpoint,
    is_checkpoint_due,
    last_checkpoint_version,
    live_segments,
    reconcile_log,
    removed_paths,
    write_checkpoint,
)
from log_format.checkpoints.state import read_checkpoint
from log_format.delta.actions import decode_commit
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.errors import CorruptData, StoreUnavailable
from log_format.stores.local import LocalStore
from log_format.topic import producer_id
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic
from log_format.topic.deleted_files import NoteDeletedFiles
from log_format.topic.producers import ProducerStamp
from log_format.topic.state import TopicState
from tests.support.faulty_store import FaultyStore
from tests.support.reconciled import reconcile
from tests.support.topic_bench import TopicBench

DAY_MS = 86_400_000


def facts(state: TopicState) -> tuple[Any, ...]:
    """All that a state says, but for its modification time."""
    partitions = range(state.partition_count)
    return (
        (state.version, state.topic_id, state.partition_count, state.config.overrides, state.created_at_ms),
        (state.next_offsets.tolist(), state.log_starts.tolist()),
        [state.manifest.runs(partition) for partition in partitions],
        {segment.path for segment in state.manifest.segments()},
        [
            [state.manifest.find_timestamp(partition, 0, at) for at in range(0, 10**13, 10**12)]
            for partition in partitions
        ],
    )


def eventful(bench: TopicBench) -> Any:
    """A topic with records, settings, deleted records, and a predecessor."""
    gateway = bench.create(3)
    bench.append(gateway, {0: [b"old"], 2: [b"old"]})
    gateway.committer.commit(DeleteTopic())
    bench.create(2, flush_ms=5)
    gateway.log.refresh()
    for number in range(4):
        bench.append(gateway, {0: [b"%d" % number], 1: [b"a", b"b"]})
    gateway.committer.commit(AlterTopic(partition_count=3, config={"retention.ms": 77}))
    gateway.committer.commit(DeleteRecords(before={0: 2, 1: 3}))
    bench.append(gateway, {2: [b"new"]})
    return gateway


def test_a_checkpoint_changes_nothing(bench: TopicBench) -> None:
    """At every version: replaying from a checkpoint gives what replaying from the beginning gives."""
    head = eventful(bench).log.state.version
    keys = [bench.key(f"{version:020d}.json") for version in range(head + 1)]
    commits = [decode_commit(bench.store.get(key), key) for key in keys]
    replayed = TopicState.absent("flights")
    for version, commit in enumerate(commits):
        replayed = replayed.apply(commit, version)
        write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
        state = read_checkpoint(bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet")), "flights", version)
        assert state.exists == replayed.exists
        if state.exists:
            assert facts(state) == facts(replayed)
            assert state.modification_time_ms <= replayed.modification_time_ms
    assert last_checkpoint_version(bench.store, "flights") == head


def test_a_chain_of_checkpoints_is_one_checkpoint(bench: TopicBench) -> None:
    """A checkpoint made from an older one is, row by row, the one that is made from all commits."""
    head = eventful(bench).log.state.version
    whole = reconcile_log(bench.store, "flights", head, bench.clock.now_ms())
    assert whole is not None
    for version in (2, 3, 7):
        write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    chained = reconcile_log(bench.store, "flights", head, bench.clock.now_ms())
    assert chained is not None
    assert rows(chained) == rows(whole)


def rows(table: pa.Table) -> list[str]:
    return sorted(repr(row) for row in table.to_pylist())


def test_an_older_checkpoint_is_not_written_over_a_newer_one(bench: TopicBench) -> None:
    """A late writer with an old version writes nothing, and the hint does not go back."""
    gateway = eventful(bench)
    write_checkpoint(bench.store, "flights", gateway.log.state.version, 0)
    bench.store.requests.clear()
    write_checkpoint(bench.store, "flights", 3, 0)
    assert not [name for name, _ in bench.store.requests if name.startswith("put")]
    assert last_checkpoint_version(bench.store, "flights") == gateway.log.state.version


def test_a_checkpoint_costs_what_decision_001_says(bench: TopicBench) -> None:
    """The hint once, a listing before and one after, the checkpoint before, each commit since; two puts."""
    gateway = eventful(bench)
    write_checkpoint(bench.store, "flights", 3, 0)
    bench.store.requests.clear()
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, 0)
    names = ["_last_checkpoint", f"{3:020d}.checkpoint.parquet", *(f"{n:020d}.json" for n in range(4, version + 1))]
    requests = sorted((name, key.rpartition("/")[2]) for name, key in bench.store.requests)
    assert [key for name, key in requests if name == "get"] == sorted(names)
    assert [name for name, _ in requests if name != "get"] == ["list", "list", "put", "put_if_absent"]


def test_a_checkpoint_that_is_there_stays_byte_for_byte(bench: TopicBench) -> None:
    """A second one of its version, later and so with fewer tombstones, must not break a reader of the first by ranges."""
    gateway = bench.create(1)
    for value in (b"a", b"b"):
        bench.append(gateway, {0: [value]})
    gateway.committer.commit(DeleteRecords(before={0: 1}))
    version, now_ms = gateway.log.state.version, bench.clock.now_ms()
    key = bench.key(f"{version:020d}.checkpoint.parquet")
    write_checkpoint(bench.store, "flights", version, now_ms)
    first = bench.store.get(key)
    write_checkpoint(bench.store, "flights", version, now_ms + 30 * DAY_MS)
    assert bench.store.get(key) == first
    bench.store.delete(key)
    write_checkpoint(bench.store, "flights", version, now_ms + 30 * DAY_MS)
    assert bench.store.get(key) != first


def test_a_checkpoint_overtaken_by_clean_up_is_not_written(bench: TopicBench) -> None:
    """A checkpoint is read again or given up when a newer one came while it was made from an older one.

    Clean-up may have deleted what is below the newer one, so what was read then may be anything.
    """
    gateway = bench.create(1)
    for number in range(6):
        bench.append(gateway, {0: [b"%d" % number]})
    ghost = bench.store.get(bench.key(f"{1:020d}.json"))

    def overtaken(real: Any, key: str) -> Any:
        write_checkpoint(bench.store, "flights", 4, 0)
        for version in range(5):
            bench.store.delete(bench.key(f"{version:020d}.json"))
        bench.store.put(bench.key(f"{0:020d}.json"), ghost)
        return real(key)

    bench.store.script["get"] = [None, overtaken]
    write_checkpoint(bench.store, "flights", 6, 0)
    assert facts(bench.gateway().log.refresh()) == facts(gateway.log.state)
    assert bench.gateway().log.refresh().high_watermark(0) == 6


def test_a_checkpoint_of_a_damaged_log_is_not_written(bench: TopicBench) -> None:
    """A log that lacks a commit gets no checkpoint that would hide it."""
    eventful(bench)
    bench.store.delete(bench.key(f"{3:020d}.json"))
    with pytest.raises(CorruptData, match=f"{3:020d}"):
        write_checkpoint(bench.store, "flights", 5, 0)
    assert not [info for info in bench.store.list(bench.key("")) if "checkpoint" in info.key]


def test_a_store_that_fails_raises(bench: TopicBench) -> None:
    """A checkpoint that can't be put is reported as the store's failure."""
    gateway = eventful(bench)
    bench.store.script["put_if_absent"] = [StoreUnavailable("k", "full", may_have_happened=False)]
    with pytest.raises(StoreUnavailable):
        write_checkpoint(bench.store, "flights", gateway.log.state.version, 0)


def test_tombstones_fade(bench: TopicBench) -> None:
    """Removed segments are named until they may be deleted and an hour longer, for the process that deletes them.

    They are not named for ever, since each checkpoint would be the larger by them.
    """
    gateway = bench.create(1, deleted_file_retention_ms=DAY_MS)
    bench.append(gateway, {0: [b"a"]})
    path = gateway.log.state.manifest.segments()[0].path
    bench.append(gateway, {0: [b"b"]})
    gateway.committer.commit(DeleteRecords(before={0: 1}))
    version, now_ms = gateway.log.state.version, bench.clock.now_ms()
    early = reconcile_log(bench.store, "flights", version, now_ms + DAY_MS + 3_600_000)
    late = reconcile_log(bench.store, "flights", version, now_ms + DAY_MS + 3_600_001)
    assert early is not None
    assert late is not None
    assert removed_paths(early) == {path}
    assert removed_paths(late) == set()
    assert [segment.path for segment, _ in live_segments(late)] == [
        segment.path for segment in gateway.log.state.manifest.segments()
    ]


def test_tombstones_of_files_that_are_gone_fade_sooner(bench: TopicBench) -> None:
    """What the log says is gone is named no more, by whichever checkpoint; what is not, fades by its age as before."""
    gateway = bench.create(1)
    paths, times_ms = [], []
    for offset in range(3):
        bench.append(gateway, {0: [b"a"]})
        paths.append(gateway.log.state.manifest.segments()[-1].path)
        bench.append(gateway, {0: [b"b"]})
        bench.clock.pass_ms(3_600_000)
        gateway.committer.commit(DeleteRecords(before={0: 2 * offset + 1}))
        times_ms.append(bench.clock.now_ms())
    gateway.committer.commit(NoteDeletedFiles(before_ms=times_ms[1]))
    version = gateway.log.state.version

    def named(now_ms: int) -> list[str]:
        table = reconcile_log(bench.store, "flights", version, now_ms)
        assert table is not None
        return [path for path in paths if path in removed_paths(table)]

    def named_by_age() -> list[list[str]]:
        return [named(each + since_ms) for each in times_ms[1:] for since_ms in (25 * 3_600_000, 25 * 3_600_000 + 1)]

    assert named(bench.clock.now_ms()) == paths[1:]
    expected = [paths[1:], paths[2:], paths[2:], []]
    assert named_by_age() == expected
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    assert named_by_age() == expected, "by a checkpoint, too"
    gateway.committer.commit(DeleteRecords(before={0: 6}))
    version = gateway.log.state.version
    assert named_by_age()[-1] == [], "and by one that is moved on"
    state = bench.gateway().log.refresh()
    assert state.next_offsets.tolist() == gateway.log.state.next_offsets.tolist()
    assert state.manifest.segments() == gateway.log.state.manifest.segments()


def test_the_newest_of_a_kind_counts(bench: TopicBench) -> None:
    """Of several ``txn`` with one appId, of several metadata, only the newest is kept."""
    head = eventful(bench).log.state.version
    table = reconcile_log(bench.store, "flights", head, bench.clock.now_ms())
    assert table is not None
    names = {name: len(table.column(name).drop_null()) for name in ("protocol", "metaData", "txn")}
    assert (names["protocol"], names["metaData"]) == (1, 1)
    app_ids = [txn["appId"] for txn in table.column("txn").drop_null().to_pylist()]
    assert sorted(app_ids) == sorted(set(app_ids))


def test_the_hint_is_deltas(bench: TopicBench) -> None:
    """``_last_checkpoint`` has the fields that Delta readers look for."""
    gateway = eventful(bench)
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, 0)
    data = bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet"))
    hint = msgspec.json.decode(bench.store.get(bench.key("_last_checkpoint")))
    assert hint == {
        "version": version,
        "size": pq.read_metadata(pa.BufferReader(data)).num_rows,
        "sizeInBytes": len(data),
    }


@pytest.mark.parametrize(
    ("version", "last", "segments", "due"),
    [
        (98, None, 0, False),
        (99, None, 0, True),
        (199, 100, 0, False),
        (200, 100, 0, True),
        (200, 100, 10_000, False),
        (300, 100, 10_000, True),
        (599, 100, 10**7, False),
        (600, 100, 10**7, True),
    ],
)
def test_a_checkpoint_is_due(version: int, last: int | None, segments: int, due: bool) -> None:
    """Every hundred commits; the more segments, the rarer, but at the latest every five hundred."""
    assert (limits.CHECKPOINT_INTERVAL_MIN, limits.CHECKPOINT_INTERVAL_MAX) == (100, 500)
    assert is_checkpoint_due(version, last, segments) == due


def damaged_tables() -> dict[str, pa.Table]:
    metadata = {"id": "x", "schemaString": "{}", "configuration": [("tidelog.partition.count", "1")]}
    add = {"path": "a", "size": 1, "modificationTime": 1, "tags": [("tidelog.runs", "[]")]}

    def table(**columns: Any) -> pa.Table:
        return pa.Table.from_pylist([{name: value} for name, value in columns.items()], schema=SCHEMA)

    return {
        "no metadata": table(txn={"appId": "0", "version": 1}),
        "a segment without tags": table(metaData=metadata, add=add | {"tags": None}),
        "a segment with bad tags": table(metaData=metadata, add=add),
        "a segment without a path": table(metaData=metadata, add=add | {"path": None}),
        "a segment without a size": table(metaData=metadata, add=add | {"size": None}),
        "a txn without a version": table(metaData=metadata, txn={"appId": "0", "version": None}),
        "a txn of no partition": table(metaData=metadata, txn={"appId": "3", "version": 1}),
        "a topic without an id": table(metaData=metadata | {"id": None}),
        "no columns": pa.table({"x": [1]}),
        "columns of another type": pa.table({"txn": [1], "metaData": ["x"]}),
        "fields of another type": pa.table({"metaData": [{"id": "x", "schemaString": "{}", "configuration": 7}]}),
    }


@pytest.mark.parametrize("damage", damaged_tables())
def test_a_damaged_checkpoint_is_found_out(damage: str) -> None:
    """A checkpoint that can't be one raises ``CorruptData``."""
    sink = pa.BufferOutputStream()
    pq.write_table(damaged_tables()[damage], sink)
    with pytest.raises(CorruptData):
        read_checkpoint(sink.getvalue().to_pybytes(), "flights", 3)


@pytest.mark.parametrize("data", [b"", b"PAR1", b"garbage" * 10, b"PAR1" + bytes(100) + b"PAR1"])
def test_bytes_that_are_no_parquet_are_corrupt(data: bytes) -> None:
    """Bytes that are no Parquet raise ``CorruptData`` that names the object."""
    with pytest.raises(CorruptData) as caught:
        decode_checkpoint(data, "topics/flights/", 3)
    assert caught.value.fields["object"] == f"topics/flights/_delta_log/{3:020d}.checkpoint.parquet"


def test_a_cut_checkpoint_is_corrupt(bench: TopicBench) -> None:
    """A checkpoint that was cut short anywhere is found out."""
    gateway = eventful(bench)
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, 0)
    data = bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet"))
    for length in range(0, len(data), 97):
        with pytest.raises(CorruptData):
            read_checkpoint(data[:length], "flights", version)


def test_reconciling_passes_over_foreign_commits() -> None:
    """What another program says of the table is in no checkpoint."""
    data = b'{"commitInfo":{"engineInfo":"other"}}\n{"txn":{"appId":"spark","version":7,"lastUpdated":1}}'
    own, other = decode_commit(data.replace(b"other", b"tidelog/1"), "key"), decode_commit(data, "key")
    for commits, kept in (([own], 1), ([other], 0)):
        table = reconcile(reconcile(SCHEMA.empty_table(), commits, 0), [], 0)
        assert len(table.column("txn").drop_null()) == kept


def test_others_checkpoints_are_read(tmp_path: Path, bench: TopicBench) -> None:
    """A checkpoint that another Delta writer made of the same log gives the same state."""
    store = LocalStore(tmp_path)
    bench.store = FaultyStore(store)
    gateway = eventful(bench)
    deltalake.DeltaTable(f"{tmp_path}/topics/flights").create_checkpoint()
    version = gateway.log.state.version
    key = bench.key(f"{version:020d}.checkpoint.parquet")
    assert facts(read_checkpoint(store.get(key), "flights", version)) == facts(gateway.log.state)
    for older in range(version + 1):
        store.delete(bench.key(f"{older:020d}.json"))
    assert facts(bench.gateway().log.refresh()) == facts(gateway.log.state)


def test_producers_are_known_again_from_a_checkpoint(bench: TopicBench) -> None:
    """What the log says of its producers survives in the bytes of a checkpoint, else a restart would refuse their retries."""
    gateway = bench.create(1)
    producer = producer_id.issue(producer_id.PLAIN, bench.clock.now_ms(), "0" * 20, b"key")
    batch = bench.batch(gateway, {0: [b"stamped"]})
    batch.stamp = ProducerStamp(producer, 0, 0)
    gateway.committer.commit(Append([batch], bench.new_id))
    version = gateway.log.state.version
    write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    state = read_checkpoint(bench.store.get(bench.key(f"{version:020d}.checkpoint.parquet")), "flights", version)
    assert list(state.producers.by_id) == [producer]
    assert state.producers == gateway.log.state.producers
