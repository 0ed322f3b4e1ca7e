"""Restoring a topic's table, as readers of Delta see it, after commits of other programs.

Readers of Tidelog ignore a foreign commit (``delta.foreign``). Readers of Delta follow it until a later commit names the same
files again: each file that the topic has with its original row, each other file as removed. Files that a foreign commit removed
are still in the store, since only Tidelog's maintenance deletes objects, and it keeps what its own commits name.
"""

from __future__ import annotations

from typing import Final

from log_format import limits
from log_format.checkpoints.archive_rows import named_adds, read_archive
from log_format.checkpoints.checkpoint import reconcile_log
from log_format.delta.actions import Action, Add, Remove, plain_path
from log_format.delta.change import Proposal
from log_format.delta.table import NO_LOG
from log_format.store import ObjectStore
from log_format.topic.archive import is_archived
from log_format.topic.attachment import TopicMove
from log_format.topic.changes import moved_metadata
from log_format.topic.state import TopicState
from log_format.topic.table_columns import protocol_of

_ROWS_BYTES_MAX: Final = limits.COMMIT_BYTES_MAX // 4
"""Most bytes of statistics and tags in one commit."""


def needs_restore(state: TopicState) -> bool:
    """Return whether readers of Delta see something else than Tidelog's, or other programs may write to the table."""
    if not state.exists:
        return bool(state.foreign.touched)
    return not (state.foreign.is_reverted and state.is_guarded)


class RestoreTable:
    """A change that names again the files that foreign commits touched, and states the table's protocol and metadata again.

    Call ``look`` at a state, then commit the change; repeat both until ``needs_restore`` is false, since one commit names a
    limited number of files. The result is how many files the commit named.
    """

    def __init__(self, store: ObjectStore, topic: str, *, files_max: int = limits.REMOVES_PER_COMMIT_MAX) -> None:
        self._store = store
        self._topic = topic
        self._files_max = files_max
        self._looked: list[str] = []
        self._rows: dict[str, Add] = {}
        self._archive_version = NO_LOG

    def look(self, state: TopicState, now_ms: int) -> None:
        """Read the original rows of some of the files. Raises ``StoreUnavailable``, ``CorruptData``."""
        self._looked, self._rows = [], {}
        paths = sorted(state.foreign.touched)[: self._files_max]
        live = [path for path in paths if _is_live(state, path)]
        if live:
            table = reconcile_log(self._store, self._topic, state.version, now_ms)
            if table is None:
                return  # there is a checkpoint of a later version: the next look reads from that
            self._rows = named_adds([table], live)
        if state.archive.segment_count and len(live) < len(paths):
            others = set(paths).difference(live)
            found = read_archive(
                self._store, self._topic, state.version, now_ms, lambda pieces: named_adds(pieces, others)
            )
            if found is None:
                return
            self._rows |= found
        self._archive_version = state.archive.version
        self._looked = paths

    def propose(self, state: TopicState, now_ms: int) -> Proposal[int]:
        """Propose the restoring actions, none if there is nothing to restore. Never raises; the log must not be empty."""
        actions: list[Action] = []
        if state.exists and needs_restore(state):
            actions.append(protocol_of(state.columns, has_table_feature=state.has_table_feature))
            if not state.foreign.is_reverted:
                actions.append(moved_metadata(state, TopicMove(to=state.attachment)))
        files, size_bytes = 0, 0
        for path in self._looked:
            if path not in state.foreign.touched or size_bytes > _ROWS_BYTES_MAX:
                continue
            row = self._rows.get(path)
            if row is not None and is_archived(row) and state.archive.version != self._archive_version:
                continue  # it may have left the archive after the look
            is_known = _is_live(state, path) or (row is not None and is_archived(row) and state.exists)
            if not is_known:
                actions.append(Remove(path=path, deletion_timestamp=now_ms, data_change=False))
            elif row is not None:
                actions.append(row)
                size_bytes += len(row.stats or "") + sum(
                    len(key) + len(tag or "") for key, tag in (row.tags or {}).items()
                )
            else:
                continue  # the file joined the table again after the look
            files += 1
        return Proposal(operation="RESTORE", actions=actions, result=files)


def _is_live(state: TopicState, path: str) -> bool:
    return state.exists and state.manifest.has_all([plain_path(path)])
