"""A topic is a Delta table: another engine's reader finds at every version just what was appended (G9)."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.stores.local import LocalStore
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench

Row = tuple[int, int, bytes]


def rows(path: Path, version: int | None = None) -> list[Row]:
    """(partition, offset, value) as deltalake reads them."""
    table = deltalake.DeltaTable(str(path), version=version).to_pyarrow_table(columns=["partition", "offset", "value"])
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture
def history(bench: TopicBench, tmp_path: Path) -> list[list[Row]]:
    """A topic in a directory that saw everything; what its table must hold at each version."""
    bench.store = FaultyStore(LocalStore(tmp_path))
    gateway = bench.create(2)
    history: list[list[Row]] = [[]]

    def append(values: dict[int, list[bytes]]) -> None:
        places = bench.append_values(gateway, values)
        new = [(p.partition, p.base_offset + n, value) for p in places for n, value in enumerate(values[p.partition])]
        history.append(history[-1] + new)

    append({0: [b"a", b"b"], 1: [b"c"]})
    append({1: [b"d"]})
    gateway.committer.commit(AlterTopic(partition_count=3, config={"flush.ms": 5}))
    history.append(history[-1])
    append({2: [b"e"], 0: [b"\xff"]})
    # Other readers see records below the log start for as long as their segment holds anything else.
    gateway.committer.commit(DeleteRecords(before={0: 2, 1: 1}))
    history.append([row for row in history[-1] if row[2] not in {b"a", b"b", b"c"}])
    gateway.committer.commit(DeleteTopic())
    history.append([])
    bench.create(1)
    history.append([])
    gateway.log.refresh()
    append({0: [b"new"]})
    return history


@pytest.mark.parametrize("checkpointed_at", [[], [0], [3], [2, 5], [6], [8], list(range(9))])
def test_every_version_opens(
    bench: TopicBench, tmp_path: Path, history: list[list[Row]], checkpointed_at: list[int]
) -> None:
    """At every version the reader finds the records that were in the table then, with checkpoints or without."""
    for version in checkpointed_at:
        write_checkpoint(bench.store, "flights", version, bench.clock.now_ms())
    path = tmp_path / "topics" / "flights"
    assert len(history) == 9
    for version, expected in enumerate(history):
        assert rows(path, version) == sorted(expected), f"version {version}"
    assert deltalake.DeltaTable(str(path)).version() == 8


def test_the_head_opens_without_what_a_checkpoint_covers(
    bench: TopicBench, tmp_path: Path, history: list[list[Row]]
) -> None:
    """After log clean-up the table opens from the checkpoint that was kept."""
    write_checkpoint(bench.store, "flights", 8, bench.clock.now_ms())
    for version in range(8):
        bench.store.delete(bench.key(f"{version:020d}.json"))
    assert rows(tmp_path / "topics" / "flights") == sorted(history[-1])


def test_protocol_schema_and_properties(bench: TopicBench, tmp_path: Path, history: list[list[Row]]) -> None:
    """Protocol 1/7 and one writer feature; the columns of Spark's Kafka source; the topic's id and settings as properties."""
    table = deltalake.DeltaTable(str(tmp_path / "topics" / "flights"), version=4)
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert not protocol.reader_features
    assert protocol.writer_features == ["tidelog"]
    metadata = table.metadata()
    assert (metadata.name, metadata.partition_columns) == ("flights", [])
    assert metadata.configuration["tidelog.flush.ms"] == "5"
    assert [field.name for field in table.schema().fields] == [
        "partition",
        "offset",
        "timestamp",
        "key",
        "value",
        "headers",
    ]


def test_statistics_let_a_reader_skip_segments(bench: TopicBench, tmp_path: Path, history: list[list[Row]]) -> None:
    """Numbers of records and bounds are where Delta readers look for them, and true."""
    actions = deltalake.DeltaTable(str(tmp_path / "topics" / "flights"), version=2).get_add_actions(flatten=True)
    found = {
        (entry["num_records"], entry["min.partition"], entry["max.partition"], entry["min.offset"], entry["max.offset"])
        for entry in pa.table(actions).to_pylist()
    }
    assert found == {(3, 0, 1, 0, 1), (1, 1, 1, 1, 1)}
    assert history


def test_transactions_give_the_next_offsets(bench: TopicBench, tmp_path: Path, history: list[list[Row]]) -> None:
    """Another reader can tell where a partition ends, also from a checkpoint."""
    write_checkpoint(bench.store, "flights", 4, bench.clock.now_ms())
    table = deltalake.DeltaTable(str(tmp_path / "topics" / "flights"), version=4)
    assert [table.transaction_version(str(partition)) for partition in range(3)] == [3, 2, 1]
    assert history
