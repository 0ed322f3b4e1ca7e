"""Applying commits to a checkpoint (Delta protocol, "Action Reconciliation"), piece by piece.

Segments and tombstones of the previous checkpoint stay Arrow columns, of which only some rows are in memory at a time. The
actions of the commits become Python values, since there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from log_format import limits
from log_format.checkpoints.memory import NO_MEMORY, add_memory, decode_memory
from log_format.delta.actions import Add, Commit, MetaData, Protocol, Remove
from log_format.delta.checkpoint_schema import ADD, METADATA, PROTOCOL, REMOVE, SCHEMA, TXN, select_actions
from log_format.delta.foreign import NOTHING_FOREIGN
from log_format.journal.topics import JournalTopics
from log_format.topic.archive import is_archived
from log_format.topic.config import TopicConfig
from log_format.topic.deleted_files import DELETED_FILES_APP_ID
from log_format.topic.stamped_requests import EMPTY_REQUEST_APP_ID
from log_format.topic.state import DELETED_PROPERTY, PARTITION_COUNT_PROPERTY

Pieces = Callable[[], Iterable[pa.Table]]
"""Function that returns the rows of the previous checkpoint (``SCHEMA``, or only the column in question) in pieces."""


class Reconciliation:
    """A checkpoint with commits applied.

    ``head``: the checkpoint's ``txn``, ``metaData`` and ``protocol`` (``CheckpointFile.head``). ``journal``: a journal's
    knowledge of its topics after the commits; None if it must be computed from them.
    """

    def __init__(
        self, head: pa.Table, commits: Iterable[Commit], now_ms: int, journal: JournalTopics | None = None
    ) -> None:
        self._protocol = _last(head, "protocol")
        self._metadata = _last(head, "metaData")
        self._memory = decode_memory(head)
        self._txns = {txn["appId"]: txn for txn in select_actions(head, "txn").to_pylist()}
        self._adds: dict[str, dict[str, Any]] = {}
        self._removes: dict[str, dict[str, Any]] = {}
        self._archived: dict[str, dict[str, Any]] = {}
        self._is_archive_reset = False
        self.changes_archive = False
        """Whether a commit named archived segments, or ended an incarnation of the topic."""
        self._gone: set[str] = set()
        self._back: set[str] = set()
        self._now_ms = now_ms
        self._is_remembered = journal is not None
        self._foreign = NOTHING_FOREIGN
        for commit in commits:
            self._take(commit)
        if journal is not None:
            self._memory = self._memory._replace(journal=journal)

    @property
    def awaits_restore(self) -> bool:
        """Whether the table is a topic's, and has files that foreign commits touched and no later commit of Tidelog names."""
        return bool(self._foreign.touched) and PARTITION_COUNT_PROPERTY in self._configuration()

    def with_metadata(self, table: pa.Table) -> pa.Table:
        """Return the table with the checkpoint's metadata."""
        return add_memory(table, self._memory)

    def rows(self, adds_before: Pieces, removes_before: Pieces) -> Iterator[pa.Table]:
        """Yield the rows (``SCHEMA``) without those of the archive, tombstones last."""
        txns = [txn for txn in self._txns.values() if self._memory.transactions.needs(txn["appId"])]
        yield from _rows("protocol", pa.array([self._protocol], PROTOCOL).drop_null())
        yield from _rows("metaData", pa.array([self._metadata], METADATA).drop_null())
        yield from _rows("txn", pa.array(txns, TXN))
        # An Arrow array, since there may be hundreds of thousands of tombstones.
        named = pa.array(list(self._gone | self._back), pa.string())
        for piece in adds_before():
            yield from _rows("add", _without(select_actions(piece, "add"), named))
        yield from _rows("add", pa.array(list(self._adds.values()), ADD))
        oldest_ms = self._tombstones_from_ms()
        for piece in removes_before():
            yield from _rows("remove", _younger(_without(select_actions(piece, "remove"), named), oldest_ms))
        yield from _rows("remove", _younger(pa.array(list(self._removes.values()), REMOVE), oldest_ms))

    def archived(self, archived_before: Pieces) -> Iterator[pa.Table]:
        """Yield the rows (``SCHEMA``) of the archive."""
        named = pa.array(list(self._gone | self._back), pa.string())
        for piece in () if self._is_archive_reset else archived_before():
            yield from _rows("add", _without(select_actions(piece, "add"), named))
        yield from _rows("add", pa.array(list(self._archived.values()), ADD))

    def _tombstones_from_ms(self) -> int:
        """Return the time before which tombstones are left out: their files may have been deleted a while ago, or the log says
        they are."""
        by_age_ms = self._now_ms - _tombstones_kept_ms(self._configuration())
        gone = self._txns.get(DELETED_FILES_APP_ID)
        return by_age_ms if gone is None else max(by_age_ms, gone["version"])

    def _configuration(self) -> dict[str, str]:
        return dict(self._metadata["configuration"] or ()) if self._metadata else {}

    def _take(self, commit: Commit) -> None:
        if commit.foreign is not None:
            self._foreign = self._foreign.after_foreign(commit.foreign, 0)
            return
        if self._foreign.touched:
            self._foreign = self._foreign.after_own(commit.paths, says_table=False)
        if commit.protocol is not None:
            self._protocol = _protocol(commit.protocol)
        if commit.metadata is not None:
            is_same = self._metadata is not None and self._metadata["id"] == commit.metadata.id
            self._memory = self._memory if is_same else NO_MEMORY
            self._metadata = _metadata(commit.metadata)
            if not is_same or commit.metadata.configuration.get(DELETED_PROPERTY) == "true":
                self.changes_archive = self._is_archive_reset = True
                self._archived.clear()
        if not self._is_remembered:
            self._memory = self._memory.after(commit, self._configuration())
        for txn in commit.txns:
            if txn.app_id.startswith(EMPTY_REQUEST_APP_ID):
                continue  # the memory of producers has this
            self._txns[txn.app_id] = {"appId": txn.app_id, "version": txn.version, "lastUpdated": txn.last_updated}
        for remove in commit.removes:
            self._adds.pop(remove.path, None)
            self._archived.pop(remove.path, None)
            self.changes_archive |= is_archived(remove)
            self._gone.add(remove.path)
            self._removes[remove.path] = _remove(remove)
        for add in commit.adds:
            self._removes.pop(add.path, None)
            self._back.add(add.path)
            if is_archived(add):
                self._adds.pop(add.path, None)
                self._archived[add.path] = _add(add)
                self.changes_archive = True
            else:
                self._adds[add.path] = _add(add)


def _without(actions: pa.Array, paths: pa.Array) -> pa.Array:
    if not len(actions) or not len(paths):
        return actions
    return actions.filter(pc.invert(pc.is_in(pc.struct_field(actions, "path"), paths)))


def _younger(removes: pa.Array, oldest_ms: int) -> pa.Array:
    return removes.filter(pc.greater_equal(pc.fill_null(pc.struct_field(removes, "deletionTimestamp"), 0), oldest_ms))


def _tombstones_kept_ms(configuration: Mapping[str, str]) -> int:
    """Return the longest time for which a checkpoint names removed files.

    For a topic, until the files may be deleted by age, and a little longer, since without a tombstone they are orphans. Other
    tables are small, and no job collects their orphans.
    """
    if PARTITION_COUNT_PROPERTY not in configuration:
        return limits.SYSTEM_TOMBSTONES_KEPT_MS
    retention_ms = TopicConfig.from_properties(configuration).integer("deleted.file.retention.ms")
    return retention_ms + limits.TOMBSTONE_MARGIN_MS


def _last(table: pa.Table, name: str) -> dict[str, Any] | None:
    values = select_actions(table, name)
    return values[-1].as_py() if len(values) else None


def _rows(name: str, values: pa.Array) -> Iterator[pa.Table]:
    """Yield the rows of one kind of action, if there are any."""
    if len(values):
        columns = [values if field.name == name else pa.nulls(len(values), field.type) for field in SCHEMA]
        yield pa.table(columns, schema=SCHEMA)


def _pairs(mapping: Mapping[str, str | None] | None) -> list[tuple[str, str | None]] | None:
    return None if mapping is None else list(mapping.items())


def _protocol(protocol: Protocol) -> dict[str, Any]:
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "writerFeatures": protocol.writer_features or None,
    }


def _metadata(metadata: MetaData) -> dict[str, Any]:
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.format.provider, "options": _pairs(metadata.format.options)},
        "schemaString": metadata.schema_string,
        "partitionColumns": metadata.partition_columns,
        "configuration": _pairs(metadata.configuration),
        "createdTime": metadata.created_time,
    }


def _add(add: Add) -> dict[str, Any]:
    return {
        "path": add.path,
        "partitionValues": _pairs(add.partition_values),
        "size": add.size,
        "modificationTime": add.modification_time,
        "dataChange": False,
        "stats": add.stats,
        "tags": _pairs(add.tags),
    }


def _remove(remove: Remove) -> dict[str, Any]:
    return {
        "path": remove.path,
        "deletionTimestamp": remove.deletion_timestamp,
        "dataChange": False,
        "extendedFileMetadata": remove.extended_file_metadata,
        "partitionValues": _pairs(remove.partition_values),
        "size": remove.size,
    }
