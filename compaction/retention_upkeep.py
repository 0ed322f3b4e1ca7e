"""The retention of a topic: records leave its log, and rows its table.

By default both happen at once. With ``table.retention.*`` segments below the log starts join the archive first, and leave the
table later. Each commit names a limited number of segments. A checkpoint follows a change of the archive immediately: it contains
all of the archive's rows anew, and gateways leave a large one to maintenance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from compaction.policy import Policy
from compaction.report import Reporter, Totals
from compaction.table_retention import expired_files
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import archived_files, named_adds, read_archive
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import plain_path
from log_format.delta.committer import Committer
from log_format.errors import log_outran_reader
from log_format.store import ObjectStore
from log_format.topic.archiving import ArchivedFile, ArchiveExpired, RemoveArchived
from log_format.topic.retention import ApplyRetention, expired_offsets, needs_retention
from log_format.topic.state import TopicState


class RetentionUpkeep:
    """The retention of one topic. Every call raises ``TidelogError`` or ``StoreError``."""

    def __init__(
        self, store: ObjectStore, log: TopicLog, committer: Committer[TopicState], policy: Policy, report: Reporter
    ) -> None:
        self._store = store
        self._log = log
        self._committer = committer
        self._policy = policy
        self._report = report

    def run(self, totals: Totals, *, is_dry_run: bool) -> None:
        """Let go of what has expired in the log and in the table."""
        before = self._log.state.archive
        if self._log.state.config.table_retention.keeps_archive:
            self._archive(totals, is_dry_run=is_dry_run)
        else:
            self._delete(totals, is_dry_run=is_dry_run)
        self._remove(totals, is_dry_run=is_dry_run)
        state = self._log.state
        if state.archive != before and not is_dry_run:
            checkpoint.write_checkpoint(self._store, state.topic, state.version, self._log.clock.now_ms())
            self._report.event("checkpoint", topic=state.topic, version=state.version)
            totals.checkpoints += 1

    def archived_paths(self, state: TopicState) -> set[str]:
        """Return the paths of all archived files at ``state``. Nothing may be deleted if this raises."""
        files = archived_files(self._store, state, self._log.clock.now_ms())
        return {plain_path(path) for path in files.column("path").to_pylist()}

    def _delete(self, totals: Totals, *, is_dry_run: bool) -> None:
        state = self._log.state
        while state.topic_id is not None and needs_retention(state, self._log.clock.now_ms()):
            if is_dry_run:
                expired = expired_offsets(state, self._log.clock.now_ms())
                count = len(state.manifest.segments_below(expired))
                self._report.event("would expire", topic=state.topic, partitions=len(expired), segments=count)
                return
            committed = self._committer.commit(
                ApplyRetention(topic_id=state.topic_id, removes_max=self._policy.removes_max)
            )
            self._report_log_starts(state.topic, committed.result.log_starts)
            totals.expired_segments += len(committed.result.removed)
            state = committed.state
            if state.config.table_retention.keeps_archive:
                return  # set meanwhile

    def _archive(self, totals: Totals, *, is_dry_run: bool) -> None:
        state = self._log.state
        while state.topic_id is not None and state.config.table_retention.keeps_archive:
            now_ms = self._log.clock.now_ms()
            if not needs_retention(state, now_ms):
                return
            count_max = self._policy.removes_max
            paths = [
                each.path for each in state.manifest.segments_below(expired_offsets(state, now_ms), count_max=count_max)
            ]
            if is_dry_run:
                self._report.event("would archive", topic=state.topic, segments=len(paths))
                return
            table = checkpoint.reconcile_log(self._store, state.topic, state.version, now_ms) if paths else None
            if paths and table is None:
                raise log_outran_reader(state.topic)
            adds = {} if table is None else named_adds([table], paths)
            change = ArchiveExpired(
                topic_id=state.topic_id,
                adds={plain_path(path): add for path, add in adds.items()},
                segments_max=count_max,
            )
            committed = self._committer.commit(change)
            self._report_log_starts(state.topic, committed.result.log_starts)
            if committed.result.archived_count:
                self._report.event("archive", topic=state.topic, segments=committed.result.archived_count)
            totals.archived_segments += committed.result.archived_count
            if not committed.result.archived_count and not committed.result.log_starts:
                return  # merged meanwhile
            state = committed.state

    def _report_log_starts(self, topic: str, log_starts: Mapping[int, int]) -> None:
        for partition, offset in log_starts.items():
            self._report.event("expire", topic=topic, partition=partition, log_start=offset)

    def _remove(self, totals: Totals, *, is_dry_run: bool) -> None:
        state = self._log.state
        expired = self._expired(state)
        if is_dry_run and expired:
            self._report.event("would remove from the archive", topic=state.topic, segments=len(expired))
            return
        for first in range(0, len(expired), self._policy.removes_max):
            change = RemoveArchived(
                topic_id=state.existing_id,
                archive_version=state.archive.version,
                files=expired[first : first + self._policy.removes_max],
            )
            committed = self._committer.commit(change)
            if not committed.result:
                return  # another maintenance has changed the archive: the next round looks again
            self._report.event("remove from the archive", topic=state.topic, segments=len(change.files))
            totals.expired_segments += len(change.files)
            state = committed.state

    def _expired(self, state: TopicState) -> list[ArchivedFile]:
        retention = state.config.table_retention
        is_unlimited = retention.keeps_archive and all(limit in (None, -1) for limit in retention)
        if not state.archive.segment_count or is_unlimited or not state.exists:
            return []
        log_bytes = sum(segment.size_bytes for segment in state.manifest.segments())
        now_ms = self._log.clock.now_ms()

        def take(pieces: Iterator[pa.Table]) -> list[ArchivedFile]:
            return expired_files(pieces, retention, log_bytes=log_bytes, now_ms=now_ms)

        found = read_archive(self._store, state.topic, state.version, now_ms, take)
        if found is None:
            raise log_outran_reader(state.topic)
        return found
