"""Parts of a topic's description: its typed columns, and the last commit of another program."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

from gateway.http import fields
from log_format.delta.foreign import ForeignWrites
from log_format.delta.table_schema import column_types
from log_format.records.typed_columns import TypedColumns

_FRAME_BYTES: Final = 40
"""Bytes of a column's JSON around its name and type, and of making it."""


class Column(TypedDict):
    """A member of a typed column. `name`: what a query says, such as `data.amount`; `type`: its type by Delta's names."""

    name: str
    type: str


def describe_columns(columns: TypedColumns) -> list[Column]:
    """Return the members of the columns in the table's order; members of structs have their path as name."""
    return [{"name": name, "type": kind} for name, kind in column_types(columns.fields())]


def described_bytes(columns: list[Column]) -> int:
    """Return the estimated size of the columns' JSON."""
    return sum(_FRAME_BYTES + len(one["name"]) + len(one["type"]) for one in columns)


class Foreign(TypedDict):
    """The last commit that another program made to the topic's table; it had no effect on the log. `put_back`: readers of
    Delta again see the table without that commit."""

    version: fields.Count
    program: str
    operation: str
    at: fields.Timestamp | None
    put_back: bool


def describe_foreign(foreign: ForeignWrites) -> Foreign | None:
    """Return the description; None if no other program wrote."""
    last = foreign.last
    if last is None:
        return None
    return {
        "version": last.version,
        "program": last.program,
        "operation": last.operation,
        "at": last.at_ms,
        "put_back": foreign.is_reverted,
    }
