"""Planning: which ranges of which segments each task reads. Pure.

1. Every offset in the ranges is in exactly one task, and within a task the records of a partition are in order.
2. One task reads a segment as far as its size allows, so that it is opened once; small segments share a task. So do the topics
   of a journal's object.
3. The cost is proportional to the ranges, not to the topic's history: each run is found by binary search.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import Final

from log_format.manifest.manifest import LocatedRun
from log_format.segments.reader import OffsetRange
from log_format.segments.run import SegmentRef
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.state import TopicState

ROWS_PER_TASK_MIN: Final = 100_000
"""Records below which a task of their own is not worthwhile while there is another."""


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """Part of one segment that a task reads: ranges of different partitions."""

    topic: str
    topic_id: str
    timestamp_type: int
    segment: SegmentRef
    ranges: tuple[OffsetRange, ...]
    journal: int | None = None
    """Number of the journal to which the object belongs; None: the segment is in the topic's own table."""
    bases: tuple[tuple[int, int], ...] = ()
    """Partitions in a journal's object, with the offset of each one's first record there."""
    subjects: Subjects = UNTYPED
    """Subjects of the topic's schemas, for the records in a journal's object, which has no typed columns."""

    @property
    def offset_count(self) -> int:
        """Number of offsets in the ranges, an upper bound of the records."""
        return sum(each.end_offset - each.start_offset for each in self.ranges)


def find_parts(state: TopicState, timestamp_type: int, ranges: Iterable[OffsetRange]) -> list[SegmentPart]:
    """Return the parts of segments that hold the ranges (one per partition), each partition's in order."""
    segments: dict[str, LocatedRun] = {}
    bases: dict[str, list[tuple[int, int]]] = {}
    found: dict[str, list[OffsetRange]] = {}
    order: TopologicalSorter[str] = TopologicalSorter()
    for each in ranges:
        before: str | None = None
        offset = each.start_offset
        while offset < each.end_offset:
            located = state.manifest.find(each.partition, offset)
            found_at = each.end_offset if located is None else min(located.base_offset, each.end_offset)
            state.check_gap(each.partition, offset, found_at)
            if located is None or located.base_offset >= each.end_offset:
                break
            path = located.segment.path
            end = min(located.end_offset, each.end_offset)
            segments[path] = located
            bases.setdefault(path, []).append((each.partition, located.base_offset))
            found.setdefault(path, []).append(OffsetRange(each.partition, max(offset, located.base_offset), end))
            order.add(path, *([] if before is None else [before]))
            before, offset = path, end
    parts = []
    for path in order.static_order():
        segment, journal = segments[path].segment, segments[path].journal
        of_journal = () if journal is None else tuple(bases[path])
        ranges_there = tuple(found[path])
        named = (state.topic, str(state.topic_id), timestamp_type, segment, ranges_there)
        subjects = UNTYPED if journal is None else state.config.subjects
        parts.append(SegmentPart(*named, journal, of_journal, subjects))
    return parts


def sort_by_object(parts: Sequence[SegmentPart]) -> list[SegmentPart]:
    """Return the parts of many topics: first those in the topics' own segments, then those of journals, grouped by object.

    Each topic's parts stay in order. A journal's object has records of many topics, so a task fetches it once for all of them.
    """
    objects: dict[str, list[SegmentPart]] = {}
    order: TopologicalSorter[str] = TopologicalSorter()
    before: SegmentPart | None = None
    for part in parts:
        if part.journal is None:
            continue
        path = part.segment.path
        same = objects.setdefault(path, [])
        # One shared reference, which is pickled once.
        same.append(replace(part, segment=same[0].segment) if same else part)
        follows = before is not None and before.topic == part.topic
        order.add(path, *([before.segment.path] if before is not None and follows else []))
        before = part
    own = [part for part in parts if part.journal is None]
    return [*own, *(part for path in order.static_order() for part in objects[path])]


def distribute_parts(
    parts: Sequence[SegmentPart],
    *,
    parallelism: int,
    tasks_min: int | None,
    rows_per_task_max: int,
    rows_per_task_min: int = ROWS_PER_TASK_MIN,
) -> list[tuple[SegmentPart, ...]]:
    """Distribute the parts over tasks of about equal size: ``parallelism`` tasks, fewer if small, a multiple of it if large.

    So tasks that start together end together, and no core waits for a last one. ``tasks_min`` asks for at least about so many,
    however small. Without parts there are no tasks.
    """
    total = sum(part.offset_count for part in parts)
    rounds = max(1, math.ceil(total / (rows_per_task_max * parallelism)))
    rows = min(rows_per_task_max, max(rows_per_task_min, math.ceil(total / (rounds * parallelism))))
    if tasks_min is not None:
        rows = min(rows, max(1, math.ceil(total / tasks_min)))
    tasks: dict[int, list[SegmentPart]] = {}
    before = 0
    for part in _split_parts(parts, rows):
        count = part.offset_count
        tasks.setdefault((before + count // 2) // rows, []).append(part)
        before += count
    return [tuple(task) for task in tasks.values()]


def _split_parts(parts: Iterable[SegmentPart], rows: int) -> Iterator[SegmentPart]:
    """Yield the parts, with those of much more than ``rows`` offsets split into pieces of about that size."""
    for part in parts:
        count = part.offset_count
        pieces = round(count / rows)
        if pieces < 2:
            yield part
            continue
        size = math.ceil(count / pieces)
        piece: list[OffsetRange] = []
        space = size
        for each in part.ranges:
            start = each.start_offset
            while start < each.end_offset:
                end = min(each.end_offset, start + space)
                piece.append(OffsetRange(each.partition, start, end))
                space -= end - start
                start = end
                if not space:
                    yield replace(part, ranges=tuple(piece))
                    piece, space = [], size
        if piece:
            yield replace(part, ranges=tuple(piece))
