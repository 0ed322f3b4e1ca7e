"""Arrays and maps of many Avro values, whose items are read in steps over all values."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from log_format.schemas.columns.avro import Undecodable
from log_format.schemas.columns.avro_compound import STEP_ROWS_MIN, column_of
from log_format.schemas.columns.avro_schema import avro_reader


def _list_reader(kind: str, items: Any) -> Any:
    part = {"type": kind, ("items" if kind == "array" else "values"): items}
    return avro_reader(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": part}]}))


_USUAL = bytes([4, 2, 4, 0])
"""An array of 1 and 2: two items, an empty block."""


@pytest.mark.parametrize(
    ("odd", "items"),
    [
        (bytes([0]), []),
        (bytes([2, 2, 2, 4, 0]), [1, 2]),
        (bytes([3, 4, 2, 4, 0]), [1, 2]),
        (bytes([6, 2, 4, 6, 0]), [1, 2, 3]),
        (bytes([2 * 63, *[2] * 63, 0]), [1] * 63),
    ],
    ids=["empty", "two blocks", "a block with its size", "more items than the others", "many more"],
)
def test_unusual_arrays_among_usual_ones(odd: bytes, items: list[int]) -> None:
    """Whatever layout an array has, it is read as if alone, and the others beside it, too."""
    count = 2 * STEP_ROWS_MIN
    column, faults = column_of(_list_reader("array", "long"), pa.array([_USUAL] * count + [odd] + [_USUAL] * count))
    assert not faults
    assert column.field("a").to_pylist() == [[1, 2]] * count + [items] + [[1, 2]] * count


@pytest.mark.parametrize(
    "bad",
    [b"", bytes([4, 2]), bytes([4, 2, 4]), bytes([4, 2, 4, 2, 6]), bytes([200, 1, 2, 0]), bytes([4, 2, 4, 0, 0])],
    ids=["nothing", "an item is missing", "no end", "no second end", "more items than bytes", "a byte behind"],
)
def test_damaged_arrays_among_others(bad: bytes) -> None:
    """A damaged array is named with the same place and words as alone, and its neighbours are not disturbed."""
    reader, count = _list_reader("array", "long"), 2 * STEP_ROWS_MIN
    _, alone = column_of(reader, pa.array([bad]))
    # A byte 0 behind a value must not end it.
    column, faults = column_of(reader, pa.array([_USUAL] * count + [bad, b"\0", bad] + [_USUAL] * count))
    assert faults == dict.fromkeys((count, count + 2), alone[0])
    assert column.field("a").to_pylist()[:count] == [[1, 2]] * count
    assert column.field("a").to_pylist()[-count:] == [[1, 2]] * count


def test_a_map_with_a_key_twice_among_others() -> None:
    """It is refused by the words that say so; equal keys of different maps are none."""
    reader, count = _list_reader("map", "long"), 2 * STEP_ROWS_MIN
    usual, twice = b"\x04\x02x\x02\x02y\x04\x00", b"\x04\x02x\x02\x02x\x04\x00"
    column, faults = column_of(reader, pa.array([usual] * count + [twice] + [usual] * count))
    with pytest.raises(Undecodable) as alone:
        reader.one(twice, 0, "")
    assert faults == {count: alone.value.fault}
    assert column.field("a").to_pylist()[-1] == [("x", 1), ("y", 2)]


def test_a_name_that_is_not_utf8_among_others() -> None:
    """Only its map is refused, with the place that it has alone."""
    reader, count = _list_reader("map", {"type": "array", "items": "string"}), 2 * STEP_ROWS_MIN
    usual, bad = b"\x02\x02x\x02\x02z\x00\x00", b"\x02\x02x\x02\x02\xff\x00\x00"
    _, alone = column_of(reader, pa.array([bad]))
    column, faults = column_of(reader, pa.array([usual] * count + [bad] + [usual] * count))
    assert faults == {count: alone[0]}
    assert alone[0].path == "a.x[0]"
    assert column.field("a").to_pylist()[0] == [("x", ["z"])]
