"""What commits change of a table's files, taken together: files that come, and files that go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from log_format.delta.actions import TAG_ARCHIVE, Add, Commit
from log_format.topic.state import TAG_REPAIRED


class NotReplayed(Exception):
    """Error: these commits don't say what they change; the table has to be read from a checkpoint."""


@dataclass(slots=True)
class FileChanges:
    """Files that came with some commits, and paths (as in ``add``) of earlier files that left."""

    added: dict[str, Add] = field(default_factory=dict)
    """The files by path."""
    removed: set[str] = field(default_factory=set)
    committed_ms: int = 0
    """Latest time of a commit, by its writer's clock."""
    has_new_records: bool = False
    has_rewrites: bool = False
    loses_records: bool = False

    @property
    def operation(self) -> str:
        """What Iceberg calls such a change."""
        if self.loses_records:
            return "overwrite" if self.added else "delete"
        if self.has_rewrites:
            return "overwrite" if self.has_new_records else "replace"
        return "append"


def collect_changes(commits: Iterable[Commit], topic_id: str) -> FileChanges:
    """Return what these commits, in order, change of the files of a topic's incarnation.

    Raises ``NotReplayed``, also if there is another program's commit among them: whatever it touched is named again later.
    """
    found = FileChanges()
    for commit in commits:
        metadata = commit.metadata
        is_other = metadata is not None and metadata.id != topic_id
        if is_other or commit.foreign is not None or TAG_REPAIRED in commit.tags:
            raise NotReplayed
        found.committed_ms = max(found.committed_ms, commit.timestamp or 0)
        for remove in commit.removes:
            found.loses_records |= remove.data_change
            found.has_rewrites |= not remove.data_change
            if found.added.pop(remove.path, None) is None:
                found.removed.add(remove.path)
        for add in commit.adds:
            if TAG_ARCHIVE in (add.tags or ()) and not commit.removes:
                continue  # a file of the log moves to the archive: it was there before, and stays
            found.has_new_records |= add.data_change
            found.added[add.path] = add
    return found
