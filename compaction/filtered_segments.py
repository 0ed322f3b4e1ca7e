"""Which segments may have what is to be erased, by filters on keys and statistics of columns: most are not read any further.

1. Filters are read by several threads, each in one request with its segment's footer. Segments without filters (those of flushes,
   of earlier releases, of an old pyarrow) may have anything, and so may all segments when a request names headers, too.
2. Statistics of typed columns are in the log, so what they rule out for a condition costs no request. They rule out nothing in a
   segment with records that no schema has judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_format.errors import CorruptData, ObjectMissing
from log_format.layout import topic_root
from log_format.records.erasing import reveal_condition
from log_format.records.typed_columns import NO_TYPED_COLUMNS, TypedColumns
from log_format.segments.footer import Footer, RowGroup, decode_footer, missing_text
from log_format.segments.key_filters import as_hashes, read_filters
from log_format.segments.laid_out import LaidOutFooter, decode_laid_out_footer
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.topic.erasures import Erasure
from log_format.topic.live_segments import LiveSegment

READS_AT_ONCE: Final = 16
"""Number of filters read in parallel, half of the connections that a store keeps."""
READ_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most bytes of filters in memory, unless those of one segment are more."""

_Decode = Callable[[memoryview, SegmentRef], Footer | LaidOutFooter]


@dataclass(slots=True)
class Reads:
    """What a pass read. Segments read as a whole have no filters, or had something to erase."""

    filtered: int = 0
    """Segments whose filters were read; ``filter_bytes``: bytes of these filters and footers."""
    filter_bytes: int = 0
    row_groups: int = 0
    """Row groups that were read since their filters did not rule them out; ``row_group_bytes``: their bytes."""
    row_group_bytes: int = 0
    whole: int = 0
    whole_bytes: int = 0
    none: int = 0
    """Segments of which nothing was read, since their statistics rule out all conditions."""

    def whole_segment(self, size_bytes: int) -> None:
        """Count a segment that was read as a whole."""
        self.whole += 1
        self.whole_bytes += size_bytes

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name, as a report has them."""
        names = ("filtered", "filter_bytes", "row_groups", "row_group_bytes", "whole", "whole_bytes", "none")
        return {f"read_{name}": getattr(self, name) for name in names}


class Suspect(NamedTuple):
    """A segment that may have something to erase. ``row_groups``: indices of those that may; None: any."""

    live: LiveSegment
    row_groups: tuple[int, ...] | None


class FilteredSegments:
    """The filters and statistics of one topic's segments, for the same requests. ``at_once``: number of filters read in
    parallel, at least 1; with 1 no thread is started."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        wanted: Sequence[Erasure],
        secret: bytes,
        *,
        at_once: int = READS_AT_ONCE,
    ) -> None:
        self._store = store
        self._at_once = at_once
        self._topic = topic
        self._conditions = [(one, reveal_condition(secret, one.where)) for one in wanted if one.where is not None]
        named = [(one, one.key_hashes(secret)) for one in wanted if one.wanted]
        self._wanted = [(one, as_hashes(each)) for one, each in named if each is not None]
        self._filters_apply = len(self._wanted) == len(named)

    def suspects(
        self, segments: Sequence[LiveSegment], reads: Reads, columns: TypedColumns = NO_TYPED_COLUMNS
    ) -> list[Suspect]:
        """Return those of the segments that may have something to erase.

        ``columns``: the table's typed columns. Raises ``CorruptData``, ``StoreUnavailable``.
        """
        asked: list[LiveSegment] = []
        found: list[Suspect] = []
        for one in segments:
            if self._may_hold(one, columns):
                found.append(Suspect(one, None))
            elif self._filters_apply and not self._wanted:
                reads.none += 1
            elif self._filters_apply and one.filters is not None:
                asked.append(one)
            else:
                found.append(Suspect(one, None))
        if not asked:
            return found
        largest = max(one.segment.size_bytes - one.filters.start for one in asked if one.filters is not None)
        threads = max(1, min(self._at_once, len(asked), READ_BYTES_MAX // largest))
        with nullcontext() if threads == 1 else ThreadPoolExecutor(threads) as pool:
            looks = list((map if pool is None else pool.map)(self._look, asked))
        for live, look in zip(asked, looks, strict=True):
            assert live.filters is not None
            reads.filtered += 1
            reads.filter_bytes += live.segment.size_bytes - live.filters.start
            if look.row_groups is None or look.row_groups:
                found.append(Suspect(live, look.row_groups))
                reads.row_groups += len(look.row_groups or ())
                reads.row_group_bytes += look.size_bytes
        return found

    def _may_hold(self, live: LiveSegment, columns: TypedColumns) -> bool:
        """Return whether a condition may hold for a record of the segment that its request is about."""
        return any(
            any(erasure.concerns(run.partition, run.base_offset) for run in live.runs)
            and (
                erasure.judged_by is not None
                or not condition.columns <= {*live.typed}
                or condition.may_match(live.stats, columns)
            )
            for erasure, condition in self._conditions
        )

    def _look(self, live: LiveSegment) -> _Look:
        assert live.filters is not None
        try:
            key = f"{topic_root(self._topic)}{live.segment.path}"
            decode: _Decode = decode_footer if live.layout is None else decode_laid_out_footer
            read = read_filters(self._store, key, live.segment, live.filters, decode)
        except ObjectMissing:
            said = missing_text(live.segment)
            raise CorruptData(said, topic=self._topic, segment=live.segment.path) from None
        if read is None:
            return _Look(None, 0)
        footer, may_have = read
        chosen = []
        for index, group in enumerate(footer.row_groups):
            # A row group of a file that is laid out may have records of any of its runs.
            spans = [group] if isinstance(group, RowGroup) else live.runs
            if any(_is_about(erasure, spans) and may_have(index, hashes) for erasure, hashes in self._wanted):
                chosen.append(index)
        return _Look(tuple(chosen), sum(footer.row_groups[index].size_bytes for index in chosen))


def _is_about(erasure: Erasure, spans: Sequence[Run | RowGroup]) -> bool:
    """Return whether a request may be about records of any of these spans."""
    return any(
        (erasure.before_ms is None or span.min_timestamp_ms < erasure.before_ms)
        and erasure.concerns(span.partition, span.base_offset)
        for span in spans
    )


class _Look(NamedTuple):
    row_groups: tuple[int, ...] | None
    size_bytes: int
