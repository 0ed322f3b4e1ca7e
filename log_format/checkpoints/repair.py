"""Repairing a topic with a damaged log, or with missing segments: ``tidelog doctor --repair``.

What is lost stays lost, so first restore the objects from a backup if there is one. A repair makes the rest readable, writable
and deletable. It is a commit at the end of the log, and a checkpoint of that version. The commit alone can't be replayed
(``TAG_REPAIRED``), so every reader begins at the checkpoint, and all agree. A repair that was interrupted is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from log_format import layout, limits
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.checkpoint import advance_checkpoint, is_loadable, put_checkpoint
from log_format.checkpoints.journal_log import JournalLogs, list_journals
from log_format.checkpoints.salvage import Gap, SalvagedState, read_parts
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.actions import (
    Action,
    CommitInfo,
    MetaData,
    Txn,
    as_decoded_commit,
    decode_commit,
    encode_commit,
    plain_path,
)
from log_format.delta.change import Proposal
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import BackOff, CorruptData, ObjectExists, UnknownTopic, UnsupportedTable
from log_format.ids import NewId
from log_format.journal.entries import Close
from log_format.journal.notes import JournalNotes
from log_format.journal.state import JournalState
from log_format.store import ObjectStore, read_bounded
from log_format.topic.archiving import ArchivedFile, RemoveArchived
from log_format.topic.attachment import NO_MOVE, Attachment, TopicMove, parse_attachment, parse_last_move
from log_format.topic.changes import moved_metadata
from log_format.topic.config import TopicConfig
from log_format.topic.erasures import parse_erasures
from log_format.topic.partition_offsets import KEYS_COMPACTED_APP_ID, LOG_START_APP_ID
from log_format.topic.pins import Pin, parse_pins
from log_format.topic.segment_tags import TAG_FORGOTTEN, remove_segment
from log_format.topic.state import DELETED_PROPERTY, PARTITION_COUNT_PROPERTY, TAG_REPAIRED, TopicState
from log_format.topic.table_columns import parse_typed_columns, protocol_of
from log_format.version import __version__

_ENGINE: Final = "tidelog-repair"
_CLOCKS_DIFFER_MS_MAX: Final = 60_000
"""Clock difference allowed for: a producer's id may have been issued this much later than a lost commit that used it."""
_NO_SETTINGS: Final = {"retention.ms": -1}
"""Settings of a topic whose own are lost: nothing may expire before somebody has looked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """The report of a repair: what was found and, except in a dry run, repaired. Nothing is damaged if ``is_needed`` is false."""

    topic: str
    exists: bool
    """Whether the topic exists after the repair; also False if the readable log ends with the topic's deletion."""
    lost: tuple[str, ...] = ()
    """Keys of missing or damaged objects of the log; only the first if there are very many."""
    gone: tuple[str, ...] = ()
    """Segments that the log names and the store does not have, those of the archive last."""
    gaps: tuple[Gap, ...] = ()
    """Offsets without records now, from the log starts on."""
    is_made_anew: bool = False
    """Whether the topic has another id, so that all its readers begin at its start."""
    has_settings: bool = True
    """Whether the topic's settings are known. Otherwise it keeps all records until they are set again."""
    version: int | None = None
    """Version of the commit; None if nothing was committed."""
    producers_from_ms: int = 0
    """Issue time (ms since the epoch) up to which unknown producer ids are refused. 0: none, or up to a minute after
    the repair."""

    @property
    def is_needed(self) -> bool:
        """Whether anything is lost."""
        return bool(self.lost or self.gone)


def repair_topic(
    store: ObjectStore,
    topic: str,
    clock: Clock,
    new_id: NewId,
    *,
    looks_at_files: bool = True,
    is_dry_run: bool = False,
) -> Repair:
    """Repair a topic. May run concurrently with gateways and other repairs.

    Args:
        store: where the topic is.
        topic: its name.
        clock: source of time.
        new_id: source of unique ids.
        looks_at_files: also remove segments whose objects are gone, found by one listing.
        is_dry_run: only report.

    Raises ``UnknownTopic`` without a log, ``UnsupportedTable`` if a later release wrote it, ``CorruptData`` if a journal is
    damaged, ``BackOff`` if others commit all the time. After ``StoreUnavailable`` run it again.
    """
    for _ in range(limits.COMMIT_ATTEMPTS_MAX):
        log = TopicLog(store, topic, clock)
        try:
            state = log.refresh()
        except UnsupportedTable:
            raise
        except CorruptData:
            made = _Plan(store, topic, clock, new_id, looks_at_files=looks_at_files)
            if is_dry_run or made.commit():
                return made.repair
            continue
        if state.version < 0:
            raise UnknownTopic(topic)
        if not state.exists or not looks_at_files:
            return Repair(topic=topic, exists=state.exists)
        repair = _without_lost_segments(store, log, new_id, is_dry_run=is_dry_run)
        archived = _without_lost_archive(store, log, new_id, is_dry_run=is_dry_run)
        version = log.state.version if archived and not is_dry_run else repair.version
        return replace(repair, gone=(*repair.gone, *archived), version=version)
    raise BackOff(f"Other writers keep committing to topic {topic!r}: it was not repaired.", topic=topic)


def stored_paths(store: ObjectStore, topic: str) -> set[str]:
    """Return the paths of the topic's stored data files, relative to its root. Raises ``StoreUnavailable``."""
    root = layout.topic_root(topic)
    return {
        info.key.removeprefix(root)
        for below in (layout.SEGMENTS, layout.COMPACTED)
        for info in store.list(f"{root}{below}")
    }


class RemoveLostSegments:
    """A change that removes segments whose objects are gone from a topic. The result is the gaps that they leave."""

    def __init__(self, topic_id: str, paths: Collection[str]) -> None:
        self._topic_id = topic_id
        self._paths = frozenset(paths)

    def propose(self, state: TopicState, now_ms: int) -> Proposal[tuple[Gap, ...]]:
        """Propose removes, and the offsets below which gaps may be. No actions for another incarnation. Never raises."""
        if state.topic_id != self._topic_id:
            return Proposal(operation="REPAIR", actions=(), result=())
        segments = [segment for segment in state.manifest.segments() if segment.path in self._paths]
        removes = [remove_segment(segment, deletion_timestamp_ms=now_ms, data_change=True) for segment in segments]
        gaps = [
            Gap(partition, max(run.base_offset, state.log_start(partition)), run.end_offset)
            for partition in range(state.partition_count)
            for run in state.manifest.runs(partition)
            if run.segment.path in self._paths
        ]
        ends: dict[int, int] = {}
        for gap in gaps:
            if gap.end_offset > state.keys_compacted[gap.partition]:
                ends[gap.partition] = gap.end_offset
        txns = [
            Txn(app_id=f"{KEYS_COMPACTED_APP_ID}{partition}", version=end, last_updated=now_ms)
            for partition, end in ends.items()
        ]
        return Proposal(operation="REPAIR", actions=[*removes, *txns], result=tuple(gaps))


def _without_lost_segments(store: ObjectStore, log: TopicLog, new_id: NewId, *, is_dry_run: bool) -> Repair:
    state = log.state
    listed = {segment.path for segment in state.manifest.segments()}
    gone = sorted(listed - stored_paths(store, log.topic))
    gaps: list[Gap] = []
    version = None
    step = limits.REMOVES_PER_COMMIT_MAX
    for change in (
        RemoveLostSegments(state.existing_id, gone[first : first + step]) for first in range(0, len(gone), step)
    ):
        if is_dry_run:
            gaps += change.propose(state, 0).result
            continue
        committed = Committer(log, new_id=new_id, engine=_ENGINE).commit(change)
        gaps += committed.result
        version = committed.state.version
    return Repair(topic=log.topic, exists=True, gone=tuple(gone), gaps=tuple(gaps), version=version)


def _without_lost_archive(store: ObjectStore, log: TopicLog, new_id: NewId, *, is_dry_run: bool) -> list[str]:
    """Remove archived files whose objects are gone from the table; return their paths. Raises ``BackOff`` if the archive changes
    all the time."""
    stored = stored_paths(store, log.topic) if log.state.archive.segment_count else set()
    removed: list[str] = []
    for _ in range(limits.COMMIT_ATTEMPTS_MAX):
        state = log.state
        files = archived_files(store, state, log.clock.now_ms()).to_pylist()
        gone = [ArchivedFile(file["path"], file["size"]) for file in files if plain_path(file["path"]) not in stored]
        if is_dry_run or not gone:
            return sorted({*removed, *(plain_path(file.path) for file in gone)})
        some = gone[: limits.REMOVES_PER_COMMIT_MAX]
        change = RemoveArchived(topic_id=state.existing_id, archive_version=state.archive.version, files=some)
        if Committer(log, new_id=new_id, engine=_ENGINE).commit(change).result:
            removed += [plain_path(file.path) for file in some]
    raise BackOff(f"The archive of topic {log.topic!r} changes all the time: run the repair again.", topic=log.topic)


class _Plan:
    """A repair of the log as it is now."""

    def __init__(self, store: ObjectStore, topic: str, clock: Clock, new_id: NewId, *, looks_at_files: bool) -> None:
        self._store = store
        self._topic = topic
        self._now_ms = clock.now_ms()
        self._new_id = new_id
        self._closes: tuple[TableLog[JournalState], Close] | None = None
        parts = read_parts(store, topic)
        if parts is None:
            raise UnknownTopic(topic)
        self._parts = parts
        lost_by_ms = self._now_ms if parts.lost_by_ms is None else min(parts.lost_by_ms, self._now_ms)
        self._forgotten_ms = lost_by_ms + _CLOCKS_DIFFER_MS_MAX
        """Issue time up to which a producer's id may have been used in what is lost."""
        self._remains = salvaged = SalvagedState(topic, parts)
        gone: list[str] = []
        if looks_at_files and not salvaged.is_deleted:
            gone = sorted(salvaged.paths - stored_paths(store, topic))
            salvaged.leave_out(gone)
        self._has_settings = salvaged.metadata is not None
        self._metadata = self._metadata_at(JournalLogs(store, clock))
        self.repair = Repair(
            topic=topic,
            exists=self._metadata.configuration.get(DELETED_PROPERTY) != "true",
            lost=parts.lost,
            gone=tuple(gone),
            gaps=tuple(salvaged.gaps()),
            is_made_anew=salvaged.is_recreated or not self._has_settings,
            has_settings=self._has_settings,
            producers_from_ms=0 if parts.lost_by_ms is None else self._forgotten_ms,
        )

    def commit(self) -> bool:
        """Put the commit and its checkpoint; return False if another commit took the version. Raises the same errors as
        ``repair_topic``."""
        root, version = layout.topic_root(self._topic), self._parts.head + 1
        if self._closes is not None:
            # Like every change of a topic at a journal: whoever knows the topic then refreshes it.
            journal, close = self._closes
            Committer(journal, new_id=self._new_id, engine=_ENGINE).commit(JournalNotes([close]))
        info = CommitInfo(
            timestamp=self._now_ms,
            operation="REPAIR",
            operation_parameters={},
            engine_info=f"{_ENGINE}/{__version__}",
            txn_id=self._new_id(),
            tags={TAG_REPAIRED: "true", TAG_FORGOTTEN: str(self._forgotten_ms)},
        )
        removes = [
            remove_segment(segment, deletion_timestamp_ms=self._now_ms, data_change=False)
            for segment in self._remains.left_out.values()
        ]
        actions: list[Action] = [
            protocol_of(
                parse_typed_columns(self._metadata.schema_string), has_table_feature=self._remains.has_table_feature
            ),
            self._metadata,
            *self._txns(),
        ]
        # Readers of Delta use the checkpoint, which has none of these files.
        data = encode_commit(info, [*actions, *removes[: limits.REMOVES_PER_COMMIT_MAX]])
        key = layout.table_commit_key(root, version)
        try:
            self._store.put_if_absent(key, data)
        except ObjectExists:
            found = decode_commit(read_bounded(self._store, key, limits.COMMIT_BYTES_MAX), key)
            if found.commit_id != info.txn_id:
                return False
        commits = [*(commit for _, commit in self._parts.commits), as_decoded_commit(info, [*actions, *removes])]
        moved_on = advance_checkpoint(self._parts.base, commits, root, self._now_ms, store=self._store)
        put_checkpoint(self._store, root, version, read_hinted_version(self._store, root), moved_on)
        self.repair = replace(self.repair, version=version)
        return True

    def _metadata_at(self, journals: JournalLogs) -> MetaData:
        """Return the topic's metadata at its present place; raise the next offsets to what a journal has drained."""
        known, salvaged = self._remains.metadata, self._remains
        if salvaged.is_deleted:
            assert known is not None
            return known
        count = salvaged.partition_count
        if known is None and not count:
            return _deleted(self._topic, self._new_id(), self._now_ms)
        properties = {} if known is None else known.configuration
        topic_id = self._new_id() if known is None else known.id
        place, count = self._place(journals, topic_id, parse_attachment(self._topic, properties), count)
        text = properties.get(PARTITION_COUNT_PROPERTY, "")
        config = TopicConfig.parse(_NO_SETTINGS) if known is None else TopicConfig.from_properties(properties)
        state = replace(
            TopicState.absent(self._topic),
            topic_id=topic_id,
            partition_count=max(count, int(text) if text.isdecimal() else 1),
            config=config,
            created_at_ms=self._now_ms if known is None else known.created_time or 0,
            last_move=parse_last_move(properties),
            erasures=parse_erasures(self._topic, properties),
            pins=self._readable_pins(properties),
        )
        return moved_metadata(state, TopicMove(to=place))

    def _readable_pins(self, properties: Mapping[str, str]) -> tuple[Pin, ...]:
        """Return the pins whose checkpoints are whole: what is left of the log can't give others."""
        root = layout.topic_root(self._topic)
        try:
            pins = parse_pins(self._topic, properties)
        except CorruptData:
            return ()
        return tuple(pin for pin in pins if is_loadable(self._store, root, pin.version))

    def _place(
        self, journals: JournalLogs, topic_id: str, here: Attachment | None, count: int
    ) -> tuple[Attachment | None, int]:
        """Return the attachment to the journal that has the topic's records or appends, and the number of partitions it knows."""
        ends = self._remains.ends
        for number in list_journals(self._store):
            state = journals.get(number).refresh()
            topic = state.topics.by_id.get(topic_id)
            if topic is None:
                continue
            is_here = here is not None and (here.journal, here.first) == (number, topic.first)
            if is_here or any(end > ends.get(partition, 0) for partition, end in enumerate(topic.next_offsets)):
                for partition, end in enumerate(topic.drained.tolist()):
                    ends[partition] = max(end, ends.get(partition, 0))
                if topic.is_open:
                    self._closes = journals.get(number), Close(topic_id, topic.number)
                return Attachment(number, state.topics.next_number(topic_id), topic.first), max(
                    count, len(topic.next_offsets)
                )
        return None, count

    def _txns(self) -> Iterable[Txn]:
        """Return every offset that any readable part names, with its present value; offsets of earlier incarnations are 0."""
        values = dict.fromkeys(self._remains.app_ids, 0)
        if not self._remains.is_deleted:
            keys_compacted = self._remains.keys_compacted()
            for partition, end in self._remains.ends.items():
                values[f"{partition}"] = end
                values[f"{LOG_START_APP_ID}{partition}"] = self._remains.log_start(partition)
                values[f"{KEYS_COMPACTED_APP_ID}{partition}"] = keys_compacted[partition]
        return [Txn(app_id=app_id, version=value, last_updated=self._now_ms) for app_id, value in values.items()]


def _deleted(topic: str, topic_id: str, now_ms: int) -> MetaData:
    """Return the metadata of a topic of which nothing is left."""
    state = replace(
        TopicState.absent(topic),
        topic_id=topic_id,
        partition_count=1,
        created_at_ms=now_ms,
    )
    metadata = moved_metadata(state, NO_MOVE)
    metadata.configuration[DELETED_PROPERTY] = "true"
    return metadata
