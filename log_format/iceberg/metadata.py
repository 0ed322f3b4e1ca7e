"""The metadata of a topic's table as Iceberg's readers get it, made for each answer.

Source: Iceberg table spec, "Table Metadata Fields", version 2.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_format.iceberg.data_file import SORT_ORDER_ID, sequence_number, snapshot_id
from log_format.iceberg.manifest import Snapshot
from log_format.iceberg.schema import OFFSET_ID, PARTITION_ID, table_schema
from log_format.topic.state import TopicState

VERSION_KEY: Final = "tidelog.version"
"""Property and member of a snapshot's summary: the version of the Delta table."""
_FIRST_PARTITION_FIELD: Final = 1_000


def table_uuid(topic_id: str) -> str:
    """Return the table's UUID: the topic's id if that is one, else one that follows from it."""
    try:
        return str(uuid.UUID(topic_id))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"tidelog:{topic_id}"))


def table_metadata(
    state: TopicState,
    store_uri: str,
    snapshots: Sequence[Snapshot],
    pinned: Mapping[int, str],
    *,
    properties: Mapping[str, str],
    now_ms: int,
) -> dict[str, Any]:
    """Return a table's metadata.

    Args:
        state: the topic.
        store_uri: URI of the store, with a slash at its end.
        snapshots: what readers may name, the newest last; at least one.
        pinned: keys of the manifest lists of pinned versions.
        properties: further properties of the table.
        now_ms: present time: expired pins are left out.
    """
    schema = table_schema(state.columns)
    newest = snapshots[-1]
    pins = {
        pin.name: pin for pin in state.pins if not pin.is_expired(now_ms) and _is_named(pin.version, snapshots, pinned)
    }
    listed = {one.version for one in snapshots}
    documents = [_snapshot(one, store_uri) for one in snapshots]
    for version in sorted({pin.version for pin in pins.values()} - listed):
        created_ms = min(pin.created_at_ms for pin in pins.values() if pin.version == version)
        documents.append(_document(version, created_ms, store_uri + pinned[version], {"operation": "append"}))
    tags = {
        name: {"snapshot-id": snapshot_id(pin.version), "type": "tag"} for name, pin in pins.items() if name != "main"
    }
    for document in documents:  # polars reads no snapshot without one
        document["schema-id"] = schema.schema_id
    return {
        "format-version": 2,
        "table-uuid": table_uuid(state.existing_id),
        "location": f"{store_uri}topics/{state.topic}",
        "last-sequence-number": sequence_number(newest.version),
        "last-updated-ms": newest.committed_ms,
        "last-column-id": schema.last_column_id,
        "schemas": [schema.document()],
        "current-schema-id": schema.schema_id,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": _FIRST_PARTITION_FIELD - 1,
        "sort-orders": [{"order-id": SORT_ORDER_ID, "fields": [_ascending(PARTITION_ID), _ascending(OFFSET_ID)]}],
        "default-sort-order-id": SORT_ORDER_ID,
        "properties": {
            "schema.name-mapping.default": schema.name_mapping(),
            "gc.enabled": "false",
            VERSION_KEY: str(newest.version),
            **properties,
        },
        "current-snapshot-id": snapshot_id(newest.version),
        "snapshots": documents,
        "snapshot-log": [
            {"snapshot-id": snapshot_id(one.version), "timestamp-ms": one.committed_ms} for one in snapshots
        ],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": snapshot_id(newest.version), "type": "branch"}} | tags,
    }


def _is_named(version: int, snapshots: Sequence[Snapshot], pinned: Mapping[int, str]) -> bool:
    return version in pinned or any(one.version == version for one in snapshots)


def _ascending(field_id: int) -> dict[str, Any]:
    return {"source-id": field_id, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}


def _snapshot(one: Snapshot, store_uri: str) -> dict[str, Any]:
    summary = {"operation": one.operation} | {name: str(total) for name, total in one.totals.items()}
    return _document(one.version, one.committed_ms, store_uri + one.key, summary)


def _document(version: int, timestamp_ms: int, manifest_list: str, summary: dict[str, str]) -> dict[str, Any]:
    return {
        "snapshot-id": snapshot_id(version),
        "sequence-number": sequence_number(version),
        "timestamp-ms": timestamp_ms,
        "manifest-list": manifest_list,
        "summary": summary | {VERSION_KEY: str(version)},
    }
