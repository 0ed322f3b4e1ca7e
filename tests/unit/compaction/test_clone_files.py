"""The bytes of a clone: what the source's table has, too, what only the clone keeps, and what is its own."""

from __future__ import annotations

import pytest

from log_format import layout
from log_format.checkpoints.clone_files import CloneBytes, clone_bytes, table_files
from log_format.checkpoints.cloning import clone_topic
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic, DeleteRecords
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.records import batch_of

HOUR_MS = 3_600_000


@pytest.fixture
def bench() -> MaintenanceBench:
    """A topic whose older flushes are in its archive, with one in its log, and a clone ``copy``."""
    bench = MaintenanceBench()
    bench.create(1, retention_ms=-1, table_retention_ms=-1)
    for number in range(3):
        bench.append((0, b"k", b"%d" % number))
    bench.commit(DeleteRecords(before={0: 2}))
    assert bench.job().run_round(collect=False).failed_topics == 0
    assert bench.log.refresh().archive.segment_count > 0
    clone_topic(bench.store, "t", "copy", bench.clock, bench.new_id, config={})
    return bench


def bytes_of(bench: MaintenanceBench) -> CloneBytes:
    """As a gateway finds them."""
    source, copy = (TopicLog(bench.store, topic, bench.clock).refresh() for topic in ("t", "copy"))
    now_ms = bench.clock.now_ms()
    found = clone_bytes(bench.store, [path for path, _ in table_files(bench.store, source, now_ms)], copy, now_ms)
    stored = [
        bench.store.head(f"{layout.topic_root('copy')}{path}") for path, _ in table_files(bench.store, copy, now_ms)
    ]
    assert found.total == sum(info.size_bytes for info in stored)
    return found


def test_a_new_clone_has_what_the_source_has(bench: MaintenanceBench) -> None:
    """Of log and archive all bytes, wherever the clone's maintenance puts them: it archives the same files again."""
    source_bytes = sum(
        size_bytes for _, size_bytes in table_files(bench.store, bench.log.refresh(), bench.clock.now_ms())
    )
    for _ in range(2):
        assert bytes_of(bench) == CloneBytes(also_in_source=source_bytes, only_in_clone=0, own=0)
        assert bench.job().run_round(collect=True).failed_topics == 0


def test_what_the_source_removes_only_the_clone_keeps(bench: MaintenanceBench) -> None:
    """Once the source's rows leave its table. What is appended to the source does not count; what is appended to the clone is its
    own, as are records that its maintenance rewrites."""
    before = bytes_of(bench)
    bench.append((0, b"k", b"later"))
    assert bytes_of(bench) == before
    log = TopicLog(bench.store, "copy", bench.clock)
    batch = batch_of(log.refresh().existing_id, [b"own"], [0], timestamps_ms=bench.clock.now_ms())
    Committer(log, new_id=bench.new_id).commit(Append([batch], bench.new_id))
    found = bytes_of(bench)
    assert (found.also_in_source, found.only_in_clone) == (before.also_in_source, 0)
    assert found.own > 0
    _, archived_bytes = bench.log.refresh().archive.counts
    bench.commit(AlterTopic(partition_count=None, config={"table.retention.ms": "0"}))
    bench.clock.pass_ms(HOUR_MS)
    assert bench.job().run_round(collect=False).failed_topics == 0
    assert bench.log.refresh().archive.segment_count == 0
    after = bytes_of(bench)
    assert after == CloneBytes(also_in_source=0, only_in_clone=archived_bytes, own=after.own)
    assert after.own > 0
