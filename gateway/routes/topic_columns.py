"""The typed columns of a topic in its description: each member's name in a query, and its type."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict

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
