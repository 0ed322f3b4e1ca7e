"""Other programs at a topic's table: they refuse it; and where one writes it all the same, the topic goes on and is put back."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compaction.policy import Policy
from compaction.report import LogReporter, Totals
from compaction.topic_upkeep import TopicUpkeep
from compaction.workers import LocalWorkers
from log_format import layout, limits
from log_format.checkpoints.checkpoint import last_checkpoint_version, write_checkpoint
from log_format.checkpoints.restore_table import RestoreTable, needs_restore
from log_format.delta.actions import PROTOCOL
from log_format.errors import ErrorCode
from log_format.inspection.verify import verify_topic
from log_format.stores.local import LocalStore
from log_format.topic.changes import DeleteTopic
from tests.support.clocks import EPOCH_MS
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench, TopicUser

OTHERS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "removes a segment": lambda path: [{"remove": {"path": path, "dataChange": True}}],
    "replaces it": lambda path: [
        {"remove": {"path": path, "dataChange": False}},
        {"add": {"path": "part-0.parquet", "size": 1, "modificationTime": 1, "dataChange": False}},
    ],
    "adds a file": lambda _: [
        {"add": {"path": "part-0.parquet", "size": 1, "modificationTime": 1, "dataChange": True}}
    ],
    "names one otherwise": lambda path: [{"add": {"path": path, "size": 1, "modificationTime": 1, "dataChange": True}}],
    "hides rows": lambda path: [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}},
        {"remove": {"path": path, "dataChange": True}},
        {"add": {"path": path, "size": 1, "modificationTime": 1, "dataChange": True, "deletionVector": {}}},
    ],
    "makes another table": lambda _: [{"metaData": {"id": "another", "schemaString": "{}", "configuration": {}}}],
    "maps columns": lambda _: [{"metaData": {"id": "1", "configuration": {"delta.columnMapping.mode": "name"}}}],
    "counts as a topic's own": lambda _: [{"txn": {"appId": "0", "version": 99}}],
    "has what nobody knows": lambda _: [{"add": {"path": "x", "size": "large"}}],
}


def of_an_earlier_release(bench: TopicBench) -> TopicUser:
    """A topic whose table was made with protocol 1/2."""
    bench.create(1)
    key = layout.commit_key(bench.name, 0)
    now, earlier = msgspec.json.encode(PROTOCOL), b'{"minReaderVersion":1,"minWriterVersion":2}'
    made = bench.store.get(key)
    assert now in made
    bench.store.put(key, made.replace(now, earlier))
    gateway = bench.gateway()
    gateway.log.refresh()
    return gateway


def write_otherwise(bench: TopicBench, gateway: TopicUser, what: str) -> None:
    """Another program commits at the head."""
    path = gateway.log.state.manifest.segments()[0].path
    lines = [{"commitInfo": {"engineInfo": "Else/1", "operation": "DELETE", "timestamp": 5}}, *OTHERS[what](path)]
    key = layout.commit_key(bench.name, gateway.log.state.version + 1)
    bench.store.put_if_absent(key, b"\n".join(map(msgspec.json.encode, lines)))


def put_back(bench: TopicBench, gateway: TopicUser, **options: int) -> int:
    """As maintenance does. How many commits it took."""
    change, count = RestoreTable(bench.store, bench.name, **options), 0
    while needs_restore(gateway.log.state):
        change.look(gateway.log.state, bench.clock.now_ms())
        count += gateway.committer.commit(change).attempts
    return count


def facts(user: TopicUser) -> dict[str, Any]:
    """What a topic is, for its readers and writers."""
    state = user.log.state
    runs = [state.manifest.runs(partition) for partition in range(state.partition_count)]
    offsets = state.next_offsets.tolist(), state.log_starts.tolist()
    return {"id": state.topic_id, "runs": runs, "offsets": offsets, "config": dict(state.config.effective())}


@pytest.mark.parametrize("what", OTHERS)
def test_a_topic_goes_on_and_is_put_back(bench: TopicBench, what: str) -> None:
    """No reader believes it, old or new, before and after it is put back, and from a checkpoint; ``describe`` names it."""
    gateway, old = bench.create(1), bench.gateway()
    bench.append(gateway, {0: [b"a"]})
    before = facts(gateway)
    old.log.refresh()
    write_otherwise(bench, gateway, what)
    for one in (gateway, old, bench.gateway()):
        one.log.refresh()
        assert facts(one) == before
    told = gateway.log.state.foreign.last
    assert told is not None
    assert str(told) == "version 2: DELETE by Else/1"
    bench.append(gateway, {0: [b"b"]})
    before = facts(gateway)
    is_harmless = what == "counts as a topic's own"
    assert put_back(bench, gateway) == (not is_harmless)
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, bench.clock.now_ms())
    for one in (gateway, old, bench.gateway()):
        one.log.refresh()
        assert facts(one) == before
        assert one.log.state.foreign.is_reverted
        assert is_harmless or one.log.state.foreign.last == told
    assert verify_topic(bench.store, bench.name, clock=bench.clock).ok


def test_many_files_are_put_back_in_some_commits(bench: TopicBench) -> None:
    """Each names a bounded number. Meanwhile no checkpoint is written: whoever loaded from it would not know of the rest."""
    gateway = bench.create(1)
    for value in (b"a", b"b", b"c"):
        bench.append(gateway, {0: [value]})
    before = facts(gateway)
    paths = [segment.path for segment in gateway.log.state.manifest.segments()]
    removed = b"\n".join(msgspec.json.encode({"remove": {"path": path}}) for path in paths)
    bench.store.put_if_absent(layout.commit_key(bench.name, gateway.log.state.version + 1), removed)
    gateway.log.refresh()
    change = RestoreTable(bench.store, bench.name, files_max=2)
    change.look(gateway.log.state, 0)
    assert gateway.committer.commit(change).result == 2
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, 0)
    assert last_checkpoint_version(bench.store, bench.name) is None
    assert put_back(bench, gateway, files_max=2) == 1
    write_checkpoint(bench.store, bench.name, gateway.log.state.version, 0)
    assert last_checkpoint_version(bench.store, bench.name) == gateway.log.state.version
    reader = bench.gateway()
    reader.log.refresh()
    assert facts(reader) == facts(gateway) == before


def test_what_a_deleted_topic_was_given_goes(bench: TopicBench) -> None:
    """Its log goes on, and a topic made anew has nothing of another program's files."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    write_otherwise(bench, gateway, "adds a file")
    gateway.committer.commit(DeleteTopic())
    assert put_back(bench, gateway) == 1
    assert bench.create(1, topic_id="anew").log.state.foreign.touched == frozenset()


@pytest.fixture
def on_disk(bench: TopicBench, tmp_path: Path) -> str:
    """The path of the topic's table: the bench keeps it in a directory."""
    bench.store = FaultyStore(LocalStore(tmp_path))
    return str(tmp_path / "topics" / bench.name)


def values(path: str) -> list[bytes]:
    """What a reader of Delta sees."""
    table = deltalake.DeltaTable(path).to_pyarrow_table(columns=["offset", "value"])
    return [bytes(value) for value in table.sort_by("offset").column("value").to_pylist()]


def test_delta_rs_reads_and_refuses_to_write(bench: TopicBench, on_disk: str) -> None:
    """Rows, files, versions and history as of any table; nothing that changes it."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a", b"b"]})
    delayed = Path(on_disk) / "scheduled/1/objects/a.parquet"
    delayed.parent.mkdir(parents=True)
    delayed.write_bytes(b"delayed records, and no commit names them")
    table = deltalake.DeltaTable(on_disk)
    assert values(on_disk) == [b"a", b"b"]
    assert (table.version(), len(table.file_uris()), len(table.history())) == (1, 1, 2)
    rows = table.to_pyarrow_table()
    for write in (
        lambda: deltalake.write_deltalake(on_disk, rows, mode="append"),
        lambda: deltalake.write_deltalake(on_disk, rows, mode="overwrite"),
        lambda: table.delete("offset = 0"),
        table.delete,
        lambda: table.update({"value": "NULL"}),
        table.optimize.compact,
        lambda: table.optimize.z_order(["offset"]),
        lambda: table.alter.set_table_properties({"delta.appendOnly": "true"}),
        lambda: table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True),
    ):
        with pytest.raises(Exception, match=r"(?i)feature"):
            write()
    assert gateway.log.refresh().version == 1
    assert delayed.exists()


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.delete("offset = 1"),
        lambda table: table.delete(),
        lambda table: table.optimize.compact(),
        lambda table: table.update({"value": "NULL"}),
        lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}),
        lambda table: table.alter.add_feature(
            deltalake.TableFeatures.DeletionVectors, allow_protocol_versions_increase=True
        ),
    ],
)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_table_of_an_earlier_release_that_delta_rs_wrote(
    bench: TopicBench, on_disk: str, write: Callable[[Any], None], checkpointed: bool
) -> None:
    """Such a table takes the write, perhaps with a checkpoint that believes it. A round of maintenance undoes and guards it."""
    gateway = of_an_earlier_release(bench)
    bench.append(gateway, {0: [b"a", b"b"]})
    bench.append(gateway, {0: [b"c"]})
    before, table = facts(gateway), deltalake.DeltaTable(on_disk)
    write(table)
    assert deltalake.DeltaTable(on_disk).version() == 3
    if checkpointed:
        deltalake.DeltaTable(on_disk).create_checkpoint()
    reader = bench.gateway()
    reader.log.refresh()
    assert facts(reader) == before
    upkeep(bench).run(Totals(), collect=True)
    reader.log.refresh()
    assert facts(reader) == before
    assert (reader.log.state.foreign.is_reverted, reader.log.state.is_guarded) == (True, True)
    table.update_incremental()
    for seen in (values(on_disk), _sorted(table.to_pyarrow_table())):
        assert seen == [b"a", b"b", b"c"]
    assert deltalake.DeltaTable(on_disk).protocol().writer_features == ["tidelog"]
    assert verify_topic(bench.store, bench.name, clock=bench.clock).ok


def _sorted(rows: pa.Table) -> list[bytes]:
    return [bytes(value) for value in rows.take(pc.sort_indices(rows.column("offset"))).column("value").to_pylist()]


def upkeep(bench: TopicBench) -> TopicUpkeep:
    """Maintenance of the topic."""
    return TopicUpkeep(
        bench.store,
        bench.name,
        LocalWorkers(bench.store),
        clock=bench.clock,
        new_id=bench.new_id,
        policy=Policy(),
        report=LogReporter(),
    )


def test_a_table_of_an_earlier_release_is_guarded_by_maintenance(bench: TopicBench) -> None:
    """By one commit, once."""
    gateway = of_an_earlier_release(bench)
    for _ in range(2):
        assert gateway.log.refresh().is_guarded == (gateway.log.state.version == 1)
        upkeep(bench).run(Totals(), collect=False)
    assert (gateway.log.refresh().version, gateway.log.state.is_guarded) == (1, True)
    write_checkpoint(bench.store, bench.name, 1, 0)
    assert bench.gateway().log.refresh().is_guarded


def test_a_checkpoint_of_another_program_is_passed_over(bench: TopicBench, on_disk: str) -> None:
    """It lacks what the topic remembers of producers. It counts only where the log's beginning is gone without one of ours."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a"]})
    write_checkpoint(bench.store, bench.name, 1, 0)
    bench.append(gateway, {0: [b"b"]})
    deltalake.DeltaTable(on_disk).create_checkpoint()
    read = bench.gateway()
    bench.store.requests.clear()
    read.log.refresh()
    assert ("get", layout.table_checkpoint_key(f"topics/{bench.name}/", 1)) in bench.store.requests
    assert facts(read) == facts(gateway)
    write_checkpoint(bench.store, bench.name, 2, 0)
    bench.append(gateway, {0: [b"c"]})
    write_checkpoint(bench.store, bench.name, 3, 0)
    assert last_checkpoint_version(bench.store, bench.name) == 3
    read.log.reload()
    assert facts(read) == facts(gateway)


@pytest.mark.parametrize("damage", ["foreign", "garbled", "cut"])
def test_no_log_is_cleaned_for_a_checkpoint_that_is_not_loaded_from(
    bench: TopicBench, on_disk: str, damage: str
) -> None:
    """Another program's, or a damaged one, is no reason to delete the commits that say the same: the topic loads with all."""
    gateway = bench.create(1, deleted_file_retention_ms=0)
    bench.append(gateway, {0: [b"a"]})
    if damage == "foreign":
        deltalake.DeltaTable(on_disk).create_checkpoint()
    else:
        write_checkpoint(bench.store, bench.name, 1, 0)
        place = Path(on_disk, "_delta_log", f"{1:020d}.checkpoint.parquet")
        data = place.read_bytes()
        in_page = 64
        place.write_bytes(data[:-9] if damage == "cut" else data[:in_page] + b"\xff" * 40 + data[in_page + 40 :])
    bench.append(gateway, {0: [b"b"]})
    for place in Path(on_disk, "_delta_log").iterdir():
        os.utime(place, (EPOCH_MS / 1000, EPOCH_MS / 1000))
    bench.clock.pass_ms(10 * limits.LOG_KEPT_MS_MIN)
    upkeep(bench).run(Totals(), collect=True)
    assert Path(on_disk, "_delta_log", f"{0:020d}.json").exists()
    reader = bench.gateway()
    for user in reader, gateway:
        user.log.refresh()
    assert facts(reader) == facts(gateway)


def test_what_is_no_commit_at_all_is_damage(bench: TopicBench) -> None:
    """Bytes that are no Delta commit say neither who wrote them nor what they touched."""
    gateway = bench.create(1)
    bench.store.put_if_absent(layout.commit_key(bench.name, 1), b"")
    report = verify_topic(bench.store, bench.name, clock=bench.clock)
    assert not report.ok
    with pytest.raises(Exception, match="is empty") as refused:
        gateway.log.refresh()
    assert refused.value.code is ErrorCode.CORRUPT_SEGMENT  # type: ignore[attr-defined]
