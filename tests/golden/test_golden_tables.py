"""Tables with an archive, an erasure, a pin and a clone stay readable for ever, and releases that know none of them stop there.

``tables/1`` holds two topics as a store has them: ``t``, whose oldest rows have left its log and are in its archive, of which
``anna`` is erased, and a version is pinned; and ``copy``, a clone of that version.
``python -m tests.golden.test_golden_tables`` writes what is missing and never touches what is there. When the format changes, add
a generation beside the old one.
"""

from __future__ import annotations

import io
import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from log_format import layout
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.cloning import TableVersion, clone_topic
from log_format.checkpoints.pinned_versions import keep_version
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.actions import decode_commit
from log_format.delta.features import COLUMNS_FEATURE, FEATURE, TABLE_FEATURE, refuse_protocol
from log_format.errors import UnsupportedTable
from log_format.inspection.verify import verify_topic
from log_format.records.erasing import Matcher, digest_of
from log_format.stores.local import LocalStore
from log_format.topic.erasure_changes import RequestErasure
from log_format.topic.erasures import Erasure
from log_format.topic.pin_changes import CreatePin
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.table_rows import rows_by_log

DIRECTORY = Path(__file__).parent / "tables"
GENERATION = "1"
CLUSTER = {"cluster_id": "golden", "producer_key": "0" * 64}
HOUR_MS = 3_600_000

ARCHIVED = [(0, 0, b"anna", None), (0, 1, b"bo", b"bo-1"), (1, 0, b"anna", None)]
YOUNG = [(0, 2, b"bo", b"young"), (1, 1, b"bo", b"young")]
LAST = [(0, 3, b"anna", b"anna-later"), (1, 2, b"bo", b"last")]
PINNED_VERSION, LAST_VERSION = 6, 8
OLD_FEATURES = frozenset({FEATURE, COLUMNS_FEATURE})
"""What a release before archives, erasures and pins knows."""


def make() -> MaintenanceBench:
    """A store with both topics, made by this release."""
    bench = MaintenanceBench()
    bench.store.put(layout.CLUSTER_KEY, json.dumps(CLUSTER).encode())
    bench.create(2, retention_ms=HOUR_MS, table_retention_ms=-1, deleted_file_retention_count=0)
    bench.append((0, b"anna", b"anna-1"), (0, b"bo", b"bo-1"), (1, b"anna", b"anna-2"))
    wanted = (Matcher(digest_of(bytes.fromhex(CLUSTER["producer_key"]), b"anna")),)
    erasure = Erasure(erasure_id="e1", requested_ms=0, wanted=wanted)
    bench.commit(RequestErasure(topic_id=bench.log.refresh().existing_id, erasure=erasure))
    bench.job().run_round(collect=False)
    bench.clock.pass_ms(2 * HOUR_MS)
    bench.append((0, b"bo", b"young"), (1, b"bo", b"young"))
    bench.job().run_round(collect=True)
    made, _ = bench.commit(CreatePin(name="quarter", expires_at_ms=None, topic_id=bench.log.refresh().existing_id))
    keep_version(bench.store, "t", made.version, bench.clock.now_ms())
    bench.append((0, b"anna", b"anna-later"), (1, b"bo", b"last"))
    clone_topic(
        bench.store, "t", "copy", bench.clock, bench.new_id, config={}, at=TableVersion(pin="quarter"), copies_at_once=1
    )
    return bench


def write_missing() -> list[str]:
    """Write the generation if it is missing; the names of what was written."""
    root, store = DIRECTORY / GENERATION, make().store
    written = [] if root.exists() else [info.key for info in store.list(layout.TOPICS)]
    for key in written:
        (root / key).parent.mkdir(parents=True, exist_ok=True)
        (root / key).write_bytes(store.get(key))
    return written


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A copy of the stored tables."""
    shutil.copytree(DIRECTORY / GENERATION, tmp_path / "store")
    return LocalStore(tmp_path / "store")


def rows_of(store: LocalStore, topic: str, version: int) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Partition, offset, key and value of every row of a version, by deltalake."""
    path = f"{store.uri.removeprefix('file://')}/topics/{topic}"
    table = DeltaTable(path, version=version).to_pyarrow_table()
    columns = (table.column(name).to_pylist() for name in ("partition", "offset", "key", "value"))
    return sorted(zip(*columns, strict=True))


def test_log_and_archive_are_read_as_ever(store: LocalStore) -> None:
    """Offsets, log starts, what the archive counts and has, the request and the pin; the log begins behind the archive."""
    state = TopicLog(store, "t", SystemClock()).refresh()
    assert (state.version, state.next_offsets.tolist(), state.log_starts.tolist()) == (LAST_VERSION, [4, 3], [2, 1])
    files = archived_files(store, state, state.created_at_ms)
    assert state.archive.counts == (2, sum(files.column("size").to_pylist()))
    assert not state.manifest.has_all(files.column("path").to_pylist()[:1])
    (erasure,), (pin,) = state.erasures, state.pins
    assert (erasure.erasure_id, erasure.ends, erasure.record_count, erasure.rewritten_version) == ("e1", (2, 1), 2, 4)
    assert state.erased_ends.tolist() == [2, 1]
    assert (pin.name, pin.version, pin.expires_at_ms) == ("quarter", PINNED_VERSION, None)
    assert sorted(rows_by_log(store, "t", SystemClock())) == sorted([*ARCHIVED, *YOUNG, *LAST])
    for topic in ("t", "copy"):
        assert verify_topic(store, topic, clock=SystemClock()).problems == ()


def test_delta_readers_read_it_as_ever(store: LocalStore) -> None:
    """The newest version, the pinned one without the log around it, and the clone, whose source may be gone."""
    assert rows_of(store, "t", LAST_VERSION) == sorted([*ARCHIVED, *YOUNG, *LAST])
    log = Path(store.uri.removeprefix("file://")) / "topics/t/_delta_log"
    for version in {*range(LAST_VERSION + 1)} - {PINNED_VERSION}:
        (log / f"{version:020d}.json").unlink()
    assert rows_of(store, "t", PINNED_VERSION) == sorted([*ARCHIVED, *YOUNG])
    shutil.rmtree(log.parent)
    assert rows_of(store, "copy", 0) == sorted([*ARCHIVED, *YOUNG])


def test_a_clone_is_read_as_ever(store: LocalStore) -> None:
    """It has the offsets of the pinned version, and rows of the archive below its log starts."""
    state = TopicLog(store, "copy", SystemClock()).refresh()
    assert (state.version, state.next_offsets.tolist(), state.log_starts.tolist()) == (0, [3, 2], [2, 1])
    assert (state.archive.segment_count, state.pins) == (0, ())
    assert [(one.erasure_id, one.is_rewritten) for one in state.erasures] == [("e1", False)]
    assert sorted(rows_by_log(store, "copy", SystemClock())) == sorted([*ARCHIVED, *YOUNG])


def test_a_release_that_knows_no_archive_stops(store: LocalStore) -> None:
    """By its log it stops at the request to erase, and reads all before; by the checkpoint at once. It says what it lacks."""
    for version in range(LAST_VERSION + 1):
        key = layout.table_commit_key(layout.topic_root("t"), version)
        protocol = decode_commit(store.get(key), key).protocol
        if protocol is not None:
            features = protocol.writer_features or ()
            assert (TABLE_FEATURE in features) == (version > 0)
            with nullcontext() if version == 0 else pytest.raises(UnsupportedTable, match=TABLE_FEATURE):
                refuse_protocol(key, protocol.min_reader_version, 7, features, known=OLD_FEATURES)
    part = store.get(layout.table_checkpoint_part_key(layout.topic_root("t"), PINNED_VERSION, 1))
    (protocol_row,) = [row for row in pq.read_table(io.BytesIO(part))["protocol"].to_pylist() if row]
    with pytest.raises(UnsupportedTable, match="later release") as stopped:
        refuse_protocol("c", 1, protocol_row["minWriterVersion"], protocol_row["writerFeatures"], known=OLD_FEATURES)
    assert TABLE_FEATURE in str(stopped.value)


if __name__ == "__main__":
    print("\n".join(write_missing()))
