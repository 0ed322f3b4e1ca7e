"""Reading of a plan's parts, and search for timestamps, in topics' own segments and in journals' objects alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.manifest.manifest import LocatedRun
from log_format.records.schema import RECORD_SCHEMA
from log_format.records.typed_columns import conform
from log_format.segments.reader import OffsetRange, SegmentReader
from log_format.topic.state import TopicState
from spark_pipeline.source.plan import SegmentPart
from spark_pipeline.store_access import journal_reader, segment_reader, stored_readers
from spark_pipeline.vended import VendedStore

if TYPE_CHECKING:
    from log_format.schemas.columns.subject_readers import StoredReaders


@dataclass(frozen=True, slots=True)
class PartReader:
    """Reader of parts. All calls raise ``CorruptData``, ``StoreUnavailable``."""

    segments: SegmentReader
    journals: JournalReader
    readers: Callable[[], StoredReaders]
    """Readers of topics' schemas, for records in journals' objects."""

    def scan(
        self,
        part: SegmentPart,
        ranges: Sequence[OffsetRange],
        *,
        columns: Sequence[str],
        typed: Sequence[pa.Field] = (),
    ) -> Iterator[pa.Table]:
        """Yield the part's records in ``ranges``, as ``SegmentReader.scan``."""
        if part.journal is None:
            yield from self.segments.scan(part.topic, part.segment, ranges, columns=columns, typed=typed)
            return
        bases = dict(part.bases)
        for each in ranges:
            base = bases[each.partition]
            run = JournalRunRef(part.journal, part.segment, part.topic_id, each.partition, base)
            read = self.journals.read_judged if typed and part.subjects.are_set else self.journals.read
            records = read(run).slice(each.start_offset - base, each.end_offset - each.start_offset)
            yield self._with_columns(records, part, typed) if typed else records

    def _with_columns(self, records: pa.Table, part: SegmentPart, typed: Sequence[pa.Field]) -> pa.Table:
        """Return a journal's records with typed columns, which they get in the topic's table when they are drained."""
        found = self.readers().type_records(part.subjects, records) if part.subjects.are_set else None
        records = records.select(RECORD_SCHEMA.names)
        decoded = {} if found is None else dict(zip(found.schema.names, found.columns, strict=True))
        for field in typed:
            column = decoded.get(field.name, pa.nulls(len(records), field.type))
            records = records.append_column(field, conform(column, field.type))
        return records

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
    return PartReader(segment_reader(uri), journal_reader(uri), functools.partial(stored_readers, uri))
