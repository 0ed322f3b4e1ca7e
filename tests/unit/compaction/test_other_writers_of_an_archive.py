"""deltalake really writes the table of a topic with an archive, whose writer feature somebody took away: nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest

from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.topic_log import TopicLog
from tests.support.archived_topic import ARCHIVED, RECORDS, ArchivedTopic


def rows_of(table: str) -> list[bytes]:
    """Return all values that deltalake sees."""
    rows = deltalake.DeltaTable(table).to_pyarrow_table(columns=["offset", "value"]).sort_by("offset")
    values: list[bytes] = rows.column("value").to_pylist()
    return values


@pytest.mark.parametrize(
    "write",
    [
        lambda table: table.delete("offset < 3"),
        lambda table: table.delete(),
        lambda table: table.optimize.compact(),
        lambda table: table.update({"value": "NULL"}, predicate="offset = 1"),
    ],
    ids=["delete rows of the archive", "delete all", "compact", "update"],
)
@pytest.mark.parametrize("checkpointed", [False, True])
def test_what_got_in_is_put_back(
    tmp_path: Path, write: Callable[[deltalake.DeltaTable], object], checkpointed: bool
) -> None:
    """Whatever deltalake did to the archive, with a checkpoint that believes it: a round of maintenance undoes it, by rows of
    part 2 of our checkpoint; counts, later checkpoints in two parts and a collection go on from there."""
    topic = ArchivedTopic(tmp_path)
    topic.take_guard_away()
    table = deltalake.DeltaTable(topic.table)
    write(table)
    assert rows_of(topic.table) != RECORDS or len(table.file_uris()) < len(RECORDS)
    if checkpointed:
        table.create_checkpoint()
    state = TopicLog(topic.bench.store, "t", topic.bench.clock).refresh()
    assert state.archive.segment_count == ARCHIVED, "nobody believes it meanwhile"
    topic.bench.append((0, b"k", b"v10"))
    topic.upkeep(collect=True)
    assert deltalake.DeltaTable(topic.table).protocol().writer_features == ["tidelog", "tidelog-table"]
    assert rows_of(topic.table) == [*RECORDS, b"v10"], "by commits"
    version = topic.bench.log.state.version
    checkpoint.write_checkpoint(topic.bench.store, "t", version, topic.bench.clock.now_ms())
    assert checkpoint.is_loadable(topic.bench.store, "topics/t/", version)
    assert rows_of(topic.table) == [*RECORDS, b"v10"], "by our checkpoint"
    topic.assert_whole()


def test_a_foreign_checkpoint_of_the_same_version(tmp_path: Path) -> None:
    """deltalake puts a checkpoint of one file, which ours of two parts then lies beside, and takes the hint: gateways load ours,
    the archive is not read as part of the log, and Delta readers see each row once."""
    topic = ArchivedTopic(tmp_path)
    bench = topic.bench
    bench.append((0, b"k", b"more"))
    version = bench.log.state.version
    deltalake.DeltaTable(topic.table).create_checkpoint()
    checkpoint.write_checkpoint(bench.store, "t", version, bench.clock.now_ms())
    keys = {info.key for info in bench.store.list("topics/t/_delta_log/")}
    assert {layout.checkpoint_key("t", version), *layout.table_checkpoint_keys("topics/t/", version)} <= keys
    state = TopicLog(bench.store, "t", bench.clock).refresh()
    assert (state.manifest.segment_count(), state.archive.segment_count) == (3, ARCHIVED)
    assert rows_of(topic.table) == [*RECORDS, b"more"]
    for number in range(2):
        bench.append((0, b"k", b"%d" % number))
    topic.upkeep(collect=True)
    assert rows_of(topic.table) == [*RECORDS, b"more", b"0", b"1"]
    topic.assert_whole()
