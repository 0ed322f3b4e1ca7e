"""What is left of a topic's log of which objects are lost or damaged.

1. The newest checkpoint that can be read, and in order each commit of Tidelog after it that can be read.
2. A lost commit may have removed segments: those that later ones cover are left out.
3. A lost commit may have deleted the topic, or made it anew. Then offsets go back, or records come behind a deletion. All from
   before is left out, and the topic gets another id: no position of a reader fits both.
4. Nothing is guessed from files that no commit names: a refused append leaves such files, too.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_format import layout, limits
from log_format.bounded_read import read_bounded
from log_format.checkpoints.checkpoint import OpenedCheckpoint, open_checkpoint
from log_format.checkpoints.segments import segments_of
from log_format.checkpoints.state import adds_of, metadata_of
from log_format.delta.actions import Commit, MetaData, decode_commit, plain_path
from log_format.delta.checkpoint_schema import as_corrupt, present
from log_format.delta.table import NO_LOG
from log_format.errors import CorruptData, ObjectMissing, UnsupportedTable
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.topic.applied_transactions import NO_TRANSACTIONS
from log_format.topic.segment_tags import added_segment
from log_format.topic.state import DELETED_PROPERTY, KEYS_COMPACTED_APP_ID, LOG_START_APP_ID, stamped_requests

_DIGITS_MAX: Final = 10
_COMMITS_MISSING_MAX: Final = 1_000
"""In a row, of those that are named in a report: a log whose clean-up was lost may lack many more."""


class Gap(NamedTuple):
    """Offsets ``[start_offset, end_offset)`` of a partition that no segment has any more."""

    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogParts:
    """What a listing of the log shows, and the checkpoint to begin with. ``lost``: keys of objects that are lost or damaged."""

    head: int
    base: OpenedCheckpoint | None
    commits: tuple[tuple[int, Commit], ...]
    lost: tuple[str, ...]
    lost_by_ms: int | None
    """When every lost commit had been made: the next one says, or the damaged object's own time; None: nothing does."""


def read_parts(store: ObjectStore, topic: str) -> LogParts | None:
    """Everything of a topic's log that can be read; None where there is no log.

    Raises ``StoreUnavailable``; ``UnsupportedTable`` where a later release wrote a part of it.
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
        commit = _readable(store, key) if version in versions else None
        if commit is not None and commit.foreign is None:
            commits.append((version, commit))
        elif commit is None:
            last_lost = version
            lost += [key] if len(lost) < _COMMITS_MISSING_MAX else []
    at_last = (layout.table_commit_key(root, last_lost), layout.table_checkpoint_key(root, last_lost))
    times = [commit.timestamp for version, commit in commits if version > last_lost][:1]
    lost_by_ms = [time for time in [*times, *map(written_ms.get, at_last)] if time is not None]
    return LogParts(head, base, tuple(commits), tuple(lost), min(lost_by_ms, default=None))


def _newest_readable(
    store: ObjectStore, root: str, checkpoints: Iterable[int], lost: list[str]
) -> OpenedCheckpoint | None:
    """The newest whole checkpoint of Tidelog; adds to ``lost`` the damaged ones above it."""
    for version in sorted(checkpoints, reverse=True):
        try:
            opened = open_checkpoint(store, root, version)
            if opened is not None:
                with as_corrupt(root, version):
                    for _ in adds_of(opened.file):
                        pass  # each page has a checksum
                return opened
        except UnsupportedTable:
            raise
        except (CorruptData, ObjectMissing):
            lost.append(layout.table_checkpoint_key(root, version))
    return None


def _readable(store: ObjectStore, key: str) -> Commit | None:
    """The commit; None where it is gone, or says what no commit can say."""
    try:
        commit = decode_commit(read_bounded(store, key, limits.COMMIT_BYTES_MAX), key)
        for add in commit.adds:
            added_segment(add)
        stamped_requests(commit)
        NO_TRANSACTIONS.after(commit)
    except UnsupportedTable:
        raise
    except (CorruptData, ObjectMissing, ValueError):
        return None
    return commit


class Remains:
    """What the readable parts of a log say together. Raises ``CorruptData`` where the checkpoint is damaged after all.

    ``metadata`` is None where no readable part has that of the present incarnation.
    """

    def __init__(self, topic: str, parts: LogParts) -> None:
        self.metadata: MetaData | None = None
        self.is_made_anew = False
        """Whether a lost commit made the topic anew."""
        self.left_out: dict[str, SegmentRef] = {}
        """Segments that the log names and the topic is without, by path."""
        self.ends: dict[int, int] = {}
        """Partition -> next offset."""
        self.app_ids: set[str] = set()
        """Of every ``txn`` that was met."""
        self._starts: dict[int, int] = {}
        self._keys_compacted: dict[int, int] = {}
        self._segments: dict[str, tuple[SegmentRef, list[Run]]] = {}
        """By path, in the order in which they joined."""
        if parts.base is not None:
            self._begin(topic, parts.base)
        for _, commit in parts.commits:
            self._take(commit)
        self._leave_out_covered()

    @property
    def is_deleted(self) -> bool:
        """Whether the topic exists no more."""
        return self.metadata is not None and self.metadata.configuration.get(DELETED_PROPERTY) == "true"

    @property
    def paths(self) -> set[str]:
        """Of the segments that are left."""
        return set(self._segments)

    @property
    def partition_count(self) -> int:
        """As many partitions as are named anywhere."""
        return 1 + max([NO_LOG, *self.ends, *self._starts])

    def log_start(self, partition: int) -> int:
        """The first readable offset."""
        return min(self._starts.get(partition, 0), self.ends.get(partition, 0))

    def keys_compacted(self) -> dict[int, int]:
        """Partition -> the offset below which there may be gaps, those of lost commits included."""
        found = {partition: min(self._keys_compacted.get(partition, 0), end) for partition, end in self.ends.items()}
        return found | {gap.partition: max(found[gap.partition], gap.end_offset) for gap in self.gaps()}

    def leave_out(self, paths: Iterable[str]) -> None:
        """Do without these segments."""
        for path in paths:
            self.left_out[path] = self._segments.pop(path)[0]

    def gaps(self) -> list[Gap]:
        """Offsets from each log start on that no segment holds. Key compaction may have left out more within segments."""
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
            self.metadata = metadata_of(base.head)
            for txn in present(base.head, "txn").to_pylist():
                self._note(txn["appId"], txn["version"])
            for adds in adds_of(base.file):
                for ref, runs in segments_of(adds):
                    self._segments[ref.path] = (ref, runs)
                    self._raise(runs)

    def _take(self, commit: Commit) -> None:
        if commit.metadata is not None:
            known = self.metadata
            if self.is_deleted or (known is not None and known.id != commit.metadata.id):
                self._forget()
            self.metadata, self.is_made_anew = commit.metadata, False
        added = [(*added_segment(add), add) for add in commit.adds]
        begun = [run for _, runs, add in added if add.data_change for run in runs]
        if begun and (self.is_deleted or any(run.base_offset < self.ends.get(run.partition, 0) for run in begun)):
            self._forget()
            self.metadata, self.is_made_anew = None, True
        for path in (plain_path(remove.path) for remove in commit.removes):
            self._segments.pop(path, None)
        for ref, runs, _ in added:
            self._segments[ref.path] = (ref, runs)
            self._raise(runs)
        if not self.is_deleted:
            for txn in commit.txns:
                self._note(txn.app_id, txn.version)

    def _forget(self) -> None:
        """Of an incarnation before."""
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
        """The newer of two segments with the same offsets was made of the older one."""
        taken: dict[int, list[tuple[int, int]]] = {}
        covered = []
        for path, (_, runs) in reversed(self._segments.items()):
            if any(_meets(taken.get(run.partition, []), run) for run in runs):
                covered.append(path)
                continue
            for run in runs:
                insort(taken.setdefault(run.partition, []), (run.base_offset, run.end_offset))
        self.leave_out(covered)


def _meets(spans: list[tuple[int, int]], run: Run) -> bool:
    """Whether a span, of which no two meet, has an offset of the run."""
    index = bisect_left(spans, (run.end_offset, 0))
    return index > 0 and spans[index - 1][1] > run.base_offset
