"""The content of a journal's commit: entries, then objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from log_format.delta.actions import Commit
from log_format.errors import CorruptData
from log_format.journal.entries import Entry, decode_entries
from log_format.journal.object_tags import CommittedObject, decode_object_add
from log_format.journal.topics import JournalTopics

JOURNAL_TABLE_PROPERTY: Final = "tidelog.is.journal"
"""Table property that is ``true`` for a journal."""


class JournalCommit(NamedTuple):
    """The content of a journal's commit. ``commit_ms``: time by the writer's clock."""

    entries: Sequence[Entry]
    objects: Sequence[CommittedObject]
    commit_ms: int

    def apply_to(self, topics: JournalTopics) -> JournalTopics:
        """Return the topics after the commit. Raises ``CorruptData`` if the commit contradicts them."""
        try:
            return topics.after(self.entries, self.objects, self.commit_ms)
        except ValueError as problem:
            raise CorruptData(f"The log of a journal is damaged: {problem}.") from problem


class KnownContent(NamedTuple):
    """The content of a commit as its writer knows it without decoding (``Commit.content``)."""

    entries: Sequence[Entry]
    objects: Sequence[CommittedObject]


def decode_content(commit: Commit) -> JournalCommit:
    """Return the content of a commit. Raises ``CorruptData``."""
    if commit.content is not None:
        return JournalCommit(*cast("KnownContent", commit.content), commit.timestamp or 0)
    objects = [decode_object_add(add) for add in commit.adds if add.data_change]
    return JournalCommit(decode_entries(commit), objects, commit.timestamp or 0)
