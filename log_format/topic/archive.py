"""The archive of a topic: segments below the log starts whose rows stay in the table (docs/format/commits.md, section 5.8).

A segment joins the archive when a commit names it again with the tag ``tidelog.archive``, or takes the place of an archived one
(erasures). The ``remove`` of an archived segment has the tag, too. So whoever replays the log need not know the archive's
segments to count them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from log_format.delta.actions import TAG_ARCHIVE, Add, Commit, Remove
from log_format.delta.table import NO_LOG
from log_format.manifest.manifest import Manifest
from log_format.topic.segment_tags import decode_segment_add


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive of a topic: how many segments it has, and their bytes."""

    segment_count: int
    size_bytes: int
    version: int = NO_LOG
    """Version of the last commit that may have changed the archive: a plan made before it is void."""

    @property
    def counts(self) -> tuple[int, int]:
        """Number of segments, and bytes: the same in every process at one version."""
        return self.segment_count, self.size_bytes

    def changed(self, segment_count: int, size_bytes: int, version: int) -> Archive:
        """Return the archive with so many segments and bytes more, or fewer, after the commit of ``version``."""
        return Archive(self.segment_count + segment_count, self.size_bytes + size_bytes, version)


NO_ARCHIVE: Final = Archive(0, 0)


def is_archived(action: Add | Remove) -> bool:
    """Return whether the action concerns an archived segment."""
    return action.tags is not None and TAG_ARCHIVE in action.tags


def archive_after(
    archive: Archive,
    commit: Commit,
    manifest: Manifest,
    log_starts: npt.NDArray[np.int64],
    version: int,
    *,
    touched: Collection[str] = (),
) -> tuple[Archive, list[str]]:
    """Return the archive after a commit, and the paths of the segments that leave the log for it.

    Args:
        archive: the archive before.
        commit: the commit.
        manifest: segments of the log before.
        log_starts: log start of each partition after the commit.
        version: version of the commit.
        touched: paths that foreign commits touched before; an ``add`` of one that is in the archive names it again.

    Raises ``ValueError`` if the commit archives readable records, adds segments to the archive that take no other's place, or
    removes more than there is; ``CorruptData`` for unreadable tags.
    """
    joined: list[str] = []
    added: list[int] = []
    removed = [action.size or 0 for action in commit.removes if is_archived(action)]
    for action in filter(is_archived, commit.adds):
        segment, runs = decode_segment_add(action)
        if any(run.partition >= len(log_starts) or run.end_offset > log_starts[run.partition] for run in runs):
            raise ValueError(f"it archives segment {segment.path}, which has records from a log start on")
        if manifest.has_all([segment.path]):
            joined.append(segment.path)
        elif action.path in touched:
            continue
        elif not removed:
            raise ValueError(f"it adds segment {segment.path} to the archive, in no other's place")
        added.append(segment.size_bytes)
    if not added and not removed:
        return archive, joined
    after = archive.changed(len(added) - len(removed), sum(added) - sum(removed), version)
    if after.segment_count < 0:
        raise ValueError("it removes more archived segments than there are")
    return after, joined


def archived(add: Add) -> Add:
    """Return the ``add`` that puts a segment into the archive."""
    return msgspec.structs.replace(add, data_change=False, tags={**(add.tags or {}), TAG_ARCHIVE: ""})


def remove_archived(path: str, size_bytes: int, *, deletion_timestamp_ms: int) -> Remove:
    """Return the ``remove`` of an archived segment. ``path``: as in its ``add``."""
    return Remove(
        path=path,
        deletion_timestamp=deletion_timestamp_ms,
        data_change=True,
        extended_file_metadata=True,
        partition_values={},
        size=size_bytes,
        tags={TAG_ARCHIVE: ""},
    )
