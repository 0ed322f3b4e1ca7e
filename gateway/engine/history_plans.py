"""Plans of history: which segments hold a partition's records from an offset on, for clients that read segments themselves and
for this gateway's readers of history.

A plan costs the gateway no read of the store, so readers of history leave its cores and its memory to the tail and to
producers. The list of a table's newest commits costs a GET for each commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.engine.bounds import COLD_RUNS_PER_READ_MAX
from gateway.engine.pool import Pool
from gateway.engine.start_resolver import ReadPosition
from log_format.clock import Clock
from log_format.delta.commit_summary import CommitSummary, summarize_commit
from log_format.errors import BackOff, ObjectMissing, ObjectTooLarge, StoreUnavailable
from log_format.layout import table_commit_key, topic_root
from log_format.manifest.manifest import LocatedRun
from log_format.store import ObjectStore, SignsReads
from log_format.topic.state import TopicState

PLANNED_SEGMENTS_MAX: Final = 200
"""Number of segments in one plan: each URL takes a third of a millisecond to sign."""
OLD_BYTES_MIN: Final = 128 * 1024
OLD_RECORDS_MIN: Final = 1_000
"""Least stored bytes, or records, for which a read is given to another process."""
FAR_BYTES_MIN: Final = 4 * 1024 * 1024
FAR_RECORDS_MIN: Final = 10_000
"""Least stored bytes or records still to read for which a process is started: starting takes a second of CPU."""
_ALL_BYTES: Final = 1 << 62
PLAN_VALID_S: Final = 300
"""Seconds for which a plan is valid: well below the time for which maintenance keeps a segment that it has replaced."""

COMMIT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes up to which a commit is summed up; for a larger commit only its version is told."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """Offsets ``[start_offset, end_offset)`` of the partition in one segment. ``stored_bytes`` and ``newest_ms`` describe the
    whole run."""

    run: LocatedRun
    start_offset: int
    end_offset: int
    stored_bytes: int
    newest_ms: int
    key: str
    url: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Runs that hold every record of ``[start, next_offset)``; gaps between the runs come from key compaction."""

    topic_id: str
    log_start_offset: int
    high_watermark: int
    next_offset: int
    valid_until_ms: int
    runs: tuple[PlannedRun, ...]


def old_runs(state: TopicState, partition: int, offset: int, bytes_max: int) -> list[LocatedRun]:
    """Return the runs of segments from ``offset`` on, without gaps: as many as have ``bytes_max`` stored bytes, and one more.

    Return nothing if the next record is only in a journal, or if the runs have few bytes and records.
    """
    found: list[LocatedRun] = []
    start, end, total_bytes = offset, state.high_watermark(partition), 0
    runs = state.manifest.runs_from(partition, offset, count_max=COLD_RUNS_PER_READ_MAX, bytes_max=_ALL_BYTES)
    for run, size_bytes in runs:
        if run.journal is not None or not run.base_offset <= offset < end:
            break
        found.append(run)
        offset = run.end_offset
        total_bytes += size_bytes
        if len(found) > 1 and total_bytes >= bytes_max:  # Only some of the first run may be wanted.
            break
    return found if total_bytes >= OLD_BYTES_MIN or offset - start >= OLD_RECORDS_MIN else []


def is_far_behind(state: TopicState, partition: int, offset: int) -> bool:
    """Return whether the table has much from ``offset`` on, by the records up to the end or by the next runs' stored bytes."""
    runs = state.manifest.runs_from(partition, offset, count_max=COLD_RUNS_PER_READ_MAX, bytes_max=_ALL_BYTES)
    is_long = bool(runs) and state.high_watermark(partition) - offset >= FAR_RECORDS_MIN
    return is_long or sum(size_bytes for _, size_bytes in runs) >= FAR_BYTES_MIN


class HistoryPlans:
    """Plans of history. Used on the event loop only; URLs are signed in ``pool``."""

    def __init__(self, store: ObjectStore, *, pool: Pool, clock: Clock) -> None:
        self._store = store
        self._pool = pool
        self._clock = clock

    async def plan(self, start: ReadPosition, bytes_max: int) -> Plan:
        """Return a plan of up to ``bytes_max`` stored bytes, with at least one segment if the table has one. The plan ends before
        records that only a journal has.

        Raises ``OffsetOutOfRange``, ``UnknownTopic``, ``BackOff``, and ``CorruptData`` if the table lost records.
        """
        state, partition = start.state(), start.partition
        found = state.manifest.runs_from(partition, start.offset, count_max=PLANNED_SEGMENTS_MAX, bytes_max=bytes_max)
        # The manifest is shared with newer states, so the log start may have moved since; then this call raises.
        state = start.state()
        end = state.high_watermark(partition)
        runs = [(run, size) for run, size in found if run.base_offset < end]
        behind = start.offset
        for run, _ in runs:
            state.check_gap(partition, behind, run.base_offset)
            behind = run.end_offset
        now_ms = self._clock.now_ms()
        keys = [f"{topic_root(start.topic.name)}{run.segment.path}" for run, _ in runs]
        planned = tuple(
            PlannedRun(
                run,
                max(start.offset, run.base_offset),
                min(run.end_offset, end),
                size,
                state.manifest.newest_timestamp_ms(partition, run.base_offset) or 0,
                key,
                url,
            )
            for (run, size), key, url in zip(runs, keys, await self._urls(keys), strict=True)
        )
        return Plan(
            topic_id=start.topic_id,
            log_start_offset=state.log_start(partition),
            high_watermark=end,
            next_offset=planned[-1].end_offset if planned else start.offset,
            valid_until_ms=now_ms + PLAN_VALID_S * 1000,
            runs=planned,
        )

    async def commits(self, state: TopicState, before: int, count_max: int) -> list[tuple[int, CommitSummary]]:
        """Return up to ``count_max`` of this topic's commits below version ``before``, newest first, with their versions.
        Clean-up may have deleted older commits.

        Raises ``BackOff``.
        """

        def summed_up() -> list[tuple[int, CommitSummary]]:
            root, found = topic_root(state.topic), list[tuple[int, CommitSummary]]()
            for version in range(min(before, state.version + 1) - 1, -1, -1)[:count_max]:
                try:
                    one = summarize_commit(self._store.get(table_commit_key(root, version), bytes_max=COMMIT_BYTES_MAX))
                except ObjectTooLarge:
                    one = CommitSummary()
                except ObjectMissing:
                    break
                if one.table_id not in (None, state.topic_id):  # Of a topic that had the name before.
                    break
                found.append((version, one))
            return found

        try:
            return await self._pool.run(summed_up)
        except StoreUnavailable as problem:
            raise BackOff("The store does not answer.") from problem

    async def _urls(self, keys: list[str]) -> list[str | None]:
        store = self._store
        if not isinstance(store, SignsReads):
            return [None] * len(keys)
        try:
            return await self._pool.run(lambda: [store.read_url(key, PLAN_VALID_S) for key in keys])
        except StoreUnavailable as problem:
            raise BackOff(f"The store does not sign URLs: {problem.detail}.") from problem
