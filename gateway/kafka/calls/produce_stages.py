"""The stages of one partition's batch in a Produce request: admitted, decoded, submitted or staged, answered.

Each stage is a type of its own whose fields are all set. A partition that is refused at any stage goes on as ``PartitionAnswer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import pyarrow as pa
from kio.schema.errors import ErrorCode as KafkaError

from gateway.engine.open_topic import OpenTopic
from gateway.engine.topic_appends import PendingBatch
from gateway.kafka.calls.batch_origin import NO_OFFSET, BatchOrigin
from gateway.kafka.calls.refused_records import RefusedRecords
from gateway.kafka.wire.batch_head import BatchHead
from gateway.transactions.kafka_transactions import TransactionalProducer
from log_format.records.deferred import DeferredRecords
from log_format.records.single import SingleRecord
from log_format.schemas.columns.codec import Misfit
from log_format.topic.append import Batch
from log_format.topic.state import TopicState

NO_APPEND_TIME: Final = -1
"""The append time of records that have their producer's times, and in refusals."""


@dataclass(frozen=True, slots=True)
class RequestedPartition:
    """Partition of the request, by name up to version 12, by id from version 13."""

    topic: str | None
    """None: no topic has this id."""
    topic_id: UUID | None
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class AdmittedBatch:
    """A batch that its client may write, to a topic that exists, with a valid head and checksum."""

    partition: RequestedPartition
    name: str
    open_topic: OpenTopic
    state: TopicState
    head: BatchHead
    batch: memoryview
    """The whole batch, its head included, as the producer encoded it: a part of the request's frame."""
    origin: BatchOrigin


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """A batch with its records, which may be decoded by its flush. Sizes are those of keys, values and headers;
    ``largest_bytes`` is 0 for records that the flush decodes."""

    admitted: AdmittedBatch
    records: pa.Table | SingleRecord | DeferredRecords
    largest_bytes: int
    size_bytes: int
    refused: RefusedRecords | None
    """Records that the topic's settings or schemas forbid."""
    typed: pa.Table | None = None
    """Typed columns of the records, where the topic has schemas."""
    misfits: Sequence[Misfit] = ()
    """Records that are not of the topic's schemas."""

    def unjudged(self) -> DecodedBatch:
        """Return the batch as it was before its records were judged by the topic's schemas."""
        refused = None if self.misfits else self.refused
        return replace(self, refused=refused, typed=None, misfits=())


@dataclass(frozen=True, slots=True)
class SubmittedBatch:
    """A batch that waits for its commit."""

    partition: RequestedPartition
    open_topic: OpenTopic
    pending: PendingBatch
    append_time_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class StagedBatch:
    """A batch of a transaction, to be put beside the topic until the transaction ends."""

    partition: RequestedPartition
    name: str
    producer: TransactionalProducer
    batch: Batch


@dataclass(frozen=True, slots=True)
class PartitionAnswer:
    """The answer for one partition."""

    partition: RequestedPartition
    error: KafkaError = KafkaError.none
    refused: RefusedRecords | None = None
    base_offset: int = NO_OFFSET
    append_time_ms: int = NO_APPEND_TIME
    log_start: int = -1
