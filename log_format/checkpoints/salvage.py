"""Reading what is left of a topic's log that has lost or damaged objects.

1. What is left is the newest readable checkpoint, and in order each readable commit of Tidelog after it.
2. A lost commit may have removed segments: those whose offsets later segments cover are left out.
3. A lost commit may have deleted the topic, or created it again. Then offsets go back, or records follow a deletion. Everything
   before is left out, and the topic gets another id, since no position of a reader fits both.
4. Files that no commit names are ignored, since a refused append leaves such files, too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_format import layout, limits
from log_format.checkpoints.advanced_checkpoint import OpenedCheckpoint, archive_pieces
from log_format.checkpoints.checkpoint import open_checkpoint
from log_format.checkpoints.segments import decode_segments
from log_format.checkpoints.state import decode_metadata, decode_protocols, iterate_adds
from log_format.delta.actions import Commit, MetaData, decode_commit, plain_path
from log_format.delta.checkpoint_schema import as_corrupt, select_actions
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, ObjectMissing, UnsupportedTable
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore, read_bounded
from log_format.topic.applied_transactions import NO_TRANSACTIONS
from log_format.topic.archive import is_archived
from log_format.topic.partition_offsets import KEYS_COMPACTED_APP_ID, LOG_START_APP_ID
from log_format.topic.segment_tags import decode_segment_add
from log_format.topic.stamped_requests import decode_stamped_requests
from log_format.topic.state import DELETED_PROPERTY

_DIGITS_MAX: Final = 10
_COMMITS_MISSING_MAX: Final = 1_000
"""Most missing objects named in a report: a log that lost a clean-up's note may lack many more commits."""


class Gap(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of a partition that no segment has any more."""

    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogParts:
    """The readable parts of a log: a checkpoint to begin with, and commits. ``lost``: keys of lost or damaged objects."""

    head: int
    base: OpenedCheckpoint | None
    commits: tuple[tuple[int, Commit], ...]
    lost: tuple[str, ...]
    lost_by_ms: int | None
    """Time by which every lost commit had been made, by the next commit or the damaged object's own time; None if unknown."""


def read_parts(store: ObjectStore, topic: str) -> LogParts | None:
    """Read all readable parts of a topic's log; return None if there is no log.

    Raises ``StoreUnavailable``; ``UnsupportedTable`` if a later release wrote a part of it.
    """
    root = layout.topic_root(topic)
    written_ms = {info.key: info.modified_at_ms for info in store.list(layout.table_log_prefix(root))}
    checkpoints = sorted({version for key in written_ms if (version := layout.checkpoint_version(key)) is not None})
    versions = {version for key in written_ms if (version := layout.commit_version(key)) is not None}
    if not versions and not checkpoints:
        return None
    head = max(max(versions, default=NO_LOG), max(checkpoints, default=NO_LOG))
    lost: list[str] = []
    base = _newest_readable(store, root, checkpoints, lost)
    begun = NO_LOG if base is None else base.version
    commits: list[tuple[int, Commit]] = []
    first = begun + 1 if base is not None or 0 in versions else min(versions, default=head + 1)
    last_lost = first - 1
    if first > begun + 1:
        lost.append(layout.table_commit_key(root, begun + 1))
    for version in range(first, head + 1):
        key = layout.table_commit_key(root, version)
        commit = _read_commit(store, key) if version in versions else None
        if commit is not None and commit.foreign is None:
            commits.append((version, commit))
        elif commit is None:
            last_lost = version
            lost += [key] if len(lost) < _COMMITS_MISSING_MAX else []
    at_last = (layout.table_commit_key(root, last_lost), *layout.table_checkpoint_keys(root, last_lost))
    times = [commit.timestamp for version, commit in commits if version > last_lost][:1]
    lost_by_ms = [time for time in [*times, *map(written_ms.get, at_last)] if time is not None]
    return LogParts(head, base, tuple(commits), tuple(lost), min(lost_by_ms, default=None))


def _newest_readable(
    store: ObjectStore, root: str, checkpoints: Iterable[int], lost: list[str]
) -> OpenedCheckpoint | None:
    """Return the newest whole checkpoint by Tidelog; add newer damaged ones to ``lost``."""
    for version in sorted(checkpoints, reverse=True):
        try:
            opened = open_checkpoint(store, root, version)
            if opened is not None:
                with as_corrupt(root, version):
                    for _ in iterate_adds(opened.file):
                        pass  # each page has a checksum
                for _ in archive_pieces(store, root, version) if opened.archive.segment_count else ():
                    pass
                return opened
        except UnsupportedTable:
            raise
        except (CorruptData, ObjectMissing):
            lost.append(layout.table_checkpoint_key(root, version))
    return None


def _read_commit(store: ObjectStore, key: str) -> Commit | None:
    """Return the commit; None if it is gone, or has content that no commit can have."""
    try:
        commit = decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
        for add in commit.adds:
            decode_segment_add(add)
        decode_stamped_requests(commit)
        NO_TRANSACTIONS.after(commit)
    except UnsupportedTable:
        raise
    except (CorruptData, ObjectMissing, ValueError):
        return None
    return commit


class SalvagedState:
    """The combined content of a log's readable parts. Raises ``CorruptData`` if the checkpoint turns out to be damaged.

    ``metadata`` is None if no readable part has that of the present incarnation.
    """

    def __init__(self, topic: str, parts: LogParts) -> None:
        self.metadata: MetaData | None = None
        self.has_table_feature = False
        """Whether the table's protocol had the feature in any readable part."""
        self.is_recreated = False
        """Whether a lost commit created the topic again."""
        self.left_out: dict[str, SegmentRef] = {}
        """Path -> segment that the log names and the repaired topic lacks."""
        self.ends: dict[int, int] = {}
        """Partition -> next offset."""
        self.app_ids: set[str] = set()
        """App ids of all ``txn`` that were read."""
        self._starts: dict[int, int] = {}
        self._keys_compacted: dict[int, int] = {}
        self._segments: dict[str, tuple[SegmentRef, list[Run]]] = {}
        """Segments by path, in the order in which they joined."""
        if parts.base is not None:
            self._begin(topic, parts.base)
        for _, commit in parts.commits:
            self._take(commit)
        self._leave_out_covered()

    @property
    def is_deleted(self) -> bool:
        """Whether the topic is deleted."""
        return self.metadata is not None and self.metadata.configuration.get(DELETED_PROPERTY) == "true"

    @property
    def paths(self) -> set[str]:
        """Paths of the segments that are left."""
        return set(self._segments)

    @property
    def partition_count(self) -> int:
        """Number of partitions, by the largest one named anywhere."""
        return 1 + max([NO_LOG, *self.ends, *self._starts])

    def log_start(self, partition: int) -> int:
        """Return the first readable offset."""
        return min(self._starts.get(partition, 0), self.ends.get(partition, 0))

    def keys_compacted(self) -> dict[int, int]:
        """Return partition -> the offset below which gaps may be, including those of lost commits."""
        found = {partition: min(self._keys_compacted.get(partition, 0), end) for partition, end in self.ends.items()}
        return found | {gap.partition: max(found[gap.partition], gap.end_offset) for gap in self.gaps()}

    def leave_out(self, paths: Iterable[str]) -> None:
        """Leave out these segments."""
        for path in paths:
            self.left_out[path] = self._segments.pop(path)[0]

    def gaps(self) -> list[Gap]:
        """Return the offsets after each log start that no segment covers. Key compaction may have left more gaps
        within segments."""
        spans: dict[int, list[tuple[int, int]]] = {partition: [] for partition in self.ends}
        for _, runs in self._segments.values():
            for run in runs:
                spans[run.partition].append((run.base_offset, run.end_offset))
        found = []
        for partition, of_partition in sorted(spans.items()):
            at = self.log_start(partition)
            for start, end in [*sorted(of_partition), (self.ends[partition], self.ends[partition])]:
                if start > at:
                    found.append(Gap(partition, at, start))
                at = max(at, end)
        return found

    def _begin(self, topic: str, base: OpenedCheckpoint) -> None:
        with as_corrupt(layout.topic_root(topic), base.version, topic=topic):
            self.metadata = decode_metadata(base.head)
            self.has_table_feature = any(protocol.has_table_feature for protocol in decode_protocols(base.head))
            for txn in select_actions(base.head, "txn").to_pylist():
                self._note(txn["appId"], txn["version"])
            for adds in iterate_adds(base.file):
                for ref, runs in decode_segments(adds):
                    self._segments[ref.path] = (ref, runs)
                    self._raise(runs)

    def _take(self, commit: Commit) -> None:
        if commit.protocol is not None:
            self.has_table_feature = self.has_table_feature or commit.protocol.has_table_feature
        if commit.metadata is not None:
            known = self.metadata
            if self.is_deleted or (known is not None and known.id != commit.metadata.id):
                self._forget()
            self.metadata, self.is_recreated = commit.metadata, False
        added = [(*decode_segment_add(add), add) for add in commit.adds]
        begun = [run for _, runs, add in added if add.data_change for run in runs]
        if begun and (self.is_deleted or any(run.base_offset < self.ends.get(run.partition, 0) for run in begun)):
            self._forget()
            self.metadata, self.is_recreated = None, True
        for path in (plain_path(remove.path) for remove in commit.removes):
            self._segments.pop(path, None)
        for ref, runs, add in added:
            if is_archived(add):
                self._segments.pop(ref.path, None)
                continue
            self._segments[ref.path] = (ref, runs)
            self._raise(runs)
        if not self.is_deleted:
            for txn in commit.txns:
                self._note(txn.app_id, txn.version)

    def _forget(self) -> None:
        """Drop everything of an earlier incarnation."""
        self.leave_out(list(self._segments))
        for offsets in (self.ends, self._starts, self._keys_compacted):
            offsets.clear()

    def _note(self, app_id: str, version: int) -> None:
        kinds = {LOG_START_APP_ID: self._starts, KEYS_COMPACTED_APP_ID: self._keys_compacted, "": self.ends}
        prefix = next(prefix for prefix in kinds if app_id.startswith(prefix))
        number = app_id.removeprefix(prefix)
        if number.isdecimal() and len(number) < _DIGITS_MAX:
            self.app_ids.add(app_id)
            partition = int(number)
            if version:
                kinds[prefix][partition] = max(version, kinds[prefix].get(partition, 0))
                self.ends.setdefault(partition, 0)

    def _raise(self, runs: Iterable[Run]) -> None:
        for run in runs:
            self.ends[run.partition] = max(run.end_offset, self.ends.get(run.partition, 0))

    def _leave_out_covered(self) -> None:
        """Of two segments with the same offsets leave out the older one, which the newer was made from."""
        taken: dict[int, list[tuple[int, int]]] = {}
        covered = []
        for path, (_, runs) in reversed(self._segments.items()):
            if any(_overlaps(taken.get(run.partition, []), run) for run in runs):
                covered.append(path)
                continue
            for run in runs:
                insort(taken.setdefault(run.partition, []), (run.base_offset, run.end_offset))
        self.leave_out(covered)


def _overlaps(spans: list[tuple[int, int]], run: Run) -> bool:
    """Return whether one of the spans, which do not overlap, has an offset of the run."""
    index = bisect_left(spans, (run.end_offset, 0))
    return index > 0 and spans[index - 1][1] > run.base_offset
