"""A file of a Delta table as an entry of an Iceberg manifest: its counts and bounds are those of its ``add``.

A file without readable statistics can't be named: Iceberg needs its number of records. Bounds of numbers are exact. Texts are cut
as in Delta's statistics, upwards where they are upper bounds.

Source: Iceberg table spec, "Manifests", "Binary single-value serialization".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from log_format import layout
from log_format.delta.actions import Add, plain_path
from log_format.errors import DECODE_ERRORS, CorruptData
from log_format.iceberg.schema import Path, TableSchema

EXISTING: Final = 0
ADDED: Final = 1
SORT_ORDER_ID: Final = 1
"""Order of the records in a flushed file: by partition and offset. Rewritten ones may have another."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)


class _Statistics(msgspec.Struct):
    numRecords: int  # noqa: N815 - Delta's names
    minValues: dict[str, Any] = {}  # noqa: N815
    maxValues: dict[str, Any] = {}  # noqa: N815
    nullCount: dict[str, Any] = {}  # noqa: N815


_decode: Final = msgspec.json.Decoder(_Statistics, float_hook=Decimal).decode


def manifest_entry(add: Add, root_uri: str, schema: TableSchema, version: int) -> dict[str, Any]:
    """Return the manifest entry (status ``ADDED``) of a file.

    Args:
        add: what names the file in Delta's log.
        root_uri: URI of the table, ending with a slash.
        schema: the table's schema.
        version: the table's version that adds the file.

    Raises ``CorruptData`` for statistics that can't be read.
    """
    path = plain_path(add.path)
    try:
        found = _decode(add.stats or "")
        if found.numRecords < 0:
            raise ValueError("its number of records is negative")
        nulls = _by_id(found.nullCount, schema)
        lower = _bounds(found.minValues, schema, is_upper=False)
        upper = _bounds(found.maxValues, schema, is_upper=True)
    except (*DECODE_ERRORS, ValueError, TypeError, ArithmeticError, struct.error) as problem:
        raise CorruptData(f"The statistics of {path} can't be read: {problem}.", object=path) from problem
    return {
        "status": ADDED,
        "snapshot_id": snapshot_id(version),
        "sequence_number": sequence_number(version),
        "file_sequence_number": sequence_number(version),
        "data_file": {
            "content": 0,
            "file_path": root_uri + path,
            "file_format": "PARQUET",
            "partition": {},
            "record_count": found.numRecords,
            "file_size_in_bytes": add.size,
            "value_counts": [{"key": number, "value": found.numRecords} for number in nulls],
            "null_value_counts": [{"key": number, "value": count} for number, count in nulls.items()],
            "lower_bounds": [{"key": number, "value": bound} for number, bound in lower.items()],
            "upper_bounds": [{"key": number, "value": bound} for number, bound in upper.items()],
            "sort_order_id": SORT_ORDER_ID if path.startswith(layout.SEGMENTS) else None,
        },
    }


def snapshot_id(version: int) -> int:
    """Return the id of the snapshot that is a version of the table.

    It is the version itself, which the log never uses twice. Some readers take an id 0 for none, so version 0 has another one.
    """
    return version or 1 << 62


def sequence_number(version: int) -> int:
    """Return Iceberg's sequence number of a version: from 1 on."""
    return version + 1


def _by_id(counts: Mapping[str, Any], schema: TableSchema) -> dict[int, int]:
    found = {}
    for path, count in _leaves(counts, ()):
        if path in schema.types and isinstance(count, int):
            found[schema.ids[path]] = count
    return found


def _bounds(values: Mapping[str, Any], schema: TableSchema, *, is_upper: bool) -> dict[int, bytes]:
    found = {}
    for path, value in _leaves(values, ()):
        arrow = schema.types.get(path)
        bound = None if arrow is None or value is None else _bound(value, arrow, is_upper=is_upper)
        if bound is not None:
            found[schema.ids[path]] = bound
    return found


def _leaves(values: Mapping[str, Any], above: Path) -> list[tuple[Path, Any]]:
    found: list[tuple[Path, Any]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            found += _leaves(value, (*above, name))
        else:
            found.append(((*above, name), value))
    return found


def _bound(value: Any, arrow: pa.DataType, *, is_upper: bool) -> bytes | None:
    if pa.types.is_decimal(arrow):
        return _unscaled(Decimal(value), arrow.scale)
    if pa.types.is_floating(arrow):
        number = float(value)
        # Iceberg orders -0.0 below 0.0; Delta's text does not tell which of them a column has.
        number = number or (0.0 if is_upper else -0.0)
        return struct.pack("<f" if arrow == pa.float32() else "<d", number)
    encode = _ENCODERS.get(arrow)
    return None if encode is None else encode(value)


def _unscaled(value: Decimal, scale: int) -> bytes:
    number = int(value.scaleb(scale).to_integral_exact())
    # The fewest bytes of two's complement, big-endian.
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def _micros(text: str) -> bytes:
    since = datetime.fromisoformat(text) - _EPOCH
    return struct.pack("<q", (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)


def _days(text: str) -> bytes:
    return struct.pack("<i", (date.fromisoformat(text) - _EPOCH_DAY).days)


_ENCODERS: Final[Mapping[pa.DataType, Callable[[Any], bytes]]] = {
    pa.int32(): lambda value: struct.pack("<i", int(value)),
    pa.int64(): lambda value: struct.pack("<q", int(value)),
    pa.string(): lambda value: str(value).encode(),
    pa.timestamp("us", tz="UTC"): _micros,
    pa.date32(): _days,
}
