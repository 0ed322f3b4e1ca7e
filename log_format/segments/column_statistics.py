"""Statistics of a segment's typed columns for the ``add``: by them readers of Delta skip files.

Only members that are reached through structs have statistics: the first 32 of them, and ``data_error``. Least and largest values
are there only where they are certain: not for booleans and binary, nor for numbers among which is NaN. Texts are cut to 32
characters.

Source: Delta protocol, "Per-file Statistics".
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from log_format.records.typed_columns import DATA, DATA_ERROR, KEY_DATA, are_unjudged, typed_columns

LEAVES_MAX: Final = 32
TEXT_CHARACTERS: Final = 32
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


def collect_statistics(records: pa.Table) -> ColumnStatistics:
    """Return the statistics of the typed columns of the records."""
    columns = typed_columns(records.schema)
    if not columns:
        return NO_STATISTICS
    nulls: dict[Path, int] = {}
    bounds: dict[Path, tuple[Any, Any]] = {}
    for one in columns.fields():
        for path, values in _leaves((one.name,), records.column(one.name)):
            if len(nulls) >= LEAVES_MAX and path != (DATA_ERROR,):
                break
            nulls[path] = values.null_count
            bound = _bound(values)
            if bound is not None:
                bounds[path] = bound
    names = [one.name for one in columns.fields() if one.name != DATA_ERROR]
    return ColumnStatistics(nulls, bounds, tuple(name for name in names if are_unjudged(records, name) is None))


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


def _leaves(path: Path, values: pa.ChunkedArray) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    if pa.types.is_struct(values.type):
        for index, one in enumerate(values.type):
            yield from _leaves((*path, one.name), pc.struct_field(values, [index]))
    elif not pa.types.is_nested(values.type):
        yield path, values


def _bound(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    arrow = values.type
    if pa.types.is_boolean(arrow) or pa.types.is_binary(arrow) or values.null_count == len(values):
        return None
    if pa.types.is_floating(arrow) and pc.any(pc.is_nan(values)).as_py():
        return None
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()


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
