"""A topic with an archive in a directory, where other programs find its table."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from compaction.policy import Policy
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.inspection.verify import verify_topic
from log_format.stores.local import LocalStore
from tests.support.maintenance_bench import MaintenanceBench

HOUR: Final = 3_600_000
ARCHIVES: Final = Policy(flushed_min=1_000, sources_max=1_000, idle_ms=10**12)
RECORDS: Final = [b"v%d" % number for number in range(10)]
ARCHIVED: Final = 8
_UNGUARDED: Final = (
    b'{"commitInfo":{"engineInfo":"Else/1","operation":"DROP FEATURE"}}\n'
    b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
)


class ArchivedTopic:
    """Topic ``t`` of ``RECORDS``, one in each segment; the first ``ARCHIVED`` have left the log."""

    def __init__(self, directory: Path) -> None:
        self.table = str(directory / "topics/t")
        self.bench = MaintenanceBench(make_store=lambda **_: LocalStore(directory))  # type: ignore[arg-type]
        self.bench.create(1, retention_ms=HOUR, table_retention_ms=-1)
        for value in RECORDS[:ARCHIVED]:
            self.bench.append((0, b"k", value))
        self.bench.clock.pass_ms(2 * HOUR)
        for value in RECORDS[ARCHIVED:]:
            self.bench.append((0, b"k", value))
        self.upkeep()
        assert self.bench.log.state.archive.segment_count == ARCHIVED

    def take_guard_away(self) -> None:
        """Commit as another program does that takes the writer features from the table."""
        self.bench.store.put(layout.commit_key("t", self.bench.log.refresh().version + 1), _UNGUARDED)

    def upkeep(self, *, collect: bool = False) -> None:
        """Do a round of maintenance."""
        assert self.bench.job(ARCHIVES).run_round(collect=collect).failed_topics == 0, self.bench.report.events
        self.bench.log.refresh()

    def assert_whole(self) -> None:
        """Check that gateways, old and new, know the archive as it was, and that verification finds nothing."""
        for state in (TopicLog(self.bench.store, "t", self.bench.clock).refresh(), self.bench.log.refresh()):
            assert (state.archive.segment_count, state.log_start(0)) == (ARCHIVED, ARCHIVED)
            assert (state.foreign.is_reverted, state.is_guarded, state.has_table_feature) == (True, True, True)
        assert verify_topic(self.bench.store, "t", clock=self.bench.clock).problems == ()
