"""The record batches of a fetch: in their producers' bytes where the gateway still has them, else encoded anew.

1. The engine decides which records are answered. A producer's batch is used only in place of the same records.
2. A batch that reaches beyond these records, or beyond the client's limit for the partition, is left for the next fetch, unless
   it is the first one, as with a broker.
3. No record before the requested offset is sent: if that offset lies inside a producer's batch, the batch's other records are
   encoded anew. A broker sends the whole batch, and programs that use batches as they are would see a record twice.
4. Where records were compacted, producers' bytes are not used.
5. Batches are encoded without compression, unless the topic's ``compression.type`` was set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from gateway.engine.fetch_answer import Fetched, FetchFrom
from gateway.engine.tail_cache import Original
from gateway.kafka.call import KafkaCall
from gateway.kafka.encoded_batches import BatchKey, Parts
from gateway.kafka.wire.batch_head import HEAD, codec_of, with_base_offset
from gateway.kafka.wire.compression import CODEC_NAMES, NONE, ZSTD
from gateway.kafka.wire.encoding import encode_batches
from log_format.errors import TidelogError

INLINE_BYTES_MAX: Final = 64 * 1024
"""Size above which records are encoded in a thread."""
RECORD_HEAD_BYTES: Final = 7
"""Least bytes of an encoded record besides its data: its lengths, attributes, deltas and count of headers."""
ZSTD_VERSION_MIN: Final = 10
"""First version of Fetch in which clients understand Zstandard (KIP-110)."""


class PartitionRead(NamedTuple):
    """A partition to read. ``bytes_max``: the client's own limit; that of ``start`` may be larger."""

    start: FetchFrom
    bytes_max: int


@dataclass(slots=True, eq=False)
class _PendingBatch:
    """Records to be encoded. ``batch`` receives the result."""

    key: BatchKey
    tables: Sequence[pa.Table]
    size_bytes: int
    is_at_end: bool
    batch: Parts = ()

    @property
    def least_bytes(self) -> int:
        """Least bytes of the batch without compression."""
        count: int = sum(table.num_rows for table in self.tables)
        return HEAD.size + self.size_bytes + RECORD_HEAD_BYTES * count

    def encode(self) -> None:
        """Encode the records into ``batch``; called in a thread if they are large."""
        place = self.key
        self.batch = encode_batches(
            self.tables, place.offset, place.next_offset, codec=place.codec, log_append_time=place.log_append_time
        )


@dataclass(slots=True, eq=False)
class _PartitionPlan:
    """The batches of one partition, in order."""

    pieces: list[Original | _PendingBatch] = field(default_factory=list)

    @property
    def sent_bytes(self) -> int:
        """Bytes of the batches, estimated as in the function ``sent_bytes``."""
        return sum(one.least_bytes if isinstance(one, _PendingBatch) else len(one.data) for one in self.pieces)

    def batches(self) -> Parts:
        """Return the bytes of all batches; call it once all are encoded."""
        found: list[bytes | memoryview] = []
        for piece in self.pieces:
            if isinstance(piece, _PendingBatch):
                found += piece.batch
            else:
                found += with_base_offset(memoryview(piece.data), piece.base_offset)
        return found


def sent_bytes(call: KafkaCall, reads: Sequence[PartitionRead], parts: Sequence[Fetched | TidelogError]) -> int:
    """Estimate the size of the batches of these partitions.

    A producer's batch counts with its own size; one that is encoded anew counts with the least size that it has without
    compression.

    Args:
        call: The fetch.
        reads: The partitions.
        parts: What the engine found for each of ``reads``.
    """
    return sum(
        _plan(call, one, part).sent_bytes
        for one, part in zip(reads, parts, strict=True)
        if isinstance(part, Fetched) and part.records.record_count
    )


async def encode_partitions(
    call: KafkaCall, reads: Sequence[PartitionRead], parts: Sequence[Fetched | TidelogError]
) -> list[Parts]:
    """Return the encoded batches of each partition.

    Args:
        call: The fetch.
        reads: The partitions.
        parts: What the engine found for each of ``reads``; errors have no batches.
    """
    planned = [
        _plan(call, one, part) if isinstance(part, Fetched) else _PartitionPlan()
        for one, part in zip(reads, parts, strict=True)
    ]
    missing = []
    for one in planned:
        for piece in one.pieces:
            if isinstance(piece, _PendingBatch):
                known = call.caches.encoded_batches.find(piece.key)
                if known is None:
                    missing.append(piece)
                else:
                    piece.batch = known
    await _encode_missing(call, missing)
    return [one.batches() for one in planned]


async def _encode_missing(call: KafkaCall, missing: Sequence[_PendingBatch]) -> None:
    def encode() -> None:
        for piece in missing:
            piece.encode()

    if sum(piece.size_bytes for piece in missing) <= INLINE_BYTES_MAX:
        encode()
    else:
        await asyncio.get_running_loop().run_in_executor(call.gateway.codec_pool, encode)
    for piece in missing:
        if piece.is_at_end:
            call.caches.encoded_batches.add(piece.key, piece.batch)


def _plan(call: KafkaCall, read: PartitionRead, part: Fetched) -> _PartitionPlan:
    records, offset = part.records, read.start.offset
    assert isinstance(offset, int)
    planned, at, end, sent = _PartitionPlan(), offset, records.next_offset, 0
    if at == end:
        return planned
    codec, is_appended = _codec(call, part.topic), has_append_time(call, part.topic)
    has_gaps = records.record_count != end - at
    erased_end = _erased_end(call, part)

    def encode_up_to(stop: int) -> None:
        if stop > at:
            tables = records.tables if has_gaps else _rows(records.tables, at - offset, stop - at)
            place = BatchKey(part.topic_id, part.partition, at, stop, codec, is_appended, erased_end)
            size = records.size_bytes * (stop - at) // (end - offset)
            planned.pieces.append(_PendingBatch(place, tables, size, stop == part.high_watermark))

    originals = (
        [] if has_gaps or at < erased_end else call.engine.reader.originals(part.topic_id, part.partition, at, end)
    )
    for original in originals:
        is_whole = at <= original.base_offset and original.end_offset <= part.high_watermark
        if not is_whole or not _is_decodable(call, original):
            continue
        is_first = not planned.pieces and original.base_offset == at
        is_beyond = original.end_offset > end or sent + len(original.data) > read.bytes_max
        if is_beyond and not is_first:
            end = original.base_offset
            break
        encode_up_to(original.base_offset)
        planned.pieces.append(original)
        sent += len(original.data)
        at = original.end_offset
    encode_up_to(end)
    return planned


def _rows(tables: Sequence[pa.Table], first: int, count: int) -> Sequence[pa.Table]:
    if not first and count == sum(table.num_rows for table in tables):
        return tables
    return [pa.concat_tables(tables).slice(first, count)]


def _codec(call: KafkaCall, topic: str) -> int:
    """Return the codec that a user set for the topic; no compression otherwise, or if the client does not know the codec."""
    known = call.engine.topics.known(topic)
    chosen = None if known is None else known.state.config.overrides.get("compression.type")
    codec = CODEC_NAMES.get(str(chosen), NONE)
    return NONE if codec == ZSTD and call.version < ZSTD_VERSION_MIN else codec


def has_append_time(call: KafkaCall, topic: str) -> bool:
    """Return whether the gateway sets the timestamps of the topic's records."""
    known = call.engine.topics.known(topic)
    return known is not None and known.state.config.choice("message.timestamp.type") == "LogAppendTime"


def _erased_end(call: KafkaCall, part: Fetched) -> int:
    """Return the offset below which what producers sent is not what the topic has."""
    known = call.engine.topics.known(part.topic)
    if known is None or known.state.topic_id != part.topic_id:
        return 0
    return int(known.state.erased_ends[part.partition])


def _is_decodable(call: KafkaCall, original: Original) -> bool:
    return call.version >= ZSTD_VERSION_MIN or codec_of(original.data) != ZSTD
