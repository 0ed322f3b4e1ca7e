"""The feature that keeps other writers away from Tidelog's tables, and the features that stop a reader of Tidelog.

A new table has protocol 1/7 with one writer feature, ``tidelog``. Nothing changes for readers: every reader of Delta accepts it.
A writer must know each feature by name, so all writers except Tidelog refuse the table (Delta protocol, "Table Features"). Tables
of earlier releases have 1/2 or 1/3 until their settings change, or the next round of maintenance.

A commit or checkpoint of Tidelog that asks for more was written by a later release: reading ends at the version before it. What
other programs' commits ask for does not count (``foreign``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from log_format.errors import UnsupportedTable

FEATURE: Final = "tidelog"
COLUMNS_FEATURE: Final = "tidelog-columns"
"""Feature of a table with typed columns, so that releases that would drop them stop."""
TABLE_FEATURE: Final = "tidelog-table"
"""Feature of a topic's table with an archive, erasures or pins, so that releases that don't know them stop. It stays."""
READER_VERSION: Final = 1
WRITER_VERSION: Final = 7
_FEATURES: Final = frozenset({FEATURE, COLUMNS_FEATURE, TABLE_FEATURE})
_LEGACY_WRITER_VERSION: Final = 3
_COLUMN_MAPPING: Final = "delta.columnMapping.mode"


def refuse_protocol(
    key: str,
    reader_version: int,
    writer_version: int,
    features: Iterable[str] = (),
    *,
    known: Collection[str] = _FEATURES,
) -> None:
    """Raise ``UnsupportedTable`` for a protocol above ours.

    Args:
        key: object with the protocol, named in the error.
        reader_version: its ``minReaderVersion``.
        writer_version: its ``minWriterVersion``.
        features: its reader and writer features.
        known: the features that a release knows.
    """
    named = set(features)
    is_ours = writer_version == WRITER_VERSION and named.issubset(known)
    if reader_version <= READER_VERSION and (is_ours or writer_version <= _LEGACY_WRITER_VERSION):
        return
    what = f"the Delta protocol {reader_version}/{writer_version}"
    if named.difference(known):
        what += f" ({', '.join(sorted(named.difference(known)))})"
    raise unsupported_error(key, what)


def refuse_metadata(key: str, partition_columns: Sequence[str], configuration: Mapping[str, str]) -> None:
    """Raise ``UnsupportedTable`` for ``metaData`` with partition columns or column mapping."""
    if partition_columns:
        raise unsupported_error(key, f"partition columns ({', '.join(partition_columns)})")
    if configuration.get(_COLUMN_MAPPING, "none") != "none":
        raise unsupported_error(key, f"column mapping ({_COLUMN_MAPPING})")


def unsupported_error(key: str, what: str) -> UnsupportedTable:
    """Return the error about an object of a log that asks for ``what``."""
    return UnsupportedTable(
        f"{key} requires {what}, which this release of Tidelog does not support. Nothing after it is read or written. "
        "A later release wrote it: run that release here, too.",
        object=key,
    )
