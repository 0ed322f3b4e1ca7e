"""``tidelog doctor --repair`` of a topic whose archived files are lost."""

from __future__ import annotations

from pathlib import Path

import deltalake

from log_format import layout
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.repair import repair_topic
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import plain_path
from log_format.inspection.verify import verify_topic
from tests.support.archived_topic import ARCHIVED, RECORDS, ArchivedTopic


def test_lost_files_of_the_archive_leave_the_table(tmp_path: Path) -> None:
    """A dry run names them, the repair takes them from the table and from the archive's counts, and a second one finds nothing.
    The log keeps its records, and Delta readers see all rows that are left."""
    topic = ArchivedTopic(tmp_path)
    bench = topic.bench
    state = bench.log.state
    paths = sorted(map(plain_path, archived_files(bench.store, state, bench.clock.now_ms()).column("path").to_pylist()))
    lost = [*paths[:2], *(segment.path for segment in state.manifest.segments()[:1])]
    for path in lost:
        bench.store.delete(f"{layout.topic_root('t')}{path}")
    found = repair_topic(bench.store, "t", bench.clock, bench.new_id, is_dry_run=True)
    assert (sorted(found.gone), found.version) == (sorted(lost), None)
    assert bench.log.refresh().version == state.version
    repaired = repair_topic(bench.store, "t", bench.clock, bench.new_id)
    assert sorted(repaired.gone) == sorted(lost)
    assert [(gap.start_offset, gap.end_offset) for gap in repaired.gaps] == [(ARCHIVED, ARCHIVED + 1)]
    after = TopicLog(bench.store, "t", bench.clock).refresh()
    assert (after.version, after.archive.segment_count) == (repaired.version, ARCHIVED - 2)
    assert not repair_topic(bench.store, "t", bench.clock, bench.new_id).is_needed
    assert len(deltalake.DeltaTable(topic.table).to_pyarrow_table(columns=["offset"])) == len(RECORDS) - 3
    assert verify_topic(bench.store, "t", clock=bench.clock).problems == ()
