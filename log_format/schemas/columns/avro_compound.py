"""Avro's records, unions, arrays and maps, and the column of many values. The other types are in ``avro``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from log_format.records import varints
from log_format.schemas.columns.avro import Reader, Text, Undecodable, long_at
from log_format.schemas.columns.cursor import ALL, Cursor, Fault, Rows, spread, struct_of
from log_format.schemas.columns.map_keys import TWICE
from log_format.schemas.columns.shape import ListOf, MapOf, Member, Record

_TEXT: Final = Text()


class Row(Reader):
    """A ``record``. Members of type null have no bytes and no column."""

    def __init__(self, members: tuple[tuple[Member, Reader], ...], *, is_open: bool = False) -> None:
        self.shape = Record(tuple(member for member, _ in members), is_open=is_open)
        self._members = [(member.name, reader) for member, reader in members]
        self._names = [name for name, _ in self._members]
        self.bytes_min = sum(reader.bytes_min for _, reader in self._members)
        self.leaves = sum(reader.leaves for _, reader in self._members)

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read the members in their order."""
        count = len(cursor.rows_of(rows))
        prefix = f"{path}." if path else ""
        columns = [reader.read(cursor, rows, prefix + name) for name, reader in self._members]
        return struct_of(columns, self._names, count)

    def one(self, raw: bytes, at: int, path: str) -> tuple[dict[str, Any], int]:
        """Read the members in their order."""
        prefix = f"{path}." if path else ""
        found = {}
        for name, reader in self._members:
            found[name], at = reader.one(raw, at, prefix + name)
        return found, at


class Choice(Reader):
    """A ``union``. ``branches``: a reader for each type, None for null; ``names``: of the members, where there are several."""

    def __init__(self, branches: tuple[Reader | None, ...], names: tuple[str, ...]) -> None:
        self._branches = branches
        present = [reader for reader in branches if reader is not None]
        self._is_simple = len(present) == 1
        self.leaves = sum(reader.leaves for reader in present)
        if self._is_simple:
            self.shape = present[0].shape
        else:
            members = tuple(
                Member(name, reader.shape, is_required=False, is_nullable=True)
                for name, reader in zip(names, present, strict=True)
            )
            self.shape = Record(members, is_union=True)
        self._names = names
        self.is_nullable = None in branches

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read the number of a type, and a value of it."""
        numbers = cursor.longs(rows, path)
        bad = (numbers < 0) | (numbers >= len(self._branches))
        if bad.any():
            cursor.fail(rows, bad, path, f"it must be one of the union's {len(self._branches)} types")
        columns = []
        nothing = np.zeros(len(numbers), np.bool_)
        names = iter(self._names)
        for number, reader in enumerate(self._branches):
            present = numbers == number
            if reader is None:
                nothing |= present
                continue
            where = path if self._is_simple else f"{path}.{next(names)}"
            if present.all():
                columns.append(reader.read(cursor, rows, where))
            elif present.any():
                columns.append(spread(reader.read(cursor, cursor.rows_of(rows)[present], where), present))
            else:
                columns.append(pa.nulls(len(numbers), reader.type))
        if self._is_simple:
            return columns[0]
        fields = [pa.field(name, column.type) for name, column in zip(self._names, columns, strict=True)]
        mask = pa.array(nothing) if nothing.any() else None
        return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)

    def one(self, raw: bytes, at: int, path: str) -> tuple[Any, int]:
        """Read the number of a type, and a value of it."""
        number, at = long_at(raw, at, path)
        if not 0 <= number < len(self._branches):
            raise Undecodable(path, f"it must be one of the union's {len(self._branches)} types")
        reader = self._branches[number]
        if reader is None:
            return None, at
        if self._is_simple:
            return reader.one(raw, at, path)
        name = self._names[sum(one is not None for one in self._branches[:number])]
        value, at = reader.one(raw, at, f"{path}.{name}")
        return {name: value}, at


class Blocks(Reader):
    """An ``array`` of items, or a ``map`` of names to items."""

    def __init__(self, item: Reader, *, has_names: bool) -> None:
        has_nulls = isinstance(item, Choice) and item.is_nullable
        self.shape = MapOf(item.shape, has_nulls) if has_names else ListOf(item.shape, has_nulls)
        self._item = item
        self._has_names = has_names
        self.leaves = item.leaves + has_names
        self._item_bytes_min = max(1, item.bytes_min + has_names)

    def read(self, cursor: Cursor, rows: Rows, path: str) -> pa.Array:
        """Read the items of one value after another."""
        found = []
        for row in cursor.rows_of(rows).tolist():
            start, end = int(cursor.at[row]), int(cursor.ends[row])
            try:
                value, behind = self.one(cursor.data[start:end].tobytes(), 0, path)
            except Undecodable as error:
                cursor.faults.setdefault(row, error.fault)
                value, behind = None, end - start
            cursor.at[row] = start + behind
            found.append(value)
        return pa.array(found, self.type)

    def one(self, raw: bytes, at: int, path: str) -> tuple[list[Any], int]:
        """Read blocks of items until an empty block."""
        found: list[Any] = []
        while True:
            count, at = long_at(raw, at, path)
            if count < 0:
                count = -count
                _, at = long_at(raw, at, path)
            if count == 0:
                if self._has_names and len({name for name, _ in found}) < len(found):
                    raise Undecodable(path, TWICE)
                return found, at
            if count * self._item_bytes_min > len(raw) - at:
                raise Undecodable(path, f"it has {count} items and the value only {len(raw) - at} bytes more")
            for _ in range(count):
                if self._has_names:
                    name, at = _TEXT.one(raw, at, path)
                    value, at = self._item.one(raw, at, f"{path}.{name[:80]}")
                    found.append((name, value))
                else:
                    value, at = self._item.one(raw, at, f"{path}[{len(found)}]")
                    found.append(value)


def column_of(
    reader: Reader, payloads: pa.BinaryArray, skipped: varints.Int64s | int = 0
) -> tuple[pa.Array, dict[int, Fault]]:
    """Return the column of the values, and the fault of each value that can't be decoded, whose row has no meaning.

    Args:
        reader: reader of the schema that the values were written with.
        payloads: the values' bytes, without nulls.
        skipped: bytes at the start of each value that are not Avro.
    """
    cursor = Cursor(payloads, skipped)
    column = reader.read(cursor, ALL, "")
    more = cursor.at != cursor.ends
    if more.any():
        cursor.fail(ALL, more, "", "there are bytes behind the value")
    return column, cursor.faults
