"""The head of a record batch, magic 2: its fields, its length, its checksum.

Source: Kafka's ``DefaultRecordBatch``, KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.record.default_records import DefaultRecordBase
from crc32c import crc32c

from gateway.kafka.wire.reading import Malformed

HEAD: Final[struct.Struct] = DefaultRecordBase.HEADER_STRUCT
LENGTH_END: Final = DefaultRecordBase.AFTER_LEN_OFFSET
"""Bytes at the start that the length field does not count."""
CHECKED_START: Final = DefaultRecordBase.ATTRIBUTES_OFFSET
"""Index of the first byte that the checksum covers."""
CODEC_MASK: Final = DefaultRecordBase.CODEC_MASK
LOG_APPEND_TIME: Final = DefaultRecordBase.TIMESTAMP_TYPE_MASK
TRANSACTIONAL: Final = DefaultRecordBase.TRANSACTIONAL_MASK
CONTROL: Final = DefaultRecordBase.CONTROL_MASK
MAGIC: Final = 2
NO_PRODUCER: Final = -1


class OldMagic(Exception):
    """A batch of magic 0 or 1, or of an unknown one."""


class WrongChecksum(Malformed):
    """The batch does not match its checksum."""


@dataclass(frozen=True, slots=True)
class BatchHead:
    """The fields in their order, without length, epoch, magic and checksum."""

    base_offset: int
    attributes: int
    last_offset_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    @property
    def codec(self) -> int:
        """Number of the records' compression codec."""
        return self.attributes & int(CODEC_MASK)

    @property
    def is_transactional(self) -> bool:
        """Whether the records belong to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


def read_head(data: memoryview) -> BatchHead:
    """Return the head of the only batch in ``data``. Raise ``Malformed``, ``OldMagic``, ``WrongChecksum``."""
    if len(data) <= HEAD.size - 1:
        if len(data) > 16 and data[16] < MAGIC:
            raise OldMagic
        raise Malformed("half a batch")
    base_offset, length, _, magic, crc, *fields = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise OldMagic
    if length != len(data) - LENGTH_END:
        raise Malformed(f"a batch of {length + LENGTH_END} bytes in {len(data)}")
    if crc != crc32c(data[CHECKED_START:]):
        raise WrongChecksum("the batch's checksum is another")
    head = BatchHead(base_offset, *fields)
    if head.count < 1 or head.last_offset_delta != head.count - 1:
        raise Malformed(f"a batch of {head.count} records up to offset {head.last_offset_delta}")
    return head


def codec_of(batch: bytes | memoryview) -> int:
    """Return the codec number of a batch that was checked."""
    attributes: int = batch[CHECKED_START + 1]
    return attributes & int(CODEC_MASK)


def encode_head(head: BatchHead, records: Sequence[bytes | memoryview]) -> bytes:
    """Encode the head of a batch with these records, which are given in parts, encoded and compressed."""
    length = HEAD.size - LENGTH_END + sum(map(len, records))
    fields = (
        head.attributes,
        head.last_offset_delta,
        head.first_timestamp,
        head.max_timestamp,
        head.producer_id,
        head.producer_epoch,
        head.base_sequence,
        head.count,
    )
    crc = crc32c(HEAD.pack(head.base_offset, length, 0, MAGIC, 0, *fields)[CHECKED_START:])
    for part in records:
        crc = crc32c(part, crc)
    return HEAD.pack(head.base_offset, length, 0, MAGIC, crc, *fields)


def with_base_offset(batch: memoryview, base_offset: int) -> tuple[bytes, memoryview]:
    """Return a producer's batch with another base offset, in two parts. The bytes that the checksum covers stay the same."""
    return _START.pack(base_offset, len(batch) - LENGTH_END, 0), batch[_START.size :]


_START: Final = struct.Struct(">qii")
"""Base offset, length, leader epoch: the fields before the magic and the checksum."""
