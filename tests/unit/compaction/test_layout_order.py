"""The order of laid out files: what is near in every column is near in the file."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compaction.layout_order import LayoutOrder, hilbert_codes
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns


@pytest.mark.parametrize(("axes", "bits"), [(2, 1), (2, 4), (3, 3), (4, 2)])
def test_the_curve_visits_each_point_and_never_jumps(axes: int, bits: int) -> None:
    """Each place on the curve belongs to one point, and the next one is its neighbour."""
    points = np.array([*product(range(1 << bits), repeat=axes)], np.uint64)
    codes = hilbert_codes([*points.T], bits)
    assert sorted(codes.tolist()) == [*range(1 << bits * axes)]
    path = points[np.argsort(codes)].astype(np.int64)
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()


def records(**columns: Any) -> pa.Table:
    count = len(next(iter(columns.values())))
    found = {"partition": np.zeros(count, np.int32), "offset": np.arange(count), **columns}
    return pa.table({name: value if isinstance(value, pa.Array) else pa.array(value) for name, value in found.items()})


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (pa.array([b"c", None, b"a", b"b", b"a"]), [2, 4, 3, 0, 1]),
        (pa.array(["c", None, "a", "b", "a"]), [2, 4, 3, 0, 1]),
        (pa.array([3.5, None, float("-inf"), 0.0, 0.0]), [2, 3, 4, 0, 1]),
        (pa.array([3, None, -(2**63), 2, 2**63 - 1]), [2, 3, 0, 4, 1]),
        (pa.array([True, None, False, True, False]), [2, 4, 0, 3, 1]),
    ],
    ids=["binary", "string", "double", "int64", "bool"],
)
def test_one_column_is_sorted(values: pa.Array, order: list[int]) -> None:
    """Values of any type are in their own order, those that are alike in the order of offsets, and nulls come last; the rough
    places agree with it."""
    typed = TypedColumns(data=pa.struct([("id", values.type)]))
    given = records(data=pa.StructArray.from_arrays([values], names=["id"]))
    layout = LayoutOrder.of_sample(["data.id"], typed, [given])
    found = layout.sort(given)
    assert found.column("offset").to_pylist() == order
    assert (np.diff(layout.codes(found).astype(np.int64)) >= 0).all()


def test_columns_that_records_lack_are_nulls() -> None:
    """A typed column that the table has and a file has not, or that nothing has, is null; it does not stop a rewrite."""
    typed = TypedColumns(data=pa.struct([("id", pa.int64()), ("old", pa.struct([("x", pa.string())]))]))
    given = records(data=pa.array([{"id": 2}, {"id": 1}, None], pa.struct([("id", pa.int64())])))
    order = LayoutOrder.of_sample(["data.id", "data.old.x", "data.none", "data.old"], typed, [given])
    assert order.sort(given).column("offset").to_pylist() == [1, 0, 2]
    plain = records(key=pa.array([b"b", b"a"]))
    by_nothing = LayoutOrder.of_sample(["data.id"], NO_TYPED_COLUMNS, [plain])
    assert by_nothing.sort(plain).column("offset").to_pylist() == [0, 1]


def test_a_row_group_is_narrow_in_each_column() -> None:
    """With two columns of random values a hundredth of the records has less than a quarter of either column's values. In a plain
    sort the second column would have nearly all. A tenth is what a curve can reach at best."""
    random = np.random.default_rng(7)
    numbers, times = random.permutation(4096), random.permutation(4096)
    given = records(
        key=pa.array([b"%08d" % number for number in numbers]),
        timestamp=pa.array(times).cast(pa.timestamp("us", "UTC")),
        number=numbers,
        time=times,
    )
    found = LayoutOrder.of_sample(["key", "timestamp"], NO_TYPED_COLUMNS, [given.slice(0, 2048)]).sort(given)
    for name in ("number", "time"):
        values = found.column(name).to_numpy()
        widths = [np.ptp(values[start : start + 41]) for start in range(0, 4096 - 41, 41)]
        assert np.mean(widths) < 4096 / 4, (name, np.mean(widths))
