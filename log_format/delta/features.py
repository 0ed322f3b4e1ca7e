"""The Delta features that no table of Tidelog has. Readers and writers stop at them, since they would misread the table.

A table has protocol 1/3 (reader, writer) or lower, and no partition columns, column mapping or deletion vectors. Any program may
commit to it by the protocol's rules within these bounds. A commit or checkpoint that says otherwise is where reading ends: the
version before it is the last one, until that object is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from log_format.errors import UnsupportedTable

READER_VERSION: Final = 1
WRITER_VERSION: Final = 3
"""3: a topic that was ever at a journal. Releases before journals take 2 at most, so they never append beside one."""
_COLUMN_MAPPING: Final = "delta.columnMapping.mode"


def refuse_protocol(key: str, reader_version: int, writer_version: int, features: Iterable[str] = ()) -> None:
    """Raise ``UnsupportedTable`` for a protocol above ours; ``key`` names the object that says so."""
    if reader_version <= READER_VERSION and writer_version <= WRITER_VERSION:
        return
    named = ", ".join(sorted(set(features)))
    what = f"the Delta protocol {reader_version}/{writer_version}" + (f" ({named})" if named else "")
    raise refusal(key, f"{what}, and Tidelog has {READER_VERSION}/{WRITER_VERSION}")


def refuse_metadata(key: str, partition_columns: Sequence[str], configuration: Mapping[str, str]) -> None:
    """Raise ``UnsupportedTable`` for ``metaData`` with partition columns or column mapping."""
    if partition_columns:
        raise refusal(key, f"partition columns ({', '.join(partition_columns)})")
    if configuration.get(_COLUMN_MAPPING, "none") != "none":
        raise refusal(key, f"column mapping ({_COLUMN_MAPPING})")


def refusal(key: str, what: str) -> UnsupportedTable:
    """The error about an object of a log that asks for ``what``."""
    return UnsupportedTable(
        f"Another program gave the table a feature that Tidelog does not support: {key} asks for {what}. Nothing after it "
        "is read or written. Stop that program; docs/operations.md, Foreign features, says how to go on.",
        object=key,
    )
