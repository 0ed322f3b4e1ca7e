"""Checks of files of the archive that are laid out for queries: their records are there, intact, and once in the table.

Such a file may have any offsets between the ends of its runs, so a bit for each offset says whether a file had it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from log_format.inspection.key_filters import CheckedFilters
from log_format.layout import topic_root
from log_format.segments.key_filters import KeyFilters
from log_format.segments.laid_out import decode_laid_out_footer, runs_of, scan_laid_out
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.topic.live_segments import LiveSegment


class LaidOutFiles:
    """The laid out files of a topic's archive. Memory: a bit for each offset from the lowest to the highest of a partition."""

    def __init__(self, archive: Sequence[LiveSegment]) -> None:
        files = [file for file in archive if file.layout is not None]
        self._paths = {file.segment.path for file in files}
        self._bases: dict[int, int] = {}
        ends: dict[int, int] = {}
        for run in (run for file in files for run in file.runs):
            self._bases[run.partition] = min(run.base_offset, self._bases.get(run.partition, run.base_offset))
            ends[run.partition] = max(run.end_offset, ends.get(run.partition, 0))
        self._bits = {at: np.zeros((ends[at] - base) // 8 + 1, np.uint8) for at, base in self._bases.items()}
        self._twice: dict[int, int] = {}

    def __contains__(self, segment: SegmentRef) -> bool:
        """Return whether the file is one of them."""
        return segment.path in self._paths

    def read(
        self, store: ObjectStore, topic: str, segment: SegmentRef, runs: Sequence[Run], filters: KeyFilters | None
    ) -> str | None:
        """Read a file; return what is wrong with it, or None. Raises ``CorruptData``, ``StoreUnavailable``."""
        expected = {run.partition: (run.base_offset, run.end_offset, run.record_count) for run in runs}
        key = f"{topic_root(topic)}{segment.path}"
        checked = CheckedFilters(store, key, segment, filters, decode_laid_out_footer)

        def noted() -> Iterator[pa.Table]:
            for index, records in enumerate(scan_laid_out(store, topic, segment)):
                checked.check(index, records.column("key"))
                yield self._note(records)

        if runs_of(noted()) != expected:
            return f"Segment {segment.path} holds other records than its commit says."
        return checked.problem

    def twice(self, partition: int, spans: Sequence[tuple[int, int]], log_start: int) -> Iterator[str]:
        """Yield what the table has twice of a partition's offsets below its log start. ``spans``: offsets of the other files."""
        below = [(start, min(end, log_start)) for start, end in sorted(spans) if start < log_start]
        for (_, end), (start, other_end) in pairwise(below):
            if start < end:
                yield f"Partition {partition} has offsets [{start}, {min(end, other_end)}) twice in the table."
        if count := self._twice.get(partition):
            yield f"Partition {partition} has {count} archived records twice in the table."
        bits, base = self._bits.get(partition, np.zeros(0, np.uint8)), self._bases.get(partition, 0)
        for start, end in below:
            first, last = max(0, start - base), min(end - base, 8 * len(bits))
            if (
                first < last
                and np.unpackbits(bits[first // 8 : last // 8 + 1], bitorder="little")[
                    first % 8 : first % 8 + last - first
                ].any()
            ):
                yield f"Partition {partition} has offsets of [{start}, {end}) twice in the table."

    def _note(self, records: pa.Table) -> pa.Table:
        """Set the bits of the records' offsets."""
        partitions, offsets = (records.column(name).to_numpy() for name in ("partition", "offset"))
        for partition in np.unique(partitions).tolist():
            if partition in self._bits:
                self._set(partition, offsets[partitions == partition] - self._bases[partition])
        return records

    def _set(self, partition: int, places: npt.NDArray[np.int64]) -> None:
        bits = self._bits[partition]
        inside = np.unique(places[(places >= 0) & (places < 8 * len(bits))])
        masks = np.left_shift(np.uint8(1), (inside & 7).astype(np.uint8))
        known = int(np.count_nonzero(bits[inside >> 3] & masks)) + len(places) - len(inside)
        np.bitwise_or.at(bits, inside >> 3, masks)
        if known:
            self._twice[partition] = self._twice.get(partition, 0) + known
