"""The entry of one object in a journal's commit: whose records the object has, and which offsets they get.

The tag ``tidelog.runs`` of its ``add`` is a JSON array with one entry for each topic, in the order of the object's records:
``[topic id, runs, stamped requests, applied transactions]``. A run is as in a segment (docs/format.md, section 5.1); its stored
bytes are its share of the object. Stamped requests are as in ``tidelog.producers``. An applied transaction is ``[transaction id,
decided version, floor, offset ranges]``. A long array is compressed with zlib and encoded as base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from log_format.delta.actions import Add, plain_path
from log_format.delta.tag_compression import compress_tag, decompress_tag
from log_format.errors import CorruptData
from log_format.limits import JOURNAL_TAG_BYTES_MAX, JOURNAL_TAG_PLAIN_BYTES_MAX
from log_format.segments.run import Run, SegmentRef
from log_format.topic.append_outcome import AppendedRange, decode_ranges, encode_ranges
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.producers import ProducerStamp, StampedBatch
from log_format.topic.segment_tags import TAG_FOOTER, TAG_RUNS

Applied = Mapping[TransactionStamp, tuple[AppendedRange, ...]]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_RangeTuples = list[tuple[_Count, _Count, _Count]]
_RunBytes = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
_RunRow = tuple[_Count, _Count, _Count, _Count, _RunBytes, _Count, _Count]
_StampRow = tuple[str, _Count, _Count, _RangeTuples]
_Floor = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
_AppliedRow = tuple[str, _Count, _Floor, _RangeTuples]
_TopicRow = tuple[str, list[_RunRow], list[_StampRow], list[_AppliedRow]]
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[_TopicRow])
_FOOTER_DECODER: Final = msgspec.json.Decoder(tuple[_Count, _Count])


class TopicRuns(NamedTuple):
    """The records of one topic in an object, sorted by partition, with their idempotent requests and transactions."""

    topic_id: str
    runs: Sequence[Run]
    stamped: Sequence[StampedBatch]
    applied: Applied


class CommittedObject(NamedTuple):
    """A journal's object, and whose records it has, in order."""

    ref: SegmentRef
    topics: Sequence[TopicRuns]

    def add(self, record_count: int, modification_time_ms: int) -> Add:
        """Return the ``add`` of this object."""
        return Add(
            path=self.ref.path,
            size=self.ref.size_bytes,
            modification_time=modification_time_ms,
            data_change=True,
            stats=f'{{"numRecords":{record_count}}}',
            tags=encode_object_tags(self.ref, self.topics),
        )


def encode_object_tags(ref: SegmentRef, topics: Sequence[TopicRuns]) -> dict[str, str | None]:
    """Return the tags of the object's ``add``."""
    rows = [
        (
            of_topic.topic_id,
            [
                (
                    run.partition,
                    run.base_offset,
                    run.end_offset,
                    run.record_count,
                    run.size_bytes,
                    run.min_timestamp_ms,
                    run.max_timestamp_ms,
                )
                for run in of_topic.runs
            ],
            _rows(of_topic.stamped) if of_topic.stamped else (),
            _rows(of_topic.applied.items()) if of_topic.applied else (),
        )
        for of_topic in topics
    ]
    runs = compress_tag(_ENCODER.encode(rows), plain_bytes_max=JOURNAL_TAG_PLAIN_BYTES_MAX)
    return {TAG_RUNS: runs, TAG_FOOTER: f"[{ref.footer_start},{ref.footer_crc32}]"}


def decode_object_add(add: Add) -> CommittedObject:
    """Return the object that an ``add`` names. Raises ``CorruptData``."""
    path, tags = plain_path(add.path), add.tags or {}
    try:
        rows = _DECODER.decode(decompress_tag(tags.get(TAG_RUNS) or "", bytes_max=JOURNAL_TAG_BYTES_MAX))
        footer_start, footer_crc32 = _FOOTER_DECODER.decode(tags.get(TAG_FOOTER) or "")
        topics = [
            TopicRuns(
                topic_id,
                [Run(*run) for run in runs],
                [StampedBatch(ProducerStamp(*row[:3]), decode_ranges(row[3])) for row in stamped],
                {TransactionStamp(*row[:3]): decode_ranges(row[3]) for row in applied},
            )
            for topic_id, runs, stamped, applied in rows
        ]
        for of_topic in topics:
            _check(of_topic)
    except ValueError as problem:
        raise CorruptData(f"The log's entry for {path} can't be used: {problem}.", segment=path) from problem
    return CommittedObject(SegmentRef(path, add.size, footer_start, footer_crc32), topics)


def _check(of_topic: TopicRuns) -> None:
    """Raise ``ValueError`` for content that no flush writes."""
    for run in of_topic.runs:
        if run.record_count != run.end_offset - run.base_offset:
            raise ValueError(f"{run} is no run of a flush")
    for stamped in of_topic.stamped:
        stamped.check()


def _rows(stamped: Iterable[tuple[tuple[Any, ...], Sequence[AppendedRange]]]) -> list[tuple[Any, ...]]:
    return [(*stamp, encode_ranges(offset_ranges)) for stamp, offset_ranges in stamped]
