"""Batches whose records are decoded by their flush, with the batches of other requests and connections.

A batch may wait for that if all that its admission needs is in its head: of more than a few records, not compressed, with the
producer's timestamps, outside of transactions, for a topic without schemas, and answered. What the records themselves decide is
decided by the flush: a batch that is malformed, or that the topic's settings refuse, is refused alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from gateway.kafka.calls.produce_stages import AdmittedBatch
from gateway.kafka.calls.refused_records import RefusedRecords, check_records
from gateway.kafka.wire.batch_head import HEAD, BatchHead
from gateway.kafka.wire.compression import TooLarge
from gateway.kafka.wire.decoding import RECORD_BYTES_MIN, decode_together
from gateway.kafka.wire.few_records import NO_TIMESTAMP
from gateway.kafka.wire.few_records import RECORDS_MAX as FEW_RECORDS
from gateway.kafka.wire.reading import Malformed
from log_format.errors import ErrorCode, RequestRefused
from log_format.records.deferred import Decoded, DeferredRecords
from log_format.records.size import record_bytes
from log_format.topic.config import TopicConfig

PASS_BYTES_MAX: Final = 1024 * 1024
PASS_RECORDS_MAX: Final = 32 * 1024
"""Most bytes and records that are decoded in one pass, if they are of several batches: a pass takes about 100 bytes a record, and
more batches save nothing more."""
FRAME_SHARE_MIN: Final = 0.9
"""Share of its frame above which a batch is kept as a view of the frame. A smaller batch is copied, since a view keeps the whole
frame in memory."""
_ROW_BYTES: Final = 24
"""About what a record takes in a table in addition to its key, value and headers."""


class DeferredBatch(DeferredRecords):
    """A batch's bytes, and afterwards its records. ``headers_bytes_max``: most bytes that its further headers count
    (``decoding.decode``)."""

    __slots__ = ("_admitted_ms", "_config", "_head", "_headers_bytes_max", "encoded", "refused")

    def __init__(self, admitted: AdmittedBatch, now_ms: int, headers_bytes_max: int) -> None:
        head = admitted.head
        self.encoded: memoryview | bytes = kept_bytes(admitted.batch)
        """All bytes of the batch, while they are not decoded."""
        self.refused: RefusedRecords | None = None
        """Why the batch is refused for its records, as producers are told."""
        self._head: BatchHead = head
        self._config: TopicConfig = admitted.state.config
        self._admitted_ms = now_ms
        self._headers_bytes_max = headers_bytes_max
        size = len(admitted.batch) - HEAD.size + (_ROW_BYTES - RECORD_BYTES_MIN) * head.count
        super().__init__(count=head.count, nbytes=max(size, _ROW_BYTES), newest_ms=head.max_timestamp)

    @property
    def size_bytes(self) -> int:
        """About the bytes of keys, values and headers: rather too many, by a few bytes a record."""
        return max(0, len(self.encoded) - HEAD.size - RECORD_BYTES_MIN * self.count)

    @classmethod
    def decode(cls, some: Sequence[DeferredBatch]) -> None:
        """Decode in passes over several batches; those of a pass with a malformed one are decoded one by one."""
        for batches in _passes(some):
            if not _decode(batches):
                for batch in batches:
                    if not _decode([batch]):
                        batch.refuse(RefusedRecords(KafkaError.invalid_record, "The batch is malformed."))

    def take(self, records: pa.Table, largest_bytes: int) -> None:
        """Take the decoded records if the topic's settings accept them."""
        refused = check_records(records, self._config, largest_bytes, self._admitted_ms)
        if refused is not None:
            self.refuse(refused)
        else:
            self.outcome, self.encoded = Decoded(records, largest_bytes), b""

    def refuse(self, why: RefusedRecords) -> None:
        """Refuse the batch for its records."""
        code = ErrorCode.RECORD_TOO_LARGE if why.error is KafkaError.message_too_large else ErrorCode.INVALID_RECORD
        self.refused, self.outcome, self.encoded = why, RequestRefused(why.message, code=code), b""


def may_be_deferred(admitted: AdmittedBatch, acks: int) -> bool:
    """Return whether the batch's records may be decoded by its flush. With ``acks`` 0 nobody would be told of a refusal."""
    head, config = admitted.head, admitted.state.config
    return (
        acks != 0
        and head.count > FEW_RECORDS
        and not head.attributes
        and head.first_timestamp != NO_TIMESTAMP
        and admitted.origin.producer is None
        and not config.subjects.are_set
        and config.choice("message.timestamp.type") == "CreateTime"
    )


def kept_bytes(batch: memoryview) -> memoryview | bytes:
    """Return the batch's bytes without most of the frame that it came in."""
    frame = batch.obj
    assert isinstance(frame, bytearray | bytes)
    return batch if len(batch) > len(frame) * FRAME_SHARE_MIN else bytes(batch)


def _passes(batches: Sequence[DeferredBatch]) -> Iterator[Sequence[DeferredBatch]]:
    """Yield the batches in their order, as many at once as one pass decodes."""
    size = count = first = 0
    for number, batch in enumerate(batches):
        size, count = size + len(batch.encoded), count + batch.count
        if number > first and (size > PASS_BYTES_MAX or count > PASS_RECORDS_MAX):
            yield batches[first:number]
            size, count, first = len(batch.encoded), batch.count, number
    yield batches[first:]


def _decode(batches: Sequence[DeferredBatch]) -> bool:
    """Decode the batches in one pass. Return False, and do nothing, if one of them is malformed or has too many headers."""
    heads = [batch._head for batch in batches]
    encoded = [memoryview(batch.encoded) for batch in batches]
    try:
        records = decode_together(heads, encoded, NO_TIMESTAMP, batches[0]._headers_bytes_max)
    except (Malformed, TooLarge):
        return False
    counts = np.array([batch.count for batch in batches])
    firsts = np.cumsum(counts) - counts
    largest = np.maximum.reduceat(record_bytes(records), firsts)
    for batch, first, size in zip(batches, firsts.tolist(), largest.tolist(), strict=True):
        batch.take(records.slice(first, batch.count), size)
    return True
