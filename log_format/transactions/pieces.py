"""A large transaction's records of one topic as many segments: the records of each, and their offsets (decision 081).

The names of staged batches have their partitions and numbers of records. So the offsets of each piece follow from the topic's
next offsets without reading a batch, and pieces can be written one at a time, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from log_format.clock import Clock
from log_format.delta.log import Map
from log_format.errors import BackOff, CorruptData, ObjectMissing, StoreUnavailable
from log_format.ids import NewId
from log_format.layout import segment_path, topic_root
from log_format.records.typed_columns import TypedColumns
from log_format.segments.segment import EncodedSegment, encode_segment
from log_format.store import ObjectStore, read_bounded
from log_format.topic.append import TypeRecords, assign_offsets
from log_format.topic.append_uploaded import UploadedSegment
from log_format.topic.config import UNTYPED, Subjects
from log_format.topic.late_columns import late_columns
from log_format.topic.state import TopicState
from log_format.transactions.finishing import transaction_batch
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_index import IndexedBatch
from log_format.transactions.staged_records import StagedRecords, decode_staged, staged_key

BATCHES_MAX: Final = 4_096
"""Most batches of a piece: reading one takes some 10 KiB of memory in addition to its records."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Batches that become one segment, by partition and sequence. ``counts``: partition -> number of records."""

    batches: tuple[IndexedBatch, ...]
    counts: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Placement:
    """The inputs of a piece's segment: its first offsets, the codec, the records' timestamp under ``LogAppendTime``, and the
    subjects of the topic's schemas."""

    bases: tuple[tuple[int, int], ...]
    compression: str
    append_time_ms: int | None
    subjects: Subjects = UNTYPED


def split_pieces(batches: Sequence[IndexedBatch], bytes_max: int) -> list[Piece]:
    """Return the pieces of one topic's batches: each has one batch, or at most ``bytes_max`` staged bytes and ``BATCHES_MAX``."""
    found: list[Piece] = []
    some: list[IndexedBatch] = []
    size_bytes = 0
    for batch in sorted(
        batches, key=lambda one: one.lane.partition
    ):  # stable: sequences keep their order, and may wrap
        if some and (size_bytes + batch.size_bytes > bytes_max or len(some) == BATCHES_MAX):
            found.append(_piece(some))
            some, size_bytes = [], 0
        some.append(batch)
        size_bytes += batch.size_bytes
    return [*found, _piece(some)]


def place_pieces(pieces: Sequence[Piece], state: TopicState, append_time_ms: int) -> Iterator[Placement]:
    """Yield where each piece goes if the topic is at ``state`` when all of them are committed."""
    compression = state.config.choice("compression.type")
    is_append_time = state.config.choice("message.timestamp.type") == "LogAppendTime"
    next_offsets = state.next_offsets.copy()
    for piece in pieces:
        bases = []
        for partition, count in piece.counts.items():
            bases.append((partition, int(next_offsets[partition])))
            next_offsets[partition] += count
        yield Placement(tuple(bases), compression, append_time_ms if is_append_time else None, state.config.subjects)


class PieceWriter(NamedTuple):
    """The tools to write pieces of a transaction; ``fetch_all`` reads several objects ahead, ``type_records`` gives records their
    typed columns. Blocks."""

    store: ObjectStore
    clock: Clock
    new_id: NewId
    fetch_all: Map
    row: TransactionRow
    type_records: TypeRecords | None = None

    def write(self, piece: Piece, placement: Placement, state: TopicState) -> UploadedSegment:
        """Read the piece's batches, and put its segment. Raises ``BackOff``, ``CorruptData``."""
        encoded, columns = self._encode(piece, placement, state)
        ref = encoded.ref(segment_path(self.new_id()))
        started_ms = self.clock.monotonic_ms()
        try:
            self.store.put(f"{topic_root(state.topic)}{ref.path}", encoded.data)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not accept a segment: {problem.detail}.") from problem
        return UploadedSegment(ref, encoded.runs, started_ms, columns, encoded.statistics, placement.subjects)

    def read(self, batches: Sequence[IndexedBatch]) -> list[StagedRecords]:
        """Return the content of the batches. Raises ``BackOff``, ``CorruptData``."""
        sizes = {staged_key(self.row.transaction_id, batch.name): batch.size_bytes for batch in batches}

        def get(key: str) -> bytes:
            return read_bounded(self.store, key, sizes[key])

        try:
            return [decode_staged(data, key) for key, data in zip(sizes, self.fetch_all(get, sizes), strict=True)]
        except ObjectMissing as problem:
            raise CorruptData(f"The staged records {problem.key} are missing.", object=problem.key) from problem
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not return staged records: {problem.detail}.") from problem

    def _encode(self, piece: Piece, placement: Placement, state: TopicState) -> tuple[EncodedSegment, TypedColumns]:
        requests = self.read(piece.batches)
        batch = transaction_batch(self.row, requests, floor=0, now_ms=placement.append_time_ms or 0)
        of = {(one.topic, one.topic_id) for one in requests}
        if dict(batch.counts) != piece.counts or of != {(state.topic, state.topic_id)}:
            raise CorruptData(
                f"Staged batches of transaction {self.row.transaction_id} are not what their names say.",
                object=staged_key(self.row.transaction_id, piece.batches[0].name),
            )
        offsets = state.next_offsets.copy()
        for partition, base in placement.bases:
            offsets[partition] = base
        columns = state.columns
        if placement.subjects.are_set:
            typed = late_columns(batch.records, placement.subjects, columns, self.type_records)
            batch = batch.with_typed(typed, placement.subjects)
            columns = columns.merged_with(batch.columns)
        is_timed = placement.append_time_ms is not None
        records = assign_offsets([batch], offsets, log_append_time=is_timed, columns=columns)
        return encode_segment(records, compression=placement.compression), columns


def _piece(batches: Sequence[IndexedBatch]) -> Piece:
    counts: dict[int, int] = {}
    for batch in batches:
        counts[batch.lane.partition] = counts.get(batch.lane.partition, 0) + batch.lane.record_count
    return Piece(tuple(batches), counts)
