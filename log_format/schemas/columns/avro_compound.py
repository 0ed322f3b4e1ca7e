"""Avro's records, unions, arrays and maps, and the column of many values. The other types are in ``avro``."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records import varints
from log_format.records.varints import Int64s
from log_format.schemas.columns.avro import Reader, Text, Undecodable, long_at
from log_format.schemas.columns.cursor import ALL, Cursor, Fault, Rows, spread, struct_of
from log_format.schemas.columns.map_keys import TWICE, repeated_keys
from log_format.schemas.columns.shape import ListOf, MapOf, Member, Record

_TEXT: Final = Text()
STEP_ROWS_MIN: Final = 64
"""Values that have one more item from which on a step over all of them takes less than reading the item of each alone."""


class _Piece(NamedTuple):
    """Items, the place of each one's value among those that are read, and their names: none for arrays."""

    places: npt.NDArray[np.intp]
    items: pa.Array
    names: pa.Array


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
        """Read the first items of all values, then the second ones, and so on, as long as enough values have one more.

        Values are read alone that have more items than most, several blocks, a block with its size, or anything wrong: that names
        what it is.
        """
        every = cursor.rows_of(rows)
        if len(every) < STEP_ROWS_MIN:
            return pa.array([self._alone(cursor, row, int(cursor.at[row]), path) for row in every.tolist()], self.type)
        starts = cursor.at[every].copy()
        counts, pieces = self._in_steps(cursor, every, path)
        alone = np.flatnonzero(counts < 0)
        if len(alone):
            values = [self._alone(cursor, int(every[at]), int(starts[at]), path) for at in alone.tolist()]
            counts[alone] = [len(value) for value in values]
            column = pa.array(values, self.type)
            names, items = (column.keys, column.items) if self._has_names else (pieces[0].names, column.values)
            pieces.append(_Piece(np.repeat(alone, counts[alone]), items, names))
        places = np.concatenate([piece.places for piece in pieces])
        order = pa.array(np.argsort(places, kind="stable"))
        items = pc.take(pa.concat_arrays([piece.items for piece in pieces]), order)
        offsets = pa.array(np.append(0, np.cumsum(counts)), pa.int32())
        if not self._has_names:
            return pa.ListArray.from_arrays(offsets, items, type=self.type)
        names = pc.take(pa.concat_arrays([piece.names for piece in pieces]), order)
        return pa.MapArray.from_arrays(offsets, names, items, type=self.type)

    def _in_steps(self, cursor: Cursor, rows: npt.NDArray[np.intp], path: str) -> tuple[Int64s, list[_Piece]]:
        """Read an item of each row at a time; return the number of items of each row, below 0 where it is to be read alone."""
        pieces = [_Piece(np.empty(0, np.intp), pa.array([], self._item.type), pa.array([], pa.string()))]
        counts = np.full(len(rows), -1, np.int64)
        known = len(cursor.faults)
        wanted = cursor.longs(rows, path)
        sound = wanted <= (cursor.ends[rows] - cursor.at[rows]) // self._item_bytes_min
        sound &= ~self._forget(cursor, rows, known)
        counts[sound] = wanted[sound]
        places, step = np.flatnonzero(counts > 0), 0
        while len(places):
            if len(places) < STEP_ROWS_MIN:
                counts[places] = -1
                break
            at = rows[places]
            names = cursor.texts(at, path) if self._has_names else pieces[0].names
            pieces.append(_Piece(places, self._item.read(cursor, at, path), names))
            step += 1
            is_last = counts[places] == step
            # Behind the only block there is an empty one.
            ends = places[is_last]
            counts[ends[cursor.longs(rows[ends], path) != 0]] = -1
            counts[places[self._forget(cursor, at, known)]] = -1
            places = places[counts[places] > step]
        if self._has_names:
            counts[self._with_twins(pieces)] = -1
        return counts, [_without(piece, counts) for piece in pieces]

    @staticmethod
    def _forget(cursor: Cursor, rows: npt.NDArray[np.intp], known: int) -> npt.NDArray[np.bool_]:
        """Return which rows became invalid since the cursor had so many faults, and forget why."""
        if len(cursor.faults) == known:
            return np.zeros(len(rows), np.bool_)
        new = list(cursor.faults)[known:]
        for row in new:
            del cursor.faults[row]
        return np.isin(rows, new)

    @staticmethod
    def _with_twins(pieces: list[_Piece]) -> npt.NDArray[np.intp]:
        """Return the places of maps with two equal names."""
        places = np.concatenate([piece.places for piece in pieces])
        order = np.argsort(places, kind="stable")
        names = pc.take(pa.concat_arrays([piece.names for piece in pieces]), pa.array(order))
        return places[order][repeated_keys(names, places[order])]

    def _alone(self, cursor: Cursor, row: int, start: int, path: str) -> list[Any]:
        """Read the items of one row, which begin at ``start``; none where it is invalid."""
        end = int(cursor.ends[row])
        try:
            value, behind = self.one(cursor.data[start:end].tobytes(), 0, path)
        except Undecodable as error:
            cursor.faults.setdefault(row, error.fault)
            value, behind = [], end - start
        cursor.at[row] = start + behind
        return value

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


def _without(piece: _Piece, counts: Int64s) -> _Piece:
    """Return the items of those values that are not read alone."""
    stays = counts[piece.places] >= 0
    if stays.all():
        return piece
    mask = pa.array(stays)
    names = piece.names.filter(mask) if len(piece.names) else piece.names
    return _Piece(piece.places[stays], piece.items.filter(mask), names)


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
