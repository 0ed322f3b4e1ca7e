"""Statistics of a segment's typed columns for the ``add``: by them readers of Delta skip files.

Only members that are reached through structs have statistics: the first 32 of them, and ``data_error``. Least and largest values
are there only where they are certain: not for booleans and binary, nor for numbers among which is NaN. Texts are cut to 32
characters.

Source: Delta protocol, "Per-file Statistics".
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.data_skipping import TEXT_CHARACTERS
from log_format.records.typed_columns import DATA, DATA_ERROR, KEY_DATA, TYPED_NAMES, are_unjudged, typed_columns

LEAVES_MAX: Final = 32
_LARGEST_CHARACTER: Final = "\U0010ffff"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Number of nulls, least and largest value by path, for example ``("data", "id")``."""

    nulls: Mapping[Path, int] = field(default_factory=dict)
    bounds: Mapping[Path, tuple[Any, Any]] = field(default_factory=dict)
    judged: tuple[str, ...] = ()
    """Typed columns by whose schemas every record was judged."""

    def nested(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Return ``minValues``, ``maxValues`` and ``nullCount``, as values of JSON."""
        low = _nested({path: _least(bound[0]) for path, bound in self.bounds.items()})
        high = _nested({path: _largest(bound[1]) for path, bound in self.bounds.items()})
        return low, high, _nested(self.nulls)


NO_STATISTICS: Final = ColumnStatistics()


class Member(NamedTuple):
    """A member that has statistics: the index of its column in the file, and its values."""

    column: int
    values: pa.ChunkedArray


def struct_members(records: pa.Table) -> dict[Path, Member]:
    """Return the members that have statistics, by path."""
    found: dict[Path, Member] = {}
    if not typed_columns(records.schema):
        return found
    column = 0
    for one in records.schema:
        if one.name in TYPED_NAMES:
            _add_members(found, (one.name,), column, records.column(one.name))
        column += _column_count(one.type)
    return found


def collect_statistics(
    records: pa.Table, members: Mapping[Path, Member] | None = None, *, has_texts: bool = True
) -> ColumnStatistics:
    """Return the statistics of the typed columns of the records.

    Args:
        records: the records.
        members: ``struct_members`` of the records, if they are known.
        has_texts: whether texts have bounds; if not, ``with_text_bounds`` adds them.
    """
    columns = typed_columns(records.schema)
    if not columns:
        return NO_STATISTICS
    members = struct_members(records) if members is None else members
    nulls = {path: member.values.null_count for path, member in members.items()}
    bounds = {}
    for path, member in members.items():
        bound = _bound(member.values) if has_texts or not pa.types.is_string(member.values.type) else None
        if bound is not None:
            bounds[path] = bound
    names = [one.name for one in columns.fields() if one.name != DATA_ERROR]
    return ColumnStatistics(nulls, bounds, tuple(name for name in names if are_unjudged(records, name) is None))


def with_text_bounds(statistics: ColumnStatistics, members: Mapping[Path, Member], written: Any) -> ColumnStatistics:
    """Return statistics with the bounds of texts, which Parquet's writer has found already: comparing texts takes long.

    ``written``: pyarrow's ``FileMetaData`` of the segment. What it lacks, since a text is too long for it, is found here.
    """
    groups = [written.row_group(index) for index in range(written.num_row_groups)]
    bounds = dict(statistics.bounds)
    texts = {path: member for path, member in members.items() if pa.types.is_string(member.values.type)}
    for path, (column, values) in texts.items():
        found = [group.column(column).statistics for group in groups]
        having = [one for one in found if one is None or one.num_values]
        if having and all(one is not None and one.has_min_max for one in having):
            low, high = min(one.min_raw for one in having), max(one.max_raw for one in having)
            bounds[path] = low.decode(), high.decode()
        elif having:
            bound = _bound(values)
            assert bound is not None
            bounds[path] = bound
    return replace(statistics, bounds=bounds)


def merge_statistics(parts: Sequence[ColumnStatistics], counts: Sequence[int]) -> ColumnStatistics:
    """Return the statistics of records in several parts, with the number of records of each. A part without a path has only nulls
    there; a part with nulls only has no bound."""
    paths = dict.fromkeys(path for part in parts for path in part.nulls)
    nulls = {
        path: sum(part.nulls.get(path, count) for part, count in zip(parts, counts, strict=True)) for path in paths
    }
    bounds = {}
    for path in paths:
        having = [
            (part, count)
            for part, count in zip(parts, counts, strict=True)
            if path in part.nulls and part.nulls[path] < count
        ]
        if having and all(path in part.bounds for part, _ in having):
            found = [part.bounds[path] for part, _ in having]
            bounds[path] = (min(low for low, _ in found), max(high for _, high in found))
    judged = [name for name in (DATA, KEY_DATA) if parts and all(name in part.judged for part in parts)]
    return ColumnStatistics(nulls, bounds, tuple(judged))


def _add_members(found: dict[Path, Member], path: Path, column: int, values: pa.ChunkedArray) -> None:
    if pa.types.is_struct(values.type):
        for one, child in zip(values.type, values.flatten(), strict=True):
            _add_members(found, (*path, one.name), column, child)
            column += _column_count(one.type)
    elif not pa.types.is_nested(values.type) and (len(found) < LEAVES_MAX or path == (DATA_ERROR,)):
        found[path] = Member(column, values)


def _column_count(arrow: pa.DataType) -> int:
    """Return the number of Parquet columns of a type."""
    return sum(_column_count(arrow.field(index).type) for index in range(arrow.num_fields)) or 1


def _bound(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    arrow = values.type
    if pa.types.is_boolean(arrow) or pa.types.is_binary(arrow) or values.null_count == len(values):
        return None
    if pa.types.is_floating(arrow):
        return _real_bound(values)
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()


def _real_bound(values: pa.ChunkedArray) -> tuple[float, float] | None:
    """Return the bounds of real numbers, of which not all are null; None if NaN is among them."""
    present = values.drop_null() if values.null_count else values
    with np.errstate(invalid="ignore"):
        chunks = [chunk.to_numpy() for chunk in present.chunks if len(chunk)]
        low, high = np.min([chunk.min() for chunk in chunks]), np.max([chunk.max() for chunk in chunks])
    return None if np.isnan(low) else (float(low), float(high))


def _nested(values: Mapping[Path, Any]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, value in values.items():
        at = root
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
    return root


def _least(value: Any) -> Any:
    return value[:TEXT_CHARACTERS] if isinstance(value, str) else _json(value, timedelta())


def _largest(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_CHARACTERS else value[:TEXT_CHARACTERS] + _LARGEST_CHARACTER
    return _json(value, timedelta(microseconds=999))


def _json(value: Any, rounding: timedelta) -> Any:
    """Return a value as JSON has it. Statistics of timestamps have whole milliseconds, so a largest one is rounded up."""
    if isinstance(value, datetime):
        with contextlib.suppress(OverflowError):
            value += rounding
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value
