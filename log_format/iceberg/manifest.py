"""The bytes of manifests and manifest lists (Avro), with Iceberg's field ids.

A manifest names files; a list names the manifests of one snapshot, which is one version of the table. The list's metadata has a
``Catalogued`` for Tidelog itself, from which the next list is made.

Source: Iceberg table spec, "Manifests", "Manifest Lists", version 2.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from log_format.errors import CorruptData
from log_format.iceberg.data_file import ADDED, EXISTING, sequence_number, snapshot_id
from log_format.iceberg.schema import TableSchema

CATALOGUED_KEY: Final = "tidelog.catalogued"
_CODEC: Final = "deflate"
_MAGIC: Final = b"Obj\x01"
_DAMAGED: Final = (
    ValueError,
    TypeError,
    LookupError,
    EOFError,
    ArithmeticError,
    AttributeError,
    struct.error,
    zlib.error,
)
"""What the library raises for damaged bytes."""


def _field(number: int, name: str, kind: Any, *, optional: bool = False) -> dict[str, Any]:
    if optional:
        return {"name": name, "type": ["null", kind], "default": None, "field-id": number}
    return {"name": name, "type": kind, "field-id": number}


def _map(number: int, name: str, key: int, value: int, of: str) -> dict[str, Any]:
    entry = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int"), _field(value, "value", of)],
    }
    return _field(number, name, {"type": "array", "items": entry, "logicalType": "map"}, optional=True)


_DATA_FILE: Final = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _map(109, "value_counts", 119, 120, "long"),
        _map(110, "null_value_counts", 121, 122, "long"),
        _map(125, "lower_bounds", 126, 127, "bytes"),
        _map(128, "upper_bounds", 129, 130, "bytes"),
        _field(140, "sort_order_id", "int", optional=True),
    ],
}
_ENTRY: Final = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", "long", optional=True),
        _field(3, "sequence_number", "long", optional=True),
        _field(4, "file_sequence_number", "long", optional=True),
        _field(2, "data_file", _DATA_FILE),
    ],
}
_MANIFEST: Final = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        _field(517, "content", "int"),
        _field(515, "sequence_number", "long"),
        _field(516, "min_sequence_number", "long"),
        _field(503, "added_snapshot_id", "long"),
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
    ],
}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A manifest in the store. ``key``: its object's. ``snapshot_id`` and ``sequence_number``: of the version that it was made
    for."""

    key: str
    size_bytes: int
    snapshot_id: int
    sequence_number: int
    min_sequence_number: int
    added_count: int
    existing_count: int
    added_rows: int
    existing_rows: int
    file_bytes: int
    """Bytes of the files that it names."""

    @property
    def file_count(self) -> int:
        """Number of files that it names."""
        return self.added_count + self.existing_count

    @property
    def row_count(self) -> int:
        """Number of records in these files."""
        return self.added_rows + self.existing_rows


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A version of the table that readers may name. Times are ms since the epoch."""

    version: int
    key: str
    """Key of its manifest list."""
    committed_ms: int
    head_seen_ms: int
    """When the version was last seen to be the newest."""
    operation: str
    """What changed since the snapshot before: ``append``, ``replace``, ``overwrite`` or ``delete``."""
    totals: dict[str, int]
    """Iceberg's summary: numbers of files, records and bytes."""


class Catalogued(msgspec.Struct, frozen=True, kw_only=True):
    """The newest snapshot with what was there before. It is in the list's metadata."""

    topic_id: str
    root_uri: str
    """URI of the table: a copy of the store has another one, and makes manifests of its own."""
    ids: dict[str, int]
    """Ids of the typed columns' members by the names down to them, separated by NUL."""
    manifests: tuple[Manifest, ...]
    snapshot: Snapshot
    history: tuple[Snapshot, ...] = ()
    """Earlier snapshots that readers may name, the oldest first."""
    is_unsettled: bool = False
    """Whether another program's commit was not put back yet."""
    retired: dict[str, int] = {}
    """Keys of objects that no later snapshot needs, and since when."""
    loaded_ms: int = 0
    """When somebody loaded the table, as far as it was noted; 0: when the snapshot was made."""

    @property
    def last_loaded_ms(self) -> int:
        """Time before which nobody is known to have loaded the table, in ms since the epoch."""
        return self.loaded_ms or self.snapshot.head_seen_ms


_decode_catalogued: Final = msgspec.json.Decoder(Catalogued).decode


def encode_manifest(entries: Sequence[Mapping[str, Any]], schema: TableSchema) -> bytes:
    """Return a manifest with these entries (``manifest_entry``)."""
    document = schema.document()
    metadata = {
        "schema": msgspec.json.encode(document).decode(),
        "schema-id": str(schema.schema_id),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return _encode(_ENTRY, entries, metadata)


def describe_manifest(entries: Sequence[Mapping[str, Any]], *, key: str, size_bytes: int, version: int) -> Manifest:
    """Return what a list says of a manifest with these entries, at least one, which was made for a version."""
    files = {status: [one["data_file"] for one in entries if one["status"] == status] for status in (ADDED, EXISTING)}
    return Manifest(
        key=key,
        size_bytes=size_bytes,
        snapshot_id=snapshot_id(version),
        sequence_number=sequence_number(version),
        min_sequence_number=min(one["sequence_number"] for one in entries),
        added_count=len(files[ADDED]),
        existing_count=len(files[EXISTING]),
        added_rows=sum(one["record_count"] for one in files[ADDED]),
        existing_rows=sum(one["record_count"] for one in files[EXISTING]),
        file_bytes=sum(one["file_size_in_bytes"] for of in files.values() for one in of),
    )


def decode_manifest(data: bytes, key: str) -> list[dict[str, Any]]:
    """Return the entries of a manifest of Tidelog. Raises ``CorruptData``."""
    return list(_records(data, key))


def encode_manifest_list(catalogued: Catalogued, store_uri: str) -> bytes:
    """Return the list of a snapshot's manifests. ``store_uri``: URI of the store, with a slash at its end."""
    version = catalogued.snapshot.version
    rows = [
        {
            "manifest_path": store_uri + one.key,
            "manifest_length": one.size_bytes,
            "partition_spec_id": 0,
            "content": 0,
            "sequence_number": one.sequence_number,
            "min_sequence_number": one.min_sequence_number,
            "added_snapshot_id": one.snapshot_id,
            "added_files_count": one.added_count,
            "existing_files_count": one.existing_count,
            "deleted_files_count": 0,
            "added_rows_count": one.added_rows,
            "existing_rows_count": one.existing_rows,
            "deleted_rows_count": 0,
        }
        for one in catalogued.manifests
    ]
    metadata = {
        "snapshot-id": str(snapshot_id(version)),
        "sequence-number": str(sequence_number(version)),
        "format-version": "2",
        CATALOGUED_KEY: msgspec.json.encode(catalogued).decode(),
    }
    return _encode(_MANIFEST, rows, metadata)


def decode_catalogued(data: bytes, key: str) -> Catalogued:
    """Return what a manifest list says for Tidelog. Raises ``CorruptData``."""
    try:
        return _decode_catalogued(_file_metadata(data)[CATALOGUED_KEY])
    except _DAMAGED as problem:
        raise CorruptData(f"{key} is no manifest list of Tidelog: {problem}.", object=key) from problem


def without_files(entries: Iterable[dict[str, Any]], paths: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the entries of files that stay, as ones of earlier snapshots. Takes the paths that it finds out of ``paths``."""
    for entry in entries:
        path = entry["data_file"]["file_path"]
        if path in paths:
            paths.discard(path)
        else:
            yield entry | {"status": EXISTING}


def _file_metadata(data: bytes) -> dict[str, bytes]:
    """Return the metadata of an Avro file. Raises ``ValueError``, ``LookupError``.

    Source: Apache Avro specification, "Object Container Files".
    """
    if data[:4] != _MAGIC:
        raise ValueError("it is no Avro file")
    found: dict[str, bytes] = {}
    count, at = _long(data, 4)
    while count:
        if count < 0:  # the block's size in bytes follows
            count, (_, at) = -count, _long(data, at)
        for _ in range(count):
            size, at = _long(data, at)
            name, at = data[at : at + size].decode(), at + size
            size, at = _long(data, at)
            found[name], at = data[at : at + size], at + size
        count, at = _long(data, at)
    return found


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return Avro's ``long`` at a position, and the position behind it. Raises ``LookupError`` at the end."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at


def _encode(schema: Any, records: Iterable[Mapping[str, Any]], metadata: dict[str, str]) -> bytes:
    import fastavro  # noqa: PLC0415 - gateways have it; maintenance, which reads metadata only, need not

    target = io.BytesIO()
    # A generator runs Python's own code between two records, so that other threads get their turn.
    fastavro.writer(target, schema, (record for record in records), codec=_CODEC, metadata=metadata)
    return target.getvalue()


def _records(data: bytes, key: str) -> Iterator[dict[str, Any]]:
    import fastavro  # noqa: PLC0415 - as above

    try:
        for record in fastavro.reader(io.BytesIO(data)):
            if isinstance(record, dict):
                yield record
    except _DAMAGED as problem:
        raise CorruptData(f"{key} can't be read: {problem}.", object=key) from problem
