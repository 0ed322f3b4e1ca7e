"""Reading runs of a journal's objects as records.

A small object is read as a whole, in one GET. For a large one the footer is one GET, and so is each row group needed. A row group
has records of many topics, so decoded row groups are cached: a reader of many topics asks the store once for each.

Everything returned was verified by checksums. A missing, truncated or damaged object raises ``CorruptData`` with ``segment``, its
path in the journal's table. A failing store raises ``StoreUnavailable``. Thread-safe; no lock is held during a request.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from log_format.errors import CorruptData, ObjectMissing
from log_format.journal.journal_object import ObjectIndex, assign_run_offsets, decode_group, decode_index
from log_format.layout import journal_root
from log_format.limits import SEGMENT_WHOLE_BYTES_MAX
from log_format.records.document_schemas import with_schema_rows
from log_format.segments.download import read_segment
from log_format.segments.footer import raise_corrupt
from log_format.segments.run import SegmentRef
from log_format.store import ObjectStore


class JournalRunRef(NamedTuple):
    """The position of a run: its object, topic and partition, and the offset of its first record."""

    journal: int
    ref: SegmentRef
    topic_id: str
    partition: int
    base_offset: int


class JournalReader:
    """A reader of journals' objects. ``cache_bytes`` limits the memory of decoded row groups and footers."""

    def __init__(self, store: ObjectStore, *, cache_bytes: int) -> None:
        self._store = store
        self._bytes_max = cache_bytes
        self._bytes = 0
        self._lock = threading.Lock()
        self._cached: OrderedDict[tuple[str, int], tuple[ObjectIndex | pa.Table, int]] = OrderedDict()

    def read(self, run: JournalRunRef) -> pa.Table:
        """Return all records of the run: ``RECORD_SCHEMA``, by offset. Raises ``CorruptData``, ``StoreUnavailable``."""
        key = f"{journal_root(run.journal)}{run.ref.path}"
        try:
            index = self._index(key, run.ref)
            place = index.runs.get((run.topic_id, run.partition))
            if place is None:
                raise_corrupt(
                    run.ref, f"it holds nothing of topic {run.topic_id}, partition {run.partition}, against the log"
                )
            first_row, count = place
            parts = []
            for number in index.groups_of(first_row, count):
                group = index.groups[number]
                start = max(first_row, group.first_row)
                stop = min(first_row + count, group.first_row + group.record_count)
                parts.append(self._group(key, index, number).slice(start - group.first_row, stop - start))
        except ObjectMissing as problem:
            raise CorruptData(
                f"Object {run.ref.path} of journal {run.journal} is missing.", segment=run.ref.path
            ) from problem
        records = pa.concat_tables(parts)
        return assign_run_offsets(records, run.partition, run.base_offset)

    def read_judged(self, run: JournalRunRef) -> pa.Table:
        """Return the records of the run with the schemas by which they were judged (``document_schemas``), as ``read`` does."""
        records = self.read(run)
        index = self._index(f"{journal_root(run.journal)}{run.ref.path}", run.ref)
        return with_schema_rows(records, index.schemas_of(*index.runs[run.topic_id, run.partition]))

    def _index(self, key: str, ref: SegmentRef) -> ObjectIndex:
        found = self._get(key, -1)
        if isinstance(found, ObjectIndex):
            return found
        if ref.size_bytes > SEGMENT_WHOLE_BYTES_MAX:
            index = decode_index(self._store.get_range(key, ref.footer_start, ref.size_bytes), ref)
        else:
            body = memoryview(read_segment(self._store, key, ref))
            index = decode_index(body[ref.footer_start :], ref)
            for number, group in enumerate(index.groups):
                table = decode_group(index, number, body[group.start : group.start + group.size_bytes])
                self._put(key, number, table, int(table.nbytes))
        self._put(key, -1, index, index.memory_bytes)
        return index

    def _group(self, key: str, index: ObjectIndex, number: int) -> pa.Table:
        found = self._get(key, number)
        if isinstance(found, pa.Table):
            return found
        group = index.groups[number]
        data = self._store.get_range(key, group.start, group.start + group.size_bytes)
        table = decode_group(index, number, data)
        self._put(key, number, table, int(table.nbytes))
        return table

    def _get(self, key: str, number: int) -> ObjectIndex | pa.Table | None:
        with self._lock:
            found = self._cached.get((key, number))
            if found is None:
                return None
            self._cached.move_to_end((key, number))
            return found[0]

    def _put(self, key: str, number: int, value: ObjectIndex | pa.Table, size_bytes: int) -> None:
        if size_bytes > self._bytes_max:
            return
        with self._lock:
            before = self._cached.pop((key, number), None)
            self._bytes += size_bytes - (0 if before is None else before[1])
            self._cached[key, number] = (value, size_bytes)
            while self._bytes > self._bytes_max:
                _, (_, dropped) = self._cached.popitem(last=False)
                self._bytes -= dropped
