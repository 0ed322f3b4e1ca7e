"""Details of a topic's segments that only maintenance needs, read from the reconciled log.

A gateway keeps only columns of runs in memory. Maintenance reads times, tags and tombstones here when it plans.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from log_format.delta.actions import plain_path
from log_format.delta.checkpoint_schema import select_actions
from log_format.segments.key_filters import KeyFilters
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import (
    TAG_FILTERS,
    TAG_FOOTER,
    TAG_LAYOUT,
    TAG_REWRITTEN,
    TAG_RUNS,
    TAG_TYPED,
    Layout,
    Rewritten,
    decode_filters,
    decode_layout,
    decode_rewritten,
    decode_segment_tags,
    decode_typed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSegment:
    """A segment in the table."""

    segment: SegmentRef
    runs: tuple[Run, ...]
    modification_time_ms: int
    rewritten: Rewritten
    typed: tuple[str, ...] = ()
    """Typed columns by whose schemas every record was judged."""
    filters: KeyFilters | None = None
    stats: str | None = None
    """Statistics of the ``add``, if they were asked for."""
    layout: Layout | None = None
    """Order of the records, in a file of the archive that is laid out for queries (``segments.laid_out``)."""

    @property
    def is_flushed(self) -> bool:
        """Whether the segment is as a gateway wrote it, with runs of any number of partitions."""
        return self.rewritten.times == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedSegment:
    """The tombstone of a segment that was removed from the table."""

    path: str
    removed_at_ms: int


def live_segments(reconciled: pa.Table, *, has_stats: bool = False) -> list[LiveSegment]:
    """Return the segments of a reconciled log (``checkpoint.SCHEMA``), sorted by modification time. Raises ``CorruptData``.

    ``has_stats``: whether they have their statistics, which may be a kilobyte each.
    """
    adds = select_actions(reconciled, "add")
    paths, sizes, times = (adds.field(name).to_pylist() for name in ("path", "size", "modificationTime"))
    tags = [
        pc.map_lookup(adds.field("tags"), tag, "first").to_pylist()
        for tag in (TAG_RUNS, TAG_FOOTER, TAG_REWRITTEN, TAG_TYPED, TAG_FILTERS, TAG_LAYOUT)
    ]
    stats = adds.field("stats").to_pylist() if has_stats else [None] * len(adds)
    found = []
    for path, size, time_ms, one, runs_tag, footer_tag, *others in zip(paths, sizes, times, stats, *tags, strict=True):
        segment, runs = decode_segment_tags(path, size, runs_tag, footer_tag)
        found.append(
            LiveSegment(
                segment=segment,
                runs=tuple(runs),
                modification_time_ms=time_ms,
                rewritten=decode_rewritten(path, others[0]),
                typed=decode_typed(path, others[1]),
                filters=decode_filters(path, others[2]),
                stats=one,
                layout=decode_layout(path, others[3]),
            )
        )
    return sorted(found, key=lambda live: (live.modification_time_ms, live.segment.path))


def removed_segments(reconciled: pa.Table) -> list[RemovedSegment]:
    """Return the tombstones of a reconciled log (``checkpoint.SCHEMA``)."""
    removes = select_actions(reconciled, "remove")
    paths, times = (removes.field(name).to_pylist() for name in ("path", "deletionTimestamp"))
    return [
        RemovedSegment(path=plain_path(path), removed_at_ms=time_ms or 0)
        for path, time_ms in zip(paths, times, strict=True)
    ]
