"""How typed columns are encoded: what a codec and a dictionary are for, and statistics that are exact whoever finds them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from log_format.records.schema import HEADERS, TIMESTAMP
from log_format.records.typed_columns import TypedColumns, record_schema
from log_format.segments.column_statistics import collect_statistics
from log_format.segments.encoding_options import SMALL_RUN_RECORDS
from log_format.segments.segment import encode_segment

ORDER = pa.struct(
    [
        ("id", pa.int64()),
        ("amount", pa.float64()),
        ("city", pa.string()),
        ("token", pa.string()),
        ("paid", pa.bool_()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("place", pa.struct([("zone", pa.string()), ("gone", pa.string())])),
    ]
)
LONG = "z" * 10_000
"""A text that Parquet's statistics leave out."""


def _order(number: int, **members: Any) -> dict[str, Any]:
    place = {"zone": f"zone{number % 3}", "gone": None}
    plain = {"id": number, "amount": number / 8, "city": "Berlin", "token": f"{number * 7919 % 10_007:x}"}
    return plain | {"paid": number % 2 == 0, "tags": ["a"], "place": place} | members


def _records(orders: list[Any], partitions: int = 2) -> pa.Table:
    count = len(orders)
    owners = np.sort(np.arange(count, dtype=np.int32) % partitions)
    columns = [
        pa.array(owners),
        pa.array(range(count), pa.int64()),
        pa.array([10**15] * count, pa.int64()).cast(TIMESTAMP),
        pa.array([b"k"] * count, pa.binary()),
        pa.nulls(count, pa.binary()),
        pa.nulls(count, HEADERS),
        pa.array(orders, ORDER),
        pa.nulls(count, pa.string()),
    ]
    return pa.Table.from_arrays(columns, schema=record_schema(TypedColumns(ORDER)))


def _columns(records: pa.Table) -> dict[str, Any]:
    """The first row group's Parquet columns, by path."""
    metadata = pq.read_metadata(pa.BufferReader(encode_segment(records, compression="zstd").data))
    group = metadata.row_group(0)
    return {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}


LARGE = [_order(number) for number in range(2 * SMALL_RUN_RECORDS)]
HALF_NULL = [None] * SMALL_RUN_RECORDS + LARGE[SMALL_RUN_RECORDS:]
"""One partition has no values at all."""


@pytest.mark.parametrize(
    "orders",
    [
        LARGE[:10],
        LARGE,
        HALF_NULL,
        [*LARGE[:-1], _order(0, city=LONG)],
        [*LARGE[:-1], _order(0, city="Ægir", amount=-math.inf)],
        [*LARGE[:-1], _order(0, city=None, amount=math.nan)],
        [_order(0, city=LONG, amount=math.nan), *LARGE[1:9]],
    ],
)
def test_statistics_are_those_of_the_values(orders: list[Any]) -> None:
    """Least and largest values are those of Python, in small and large segments, with nulls, NaN, and texts of any length."""
    records = _records(orders)
    found = encode_segment(records, compression="zstd").statistics
    assert found == collect_statistics(records)
    for name in ("id", "amount", "city", "token"):
        values = [order[name] for order in orders if order is not None and order[name] is not None]
        bound = found.bounds.get(("data", name))
        is_unsure = any(isinstance(value, float) and math.isnan(value) for value in values)
        assert bound == (None if is_unsure else (min(values), max(values)))
    assert ("data", "place", "gone") not in found.bounds
    assert found.nulls["data", "place", "gone"] == len(orders)


def test_a_large_segment_has_statistics_in_its_row_groups() -> None:
    """Readers of Parquet skip row groups by them; real numbers with NaN have none, which Spark takes for the largest."""
    columns = _columns(_records(LARGE))
    assert all(column.is_stats_set for path, column in columns.items() if path.startswith("data."))
    assert not _columns(_records([*LARGE[:-1], _order(0, amount=math.nan)]))["data.amount"].is_stats_set
    assert not any(column.is_stats_set for path, column in _columns(_records(LARGE[:10])).items() if "data" in path)


def test_a_dictionary_is_for_texts_that_repeat() -> None:
    """Others would be stored twice, and nothing has a dictionary or a codec that has no values."""
    columns = _columns(_records(LARGE))
    with_dictionary = {path for path, column in columns.items() if column.has_dictionary_page}
    assert with_dictionary == {"key", "data.city", "data.place.zone", "data.tags.list.element"}
    empty = {path for path, column in columns.items() if column.compression == "UNCOMPRESSED"}
    assert empty >= {"value", "data.place.gone", "data_error"}
    assert not any(path.startswith("data.") for path in empty - {"data.place.gone"})


def test_small_row_groups_have_a_codec_where_nothing_else_makes_values_small() -> None:
    """Real numbers and texts that do not repeat; also large texts of a dictionary."""
    columns = _columns(_records(LARGE[:200]))
    compressed = {path for path, column in columns.items() if column.compression == "ZSTD" and "data" in path}
    assert compressed == {"data.amount", "data.token", "data.tags.list.element"}
    large = _columns(_records([_order(number, city="Berlin" * 100) for number in range(200)]))
    assert large["data.city"].compression == "ZSTD"
