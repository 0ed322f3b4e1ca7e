"""A commit of a journal without records, which closes, drains and releases topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa

from log_format import limits
from log_format.delta.actions import PROTOCOL, Action, Add, MetaData, Remove
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.delta.table_schema import schema_string
from log_format.journal.content import JOURNAL_TABLE_PROPERTY, KnownContent
from log_format.journal.entries import TAG_ENTRIES, Attach, Close, Drained, Entry, Release, encode_entries
from log_format.journal.object_tags import CommittedObject
from log_format.journal.state import JournalState
from log_format.journal.topics import TopicsEdit
from log_format.records.schema import RECORD_SCHEMA

ResultT = TypeVar("ResultT")


class JournalNotes:
    """A change that commits entries, leaving out any that says nothing new. Idempotent."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = tuple(entries)

    def propose(self, state: JournalState, now_ms: int) -> Proposal[None]:
        """Propose the entries as the commit's tag, and removes of objects that no topic needs. Without entries only
        the removes."""
        entries = new_entries(self._entries, TopicsEdit(state.topics), now_ms)
        if not entries and (self._entries or not state.runs.unneeded(1)):
            return Proposal(operation="WRITE", actions=(), result=None)
        return JournalNotes(entries).proposal(state, now_ms, None)

    def proposal(
        self,
        state: JournalState,
        now_ms: int,
        result: ResultT,
        objects: Sequence[Add | Remove] = (),
        placed: Sequence[CommittedObject] | None = None,
    ) -> Proposal[ResultT]:
        """Return the proposal of a commit with these entries and with objects.

        Args:
            state: the journal.
            now_ms: present time, in ms since the epoch.
            result: result of the proposal.
            objects: actions that add or remove objects.
            placed: content of the adds, if it is known.
        """
        first: list[Action] = []
        if state.version == NO_LOG:
            first = [PROTOCOL, _metadata(state.journal, now_ms)]
        actions = [*first, *objects, *_removes(state, now_ms)]
        tags = {TAG_ENTRIES: encode_entries(self._entries)} if self._entries else None
        content = None if placed is None else KnownContent(self._entries, placed)
        return Proposal(operation="WRITE", actions=actions, result=result, tags=tags, content=content)


def new_entries(entries: Sequence[Entry], edit: TopicsEdit, now_ms: int) -> list[Entry]:
    """Return the entries that say something new, applying each of them to ``edit``. Entries that contradict the state are left
    out."""
    found = []
    for entry in entries:
        if _is_news(entry, edit):
            edit.apply([entry], now_ms)
            found.append(entry)
    return found


def _is_news(entry: Entry, edit: TopicsEdit) -> bool:
    topic = edit.by_id.get(entry.topic_id)
    match entry:
        case Close():
            return edit.closed_number(entry.topic_id) < entry.number
        case Drained():
            return topic is not None and topic.is_applicable(entry)
        case Release():
            return topic is not None and topic.number == entry.number and not topic.is_open
        case Attach():
            return edit.closed_number(entry.topic_id) < entry.number and (topic is None or not topic.is_open)
    return topic is not None and topic.is_open


def _metadata(journal: int, now_ms: int) -> MetaData:
    return MetaData(
        id=f"journal-{journal}",
        name=f"journals/{journal}",
        schema_string=schema_string(
            [pa.field("topic", pa.string()), pa.field("topic_id", pa.string()), *RECORD_SCHEMA]
        ),
        configuration={"delta.enableExpiredLogCleanup": "false", JOURNAL_TABLE_PROPERTY: "true"},
        created_time=now_ms,
    )


def _removes(state: JournalState, now_ms: int) -> list[Remove]:
    """Return removes of objects that are entirely drained. ``dataChange`` is false: the rows are in other tables, not gone."""
    return [
        remove_object(path, size_bytes, now_ms) for path, size_bytes in state.runs.unneeded(limits.JOURNAL_REMOVES_MAX)
    ]


def remove_object(path: str, size_bytes: int, now_ms: int) -> Remove:
    """Return the ``remove`` of an object."""
    return Remove(
        path=path,
        deletion_timestamp=now_ms,
        data_change=False,
        extended_file_metadata=True,
        partition_values={},
        size=size_bytes,
    )
