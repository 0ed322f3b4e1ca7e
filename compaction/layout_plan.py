"""The plan of which files of an archive are rewritten together: small ones into large ones, and by ``table.cluster.by``. Pure.

Files that were written by one rewrite are a run: together they are in order, so a query for one value needs one or two of them.

1. Files that are not ordered by the wanted columns become a run, once they have the size of a file together or are ``fan_in``.
   They are taken in the order of their times.
2. Runs of at most a file's size that were rewritten equally often become one run, once there are ``fan_in`` of them. Larger runs,
   and those that were rewritten ``merges_max`` times, stay.
3. Without wanted columns the same is done with files of less than half the wanted size, whatever their order; never with larger
   ones.

So in one order each record is rewritten ``merges_max`` times at most, and a rewrite reads ``fan_in`` files of the wanted size at
most. The archive has a run for each ``fan_in`` files, besides fewer than ``fan_in`` runs for each number of rewrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from compaction.policy import Policy
from compaction.table_retention import newest_timestamps
from log_format.delta.checkpoint_schema import select_actions
from log_format.topic.segment_tags import TAG_FOOTER, TAG_LAYOUT, decode_layout

UNITS_MAX: Final = 100_000
"""Most files or runs of one kind that a plan looks at, the oldest first; the next plan sees others."""

_FILES: Final = pa.schema(
    [
        ("path", pa.string()),
        ("size", pa.int64()),
        ("time", pa.int64()),
        ("newest", pa.int64()),
        ("layout", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLayout:
    """Files to rewrite together. ``paths``: as in their ``add``. ``times``: how often their records were then rewritten."""

    paths: tuple[str, ...]
    size_bytes: int
    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedLayout:
    """How files of the archive are to be. ``span_ms``: how far apart the newest records of files of one rewrite may be."""

    columns: tuple[str, ...]
    file_bytes: int
    span_ms: int | None = None


class _Unit(NamedTuple):
    """A file, or the files of a run. ``name``: the path, or the run's tag."""

    name: str
    size_bytes: int
    newest_ms: int
    times: int


def plan_layout(pieces: Iterable[pa.Table], wanted: WantedLayout, policy: Policy) -> list[PlannedLayout]:
    """Return what to rewrite now, the oldest files first.

    Args:
        pieces: rows of the archive (``checkpoint_schema.SCHEMA``).
        wanted: how its files are to be.
        policy: thresholds.

    Files without Tidelog's tags are left alone. Raises ``CorruptData``. Memory: some 200 bytes a file.
    """
    files = pa.concat_tables([_FILES.empty_table(), *map(_files, pieces)])
    if wanted.columns:
        suffix = f",{msgspec.json.encode(wanted.columns).decode()}]"
        is_laid = pc.fill_null(pc.ends_with(files.column("layout"), suffix), False)
        loose = [unit._replace(times=0) for unit in _each(files.filter(pc.invert(is_laid)))]
        runs = [unit for unit in _runs(files.filter(is_laid)) if unit.size_bytes <= wanted.file_bytes]
    else:
        loose = []
        runs = _each(files.filter(pc.less(files.column("size"), wanted.file_bytes // 2)))
    chosen = [*_chunks(loose, wanted, policy, file_is_enough=True)]
    for times in range(policy.merges_max):
        same = [unit for unit in runs if unit.times == times]
        chosen += _chunks(same, wanted, policy, file_is_enough=not wanted.columns)
    return [_planned(chunk, files) for chunk in chosen]


def _files(piece: pa.Table) -> pa.Table:
    """Return the files of Tidelog's among some rows of the archive (``_FILES``)."""
    adds = select_actions(piece, "add")
    tags = pc.struct_field(adds, "tags")
    own = pc.is_valid(pc.map_lookup(tags, TAG_FOOTER, "first"))
    adds, tags = adds.filter(own), tags.filter(own)
    columns = [pc.struct_field(adds, name) for name in ("path", "size", "modificationTime")]
    columns += [pa.array(newest_timestamps(adds)), pc.map_lookup(tags, TAG_LAYOUT, "first")]
    return pa.table([column.cast(field.type) for column, field in zip(columns, _FILES, strict=True)], schema=_FILES)


def _each(files: pa.Table) -> list[_Unit]:
    ordered = files.sort_by("time").slice(0, UNITS_MAX)
    columns = (ordered.column(name).to_pylist() for name in ("path", "size", "newest", "layout"))
    return [_Unit(path, size, newest, _times(path, tag)) for path, size, newest, tag in zip(*columns, strict=True)]


def _runs(files: pa.Table) -> list[_Unit]:
    grouped = files.group_by("layout").aggregate([("size", "sum"), ("newest", "max"), ("time", "max")])
    ordered = grouped.sort_by("time_max").slice(0, UNITS_MAX)
    columns = (ordered.column(name).to_pylist() for name in ("layout", "size_sum", "newest_max"))
    return [_Unit(tag, size, newest, _times(tag, tag)) for tag, size, newest in zip(*columns, strict=True)]


def _times(path: str, tag: str | None) -> int:
    layout = decode_layout(path, tag)
    return 0 if layout is None else layout.times


def _chunks(units: list[_Unit], wanted: WantedLayout, policy: Policy, *, file_is_enough: bool) -> Iterator[list[_Unit]]:
    """Yield units that are rewritten together. ``file_is_enough``: also fewer than ``fan_in``, if they fill a file."""
    bytes_max = wanted.file_bytes * policy.fan_in if wanted.columns else wanted.file_bytes
    count_max = policy.sources_max if file_is_enough else policy.fan_in
    chunk: list[_Unit] = []
    size_bytes, oldest_ms, newest_ms = 0, 0, 0
    for unit in [*units, None]:
        overflows = unit is not None and size_bytes + unit.size_bytes > bytes_max
        spans = False
        if unit is not None and chunk and wanted.span_ms is not None:
            spans = max(newest_ms, unit.newest_ms) - min(oldest_ms, unit.newest_ms) > wanted.span_ms
        if chunk and (unit is None or len(chunk) >= count_max or overflows or spans):
            is_full = file_is_enough and (size_bytes >= wanted.file_bytes or overflows)
            if len(chunk) >= policy.fan_in or (is_full and (len(chunk) > 1 or bool(wanted.columns))):
                yield chunk
            chunk, size_bytes = [], 0
        if unit is not None:
            oldest_ms = min(oldest_ms, unit.newest_ms) if chunk else unit.newest_ms
            newest_ms = max(newest_ms, unit.newest_ms) if chunk else unit.newest_ms
            chunk.append(unit)
            size_bytes += unit.size_bytes


def _planned(chunk: list[_Unit], files: pa.Table) -> PlannedLayout:
    names = pa.array([unit.name for unit in chunk], pa.string())
    is_named = pc.or_(
        pc.is_in(files.column("path"), names), pc.fill_null(pc.is_in(files.column("layout"), names), False)
    )
    return PlannedLayout(
        paths=tuple(files.filter(is_named).column("path").to_pylist()),
        size_bytes=sum(unit.size_bytes for unit in chunk),
        times=1 + max(unit.times for unit in chunk),
    )
