"""Tables as PyIceberg reads them by the catalog, and what they are compared with: deltalake at the same version."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from log_format.iceberg.data_file import snapshot_id

ORDER = [("partition", "ascending"), ("offset", "ascending")]


def iceberg_catalog(gateway_url: str, **properties: str) -> RestCatalog:
    """The catalog of a gateway, as a user names it."""
    properties = {"oauth2-server-uri": f"{gateway_url}/iceberg/v1/oauth/tokens", **properties}
    found = load_catalog("tidelog", type="rest", uri=f"{gateway_url}/iceberg", **properties)
    assert isinstance(found, RestCatalog)
    return found


def checksum(rows: pa.Table) -> tuple[int, int]:
    """Number of rows, and a CRC-32 of all their values, whatever their order and the kinds of text that Arrow has."""
    listed = rows.sort_by(ORDER).to_pylist() if rows.num_rows else []
    return len(listed), zlib.crc32(repr([sorted(_plain(row).items()) for row in listed]).encode())


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """No headers are null or an empty list (docs/format/tables.md, section 3)."""
    return {name: value for name, value in row.items() if not (name == "headers" and not value)}


def version_of(table: Table) -> int:
    """The version of the Delta table that is the newest snapshot."""
    return int(table.properties["tidelog.version"])


def assert_equal_at(table: Table, delta: str, version: int, storage: dict[str, str] | None = None) -> pa.Table:
    """Iceberg's snapshot has exactly the records of the Delta version that it names; they are returned."""
    found = table.scan(snapshot_id=snapshot_id(version)).to_arrow()
    wanted = DeltaTable(delta, version=version, storage_options=storage).to_pyarrow_table()
    assert checksum(found) == checksum(wanted.select(found.column_names))
    assert set(found.column_names) >= set(wanted.column_names)
    return found
