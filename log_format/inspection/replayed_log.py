"""A topic's log, replayed in two ways that must agree: as gateways do, and as one that writes a checkpoint does.

Memory: the rows of every file of log and archive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import read_archive
from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.actions import Commit
from log_format.delta.checkpoint_schema import SCHEMA, select_actions
from log_format.errors import CorruptData, StoreUnavailable, UnknownTopic
from log_format.inspection.laid_out import LaidOutFiles
from log_format.journal.state import JournalState
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.topic.archive import Archive
from log_format.topic.live_segments import live_segments
from log_format.topic.segment_tags import TAG_FILTERS, decode_filters
from log_format.topic.state import TopicState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedLog:
    """The state at the head and the reconciled log: each segment's runs, statistics and time."""

    state: TopicState
    segments: list[tuple[SegmentRef, list[Run]]]
    """Segments of the log, then those of the archive."""
    laid_out: LaidOutFiles
    """The files of the archive whose records are not in the order of offsets."""
    stats: list[str | None]
    filters: list[KeyFilters | None]
    times_ms: list[int]
    removed: set[str]
    """Paths of tombstones."""
    id_problems: list[str]


def read_logs(store: ObjectStore, topic: str, clock: Clock) -> tuple[ReplayedLog, JournalState]:
    """Return the topic's log, and its journal as it was just before, so that the table has what the journal has dropped.

    Raises the same errors as ``_read_log``.
    """
    journals = JournalLogs(store, clock)
    here = TopicLog(store, topic, clock).refresh().attachment
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        journal = JournalState(journal=-1) if here is None else journals.get(here.journal).refresh()
        log = _read_log(store, topic, clock)
        here = log.state.attachment
        if here is None or here.journal == journal.journal:
            return log, journal
    raise StoreUnavailable(layout.log_prefix(topic), "the topic moves all the time", may_have_happened=False)


def _read_log(store: ObjectStore, topic: str, clock: Clock) -> ReplayedLog:
    """Read the topic's log in two ways. Raises ``CorruptData``, ``UnknownTopic``, ``StoreUnavailable``."""
    log = TopicLog(store, topic, clock)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        state = log.refresh()
        if not state.exists:
            raise UnknownTopic(topic)
        ids: dict[int, str | None] = {}

        def note(version: int, commit: Commit, ids: dict[int, str | None] = ids) -> None:
            if commit.adds or commit.txns:
                ids[version] = commit.commit_id

        table = checkpoint.reconcile_log(store, topic, state.version, clock.now_ms(), seen=note)
        if table is None:
            continue  # the log went on, and a newer checkpoint covers this version
        archive = _archive_table(store, state, clock)
        if archive is None:
            continue
        segments = list(checkpoint.live_segments(table))
        if {segment.path for segment, _ in segments} != {segment.path for segment in log.state.manifest.segments()}:
            raise CorruptData(f"Two ways to replay the log of topic {topic!r} give different segments.", topic=topic)
        archived = list(checkpoint.live_segments(archive))
        counted = Archive(len(archived), sum(segment.size_bytes for segment, _ in archived), state.archive.version)
        if counted != state.archive:
            said = f"Two ways to replay the log of topic {topic!r} give different archives: {state.archive}, {counted}."
            raise CorruptData(said, topic=topic)
        adds = [select_actions(each, "add") for each in (table, archive)]
        return ReplayedLog(
            state=state,
            segments=[*segments, *archived],
            laid_out=LaidOutFiles(live_segments(archive)),
            stats=[text for each in adds for text in pc.struct_field(each, "stats").to_pylist()],
            filters=[
                decode_filters("", tag)
                for each in adds
                for tag in pc.map_lookup(pc.struct_field(each, "tags"), TAG_FILTERS, "first").to_pylist()
            ],
            times_ms=[time for each in adds for time in pc.struct_field(each, "modificationTime").to_pylist()],
            removed=checkpoint.removed_paths(table),
            id_problems=list(_id_problems(ids)),
        )
    raise StoreUnavailable(
        layout.log_prefix(topic), "the log grows faster than it can be read", may_have_happened=False
    )


def _archive_table(store: ObjectStore, state: TopicState, clock: Clock) -> pa.Table | None:
    """Return the rows of the archive; None if a checkpoint of a later version exists."""
    if not state.archive.segment_count:
        return SCHEMA.empty_table()
    take = partial(_whole, SCHEMA.empty_table())
    return read_archive(store, state.topic, state.version, clock.now_ms(), take)


def _whole(empty: pa.Table, pieces: Iterator[pa.Table]) -> pa.Table:
    return pa.concat_tables([empty, *pieces])


def _id_problems(ids: Mapping[int, str | None]) -> Iterator[str]:
    """Yield problems of the ids of commits with segments or offsets."""
    first: dict[str, int] = {}
    for version, commit_id in sorted(ids.items()):
        if commit_id is None:
            yield f"The commit of version {version} has no txnId."
        elif first.setdefault(commit_id, version) != version:
            yield f"The commits of versions {first[commit_id]} and {version} have one txnId."


def listed_paths(store: ObjectStore, topic: str, clock: Clock) -> set[str]:
    """Return the paths of all segments that are in the table now."""
    log = TopicLog(store, topic, clock)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        state = log.refresh()
        archive = _archive_table(store, state, clock)
        if archive is not None:
            archived = (segment.path for segment, _ in checkpoint.live_segments(archive))
            return {*archived, *(segment.path for segment in state.manifest.segments())}
    raise StoreUnavailable(
        layout.log_prefix(topic), "the log grows faster than it can be read", may_have_happened=False
    )
