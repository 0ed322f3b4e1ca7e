"""Reading of a plan's parts, and search for timestamps, in topics' own segments and in journals' objects alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.manifest.manifest import LocatedRun
from log_format.segments.reader import OffsetRange, SegmentReader, TimestampRange
from log_format.topic.state import TopicState
from spark_pipeline.source.plan import SegmentPart
from spark_pipeline.store_access import journal_reader, segment_reader
from spark_pipeline.vended import VendedStore


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reader of parts. All calls raise ``CorruptData``, ``StoreUnavailable``."""

    segments: SegmentReader
    journals: JournalReader

    def scan(
        self,
        part: SegmentPart,
        ranges: Sequence[OffsetRange],
        *,
        timestamps: TimestampRange | None,
        columns: Sequence[str],
    ) -> Iterator[pa.Table]:
        """Yield the part's records in ``ranges``, as ``SegmentReader.scan``."""
        if part.journal is None:
            yield from self.segments.scan(part.topic, part.segment, ranges, timestamps=timestamps, columns=columns)
            return
        bases = dict(part.bases)
        for each in ranges:
            base = bases[each.partition]
            run = JournalRunRef(part.journal, part.segment, part.topic_id, each.partition, base)
            yield self.journals.read(run).slice(each.start_offset - base, each.end_offset - each.start_offset)

    def find_timestamp(
        self, state: TopicState, located: LocatedRun, partition: int, start_offset: int, timestamp_ms: int
    ) -> int | None:
        """Return the run's first offset, from ``start_offset`` on, of a record with ``timestamp_ms`` or later; None if there is
        none."""
        if located.journal is None:
            return self.segments.find_timestamp(state.topic, located.segment, partition, start_offset, timestamp_ms)
        base = located.base_offset
        run = JournalRunRef(located.journal, located.segment, str(state.topic_id), partition, base)
        timestamps = self.journals.read(run).column("timestamp").to_numpy().view(np.int64)[start_offset - base :]
        found = np.flatnonzero(timestamps >= timestamp_ms * 1000)
        return start_offset + int(found[0]) if len(found) else None


def part_reader(uri: str | VendedStore) -> PartReader:
    """Return the process's reader for this store."""
    return PartReader(segment_reader(uri), journal_reader(uri))
