"""The reconciled log as one Parquet object: a classic Delta checkpoint (protocol, "Checkpoints", V1).

It is written by whoever commits, since nobody else would: from the checkpoint before it and the commits in between, column by
column, so that it costs no more memory than its own bytes and those of its predecessor. The object is whole or absent, and its
content follows from the log alone, so two writers of one version do no harm. ``_last_checkpoint`` is a hint.

What the topic remembers of producers and transactions is in the file's metadata (``checkpoint_memory``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoint_file import decode_checkpoint_file, encode_checkpoint_file
from log_format.checkpoint_hint import hinted_version
from log_format.checkpoint_memory import KEYS, NO_MEMORY, memory_of, with_memory
from log_format.checkpoint_schema import (
    ADD,
    METADATA,
    PROTOCOL,
    REMOVE,
    SCHEMA,
    TXN,
    as_corrupt,
    check_required,
    conforming,
    present,
)
from log_format.checkpoint_segments import segments_of
from log_format.delta import Add, Commit, MetaData, Protocol, Remove, decode_commit, plain_path
from log_format.errors import CorruptData, ObjectExists, ObjectMissing, StoreUnavailable
from log_format.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.topic_config import TopicConfig
from log_format.topic_state import EMPTY_REQUEST_APP_ID, PARTITION_COUNT_PROPERTY


def last_checkpoint_version(store: ObjectStore, topic: str) -> int | None:
    """The version that a topic's hint names; None without a readable one. Raises ``StoreUnavailable``."""
    return hinted_checkpoint(store, layout.topic_root(topic))


def hinted_checkpoint(store: ObjectStore, root: str) -> int | None:
    """The version that the hint of the table below ``root`` names; None without a readable one. Raises ``StoreUnavailable``."""
    return hinted_version(store, layout.table_last_checkpoint_key(root))


def write_checkpoint(store: ObjectStore, topic: str, version: int, now_ms: int) -> None:
    """``write_table_checkpoint`` of a topic."""
    write_table_checkpoint(store, layout.topic_root(topic), version, now_ms)


def write_table_checkpoint(store: ObjectStore, root: str, version: int, now_ms: int) -> None:
    """Write the checkpoint of ``version`` of the table below ``root``, and the hint to it.

    Nothing happens when there is one of a later version, or of this one: who reads it by ranges (S3A) fails when it changes
    meanwhile, and the time of writing decides which tombstones it has. Raises ``StoreUnavailable``, ``CorruptData``.
    """
    hint = hinted_checkpoint(store, root)
    reconciled = reconciled_table(store, root, version, now_ms)
    if reconciled is None:
        return
    data = encode_checkpoint_file(reconciled)
    try:
        store.put_if_absent(layout.table_checkpoint_key(root, version), data)
    except ObjectExists:
        return
    if hint is None or hint < version:
        body = {"version": version, "size": reconciled.num_rows, "sizeInBytes": len(data)}
        store.put(layout.table_last_checkpoint_key(root), msgspec.json.encode(body))


def reconciled_log(store: ObjectStore, topic: str, version: int, now_ms: int) -> pa.Table | None:
    """A topic's log up to ``version``, reconciled (``SCHEMA``); None when there is a checkpoint of a later version.

    Tombstones of files that may be deleted for a while at ``now_ms`` are left out. Raises ``StoreUnavailable``, ``CorruptData``.
    """
    return reconciled_table(store, layout.topic_root(topic), version, now_ms)


def reconciled_table(store: ObjectStore, root: str, version: int, now_ms: int) -> pa.Table | None:
    """``reconciled_log`` of the table below ``root``."""
    hint = hinted_checkpoint(store, root)
    base = _newest_version(store, root, hint)
    for _ in range(limits.LOAD_ATTEMPTS_MAX):
        if base is not None and base > version:
            return None
        reconciled, missing = _reconciled(store, root, base, version, now_ms)
        newest = _newest_version(store, root, hint)
        if newest == base:
            if reconciled is None:
                raise CorruptData(f"The log of {root} lacks {missing}.", object=missing)
            return reconciled
        base = newest  # with it, what lies below may have been cleaned away while it was read
    prefix = layout.table_log_prefix(root)
    raise StoreUnavailable(prefix, "the log goes on faster than it can be read", may_have_happened=False)


def _newest_version(store: ObjectStore, root: str, hint: int | None) -> int | None:
    """The version of the newest checkpoint there is."""
    prefix = layout.table_log_prefix(root)
    for start_after in ("",) if hint is None else (f"{prefix}{hint:020d}", ""):
        keys = (info.key for info in store.list(prefix, start_after=start_after))
        versions = [version for key in keys if (version := layout.checkpoint_version(key)) is not None]
        if versions:
            return max(versions)
    return None


def _reconciled(
    store: ObjectStore, root: str, base: int | None, version: int, now_ms: int
) -> tuple[pa.Table | None, str | None]:
    """The log at ``version``, from the checkpoint ``base`` on; or the key of what is missing."""
    try:
        table = with_memory(SCHEMA.empty_table(), NO_MEMORY)
        if base is not None:
            table = decode_checkpoint(store.get(layout.table_checkpoint_key(root, base)), root, base)
        keys = (layout.table_commit_key(root, number) for number in range(0 if base is None else base + 1, version + 1))
        return reconcile(table, [decode_commit(store.get(key), key) for key in keys], now_ms), None
    except ObjectMissing as problem:
        return None, problem.key


def reconcile(table: pa.Table, commits: Iterable[Commit], now_ms: int) -> pa.Table:
    """A checkpoint's table (``SCHEMA``) moved on by commits (protocol, "Action Reconciliation")."""
    protocol = _last(table, "protocol")
    metadata = _last(table, "metaData")
    memory = memory_of(table)
    txns = {txn["appId"]: txn for txn in present(table, "txn").to_pylist()}
    adds: dict[str, dict[str, Any]] = {}
    removes: dict[str, dict[str, Any]] = {}
    gone: set[str] = set()
    back: set[str] = set()
    for commit in commits:
        if commit.protocol is not None:
            protocol = _protocol(commit.protocol)
        if commit.metadata is not None:
            is_same = metadata is not None and metadata["id"] == commit.metadata.id
            memory = memory if is_same else NO_MEMORY
            metadata = _metadata(commit.metadata)
        memory = memory.after(commit, dict(metadata["configuration"] or ()) if metadata else {})
        for txn in commit.txns:
            if txn.app_id.startswith(EMPTY_REQUEST_APP_ID):
                continue  # the producers' state says it
            txns[txn.app_id] = {"appId": txn.app_id, "version": txn.version, "lastUpdated": txn.last_updated}
        for remove in commit.removes:
            adds.pop(remove.path, None)
            gone.add(remove.path)
            removes[remove.path] = _remove(remove)
        for add in commit.adds:
            removes.pop(add.path, None)
            back.add(add.path)
            adds[add.path] = _add(add)
    kept = _without(present(table, "add"), gone)
    configuration = dict(metadata["configuration"] or ()) if metadata else {}
    oldest_ms = now_ms - _tombstones_kept_ms(configuration)
    # There may be hundreds of thousands of them: those of the checkpoint before stay columns.
    tombstones = _without(present(table, "remove"), gone | back)
    tombstones = pa.concat_arrays([tombstones, pa.array(list(removes.values()), REMOVE)])
    removed_ms = pc.fill_null(pc.struct_field(tombstones, "deletionTimestamp"), 0)
    tombstones = tombstones.filter(pc.greater_equal(removed_ms, oldest_ms))
    parts = [
        ("protocol", pa.array([protocol], PROTOCOL)),
        ("metaData", pa.array([metadata], METADATA)),
        ("txn", pa.array([txn for txn in txns.values() if memory.transactions.needs(txn["appId"])], TXN)),
        ("add", kept),
        ("add", pa.array(list(adds.values()), ADD)),
        ("remove", tombstones),
    ]
    rows = [_rows(name, values) for name, values in parts if len(values)]
    return with_memory(pa.concat_tables(rows or [SCHEMA.empty_table()]), memory)


def _without(actions: pa.Array, paths: set[str]) -> pa.Array:
    if not len(actions) or not paths:
        return actions
    return actions.filter(pc.invert(pc.is_in(pc.struct_field(actions, "path"), pa.array(list(paths), pa.string()))))


def _tombstones_kept_ms(configuration: Mapping[str, str]) -> int:
    """How long removed files are named: a topic's until they may be deleted and a little longer, since they become orphans then;
    other tables, of which nobody collects orphans, are small."""
    if PARTITION_COUNT_PROPERTY not in configuration:
        return limits.SYSTEM_TOMBSTONES_KEPT_MS
    retention_ms = TopicConfig.from_properties(configuration).integer("deleted.file.retention.ms")
    return retention_ms + limits.TOMBSTONE_MARGIN_MS


def live_segments(table: pa.Table) -> Iterator[tuple[SegmentRef, list[Run]]]:
    """The segments of a checkpoint's table (``SCHEMA``) with their runs. Raises ``CorruptData``."""
    return segments_of(present(table, "add"))


def removed_paths(table: pa.Table) -> set[str]:
    """The paths that the tombstones of a checkpoint's table (``SCHEMA``) name."""
    return {plain_path(path) for path in pc.struct_field(present(table, "remove"), "path").to_pylist()}


def is_due(version: int, checkpoint_version: int | None, segment_count: int) -> bool:
    """Whether a checkpoint should be written at ``version``: the larger, the rarer, so that its cost per commit stays flat."""
    since = version - (-1 if checkpoint_version is None else checkpoint_version)
    interval = min(max(segment_count // 50, limits.CHECKPOINT_INTERVAL_MIN), limits.CHECKPOINT_INTERVAL_MAX)
    return since >= interval


def decode_checkpoint(data: bytes, root: str, version: int, *, with_tombstones: bool = True, **fields: Any) -> pa.Table:
    """The rows of a checkpoint: ``SCHEMA``; without tombstones, where they lie apart, when nobody wants them.

    Raises ``CorruptData`` that names the object, with ``fields``.
    """
    with as_corrupt(root, version, **fields):
        table = decode_checkpoint_file(data, with_tombstones=with_tombstones)
        found = conforming(table)
        found = found.replace_schema_metadata(
            {key: value for key, value in (table.schema.metadata or {}).items() if key in KEYS}
        )
        memory_of(found)
        check_required(found)
        return found


def _last(table: pa.Table, name: str) -> dict[str, Any] | None:
    values = present(table, name)
    return values[-1].as_py() if len(values) else None


def _rows(name: str, values: pa.Array) -> pa.Table:
    columns = [values if field.name == name else pa.nulls(len(values), field.type) for field in SCHEMA]
    return pa.table(columns, schema=SCHEMA)


def _pairs(mapping: Mapping[str, str | None] | None) -> list[tuple[str, str | None]] | None:
    return None if mapping is None else list(mapping.items())


def _protocol(protocol: Protocol) -> dict[str, Any]:
    return {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}


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
