"""Relocation of records whose segment was deleted between the planning of the query and its task.

Maintenance replaces segments and deletes the old ones after ``deleted.file.retention.ms``, or when there are more than
``deleted.file.retention.count``. A query can outlast that. The records are still in the table, elsewhere. The task reads the
log once more and continues there, after the last record that it returned.

1. Nothing of another incarnation of the topic is read.
2. Offsets below the log start are data loss, as in planning. Other gaps are key compaction's, and no loss.
3. Records of a deleted journal object are in the topic's table by now, since the object is deleted only after that.
4. If the log still names the missing segment, it is corrupt and not newer: the records are not searched elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from log_format.checkpoints.topic_log import TopicLog
from log_format.segments.reader import OffsetRange
from spark_pipeline.source.loss import report_loss
from spark_pipeline.source.plan import SegmentPart, find_parts


def relocate_part(
    log: TopicLog, part: SegmentPart, ranges: Sequence[OffsetRange], *, fail_on_data_loss: bool
) -> list[SegmentPart] | None:
    """Return the parts that hold ``ranges``, the rest of ``part``, at the head of ``log``; None if they have not moved.

    Lost records raise ``DataLoss``, or are skipped unless ``fail_on_data_loss``. Otherwise raises as ``TopicLog.refresh``.
    """
    state = log.refresh()
    if not state.exists or state.topic_id != part.topic_id:
        report_loss(f"topic {part.topic!r} was deleted, or made anew, while it was read", fail=fail_on_data_loss)
        return []
    if any(each.end_offset > state.high_watermark(each.partition) for each in ranges):
        return None  # a journal's object was lost before its records were in the table
    there: list[OffsetRange] = []
    for each in ranges:
        log_start = state.log_start(each.partition)
        if log_start > each.start_offset:
            what = f"{part.topic}/{each.partition} was read up to {each.start_offset}, and begins at {log_start} now"
            report_loss(what, fail=fail_on_data_loss)
        start = max(each.start_offset, log_start)
        if start < each.end_offset:
            there.append(OffsetRange(each.partition, start, each.end_offset))
    found = find_parts(state, part.timestamp_type, there)
    return None if any(each.segment.path == part.segment.path for each in found) else found


def remaining_ranges(ranges: Sequence[OffsetRange], partition: int, offset: int) -> tuple[OffsetRange, ...]:
    """Return the rest of ``ranges``, one per partition, after reading by partition and offset up to this record."""
    left = [
        OffsetRange(partition, max(each.start_offset, offset + 1), each.end_offset)
        if each.partition == partition
        else each
        for each in ranges
        if each.partition >= partition
    ]
    return tuple(each for each in left if each.start_offset < each.end_offset)
