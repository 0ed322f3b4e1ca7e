"""Bodies and answers of the requests about queues."""

from __future__ import annotations

from typing import Annotated, Final, NotRequired, Self

from pydantic import AfterValidator, ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator, with_config
from typing_extensions import TypedDict

from gateway.http import fields
from gateway.http.producer_headers import TRANSACTION, TransactionId
from gateway.http.validation import Fault, faults_error
from gateway.openapi.schemas import Record
from gateway.queues.bounds import RECEIVE_RECORDS_DEFAULT, SETTLEMENTS_MAX
from gateway.queues.received import ReceiveRequest
from gateway.queues.redriving import STOP, UNPROVED
from gateway.queues.settlement import Settlement
from gateway.routes.fetch_operation import BYTES_DEFAULT, BYTES_MAX, RECORDS_MAX, WAIT_MS_MAX
from log_format import limits
from log_format.errors import ErrorCode
from log_format.queues.row import QueueFilter, QueueSettings

LockMs = Annotated[int, fields.Between(limits.LOCK_MS_MIN, limits.LOCK_MS_MAX)]
DelayMs = Annotated[int, fields.Between(0, limits.RELEASE_DELAY_MS_MAX)]
_ONLY_WITH: Final = {"delay_ms": "release", "lock_ms": "renew"}


def _kind_of_start(value: object) -> str | None:
    if isinstance(value, dict):
        return "timestamp"
    return "word" if isinstance(value, str) else None


class FromTimestamp(fields.Body):
    """Begin with the first record of this time or later, in each partition."""

    timestamp: fields.Timestamp


Start = Annotated[
    Annotated[str, fields.OneOf("latest", "earliest"), Tag("word")] | Annotated[FromTimestamp, Tag("timestamp")],
    Discriminator(
        _kind_of_start,
        custom_error_type="start",
        custom_error_message="must be latest, earliest, or an object with timestamp",
    ),
]


def _reason(text: str) -> str:
    if len(text.encode(errors="replace")) > limits.REASON_BYTES_MAX:
        raise faults_error([((), f"must be at most {limits.REASON_BYTES_MAX} bytes")])
    return text


def _conditions(texts: list[str]) -> list[str]:
    wrong = [((at,), "must be name:value, or name:* for any value") for at, text in enumerate(texts) if ":" not in text]
    if wrong:
        raise faults_error(wrong)
    return texts


class Filter(fields.Body):
    """Filter of a queue: it delivers records that match all of `headers` (`name:value`, or `name:*`) and have the key `key`."""

    headers: Annotated[
        list[str],
        fields.ErrorMessage("must be a list of strings"),
        Field(max_length=limits.FILTER_HEADERS_MAX),
        AfterValidator(_conditions),
    ] = Field(default_factory=list)
    key: Annotated[str | None, fields.NotNull()] = None

    @model_validator(mode="after")
    def _any(self) -> Self:
        if not self.headers and self.key is None:
            raise faults_error([(("headers",), "or key must be given")])
        return self


def _each_once(names: list[str]) -> list[str]:
    twice = [((index,), "is given twice") for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise faults_error(twice)
    return names


class QueueToPut(fields.Body, example={"topics": ["orders"], "lock_ms": 30000, "dead_letter_topic": "orders-dead"}):
    """A queue's settings. They replace all its settings; an absent `start` keeps the present one."""

    topics: Annotated[
        list[fields.TopicName],
        Field(min_length=1, max_length=limits.QUEUE_TOPICS_MAX),
        fields.ErrorMessage(f"must be a list of 1 to {limits.QUEUE_TOPICS_MAX} strings"),
        AfterValidator(_each_once),
    ]
    start: Start = "latest"
    lock_ms: LockMs = limits.LOCK_MS_DEFAULT
    max_deliveries: Annotated[int, fields.Between(1, limits.DELIVERIES_MAX)] = limits.DELIVERIES_DEFAULT
    dead_letter_topic: fields.TopicName | None = None
    backoff_ms: Annotated[list[DelayMs], Field(max_length=limits.BACKOFFS_MAX)] = Field(default_factory=list)
    max_in_flight: Annotated[int, fields.Between(1, limits.IN_FLIGHT_MAX)] = limits.IN_FLIGHT_DEFAULT
    order: Annotated[str, fields.OneOf("none", "key")] = "none"
    expired: Annotated[str, fields.OneOf("drop", "dead_letter")] = "drop"
    filter: Filter | None = None

    @model_validator(mode="after")
    def _no_circle(self) -> Self:
        if self.dead_letter_topic in self.topics:
            raise faults_error([(("dead_letter_topic",), "must not be one of the queue's topics")])
        return self

    def settings(self) -> QueueSettings:
        """Return the settings for the engine."""
        wanted = self.filter
        return QueueSettings(
            topics=tuple(self.topics),
            start=self.start if isinstance(self.start, str) else self.start.timestamp,
            lock_ms=self.lock_ms,
            max_deliveries=self.max_deliveries,
            dead_letter_topic=self.dead_letter_topic,
            backoff_ms=tuple(self.backoff_ms),
            max_in_flight=self.max_in_flight,
            order=self.order,
            expired=self.expired,
            filter=None if wanted is None else QueueFilter(headers=tuple(wanted.headers), key=wanted.key),
        )


class Receive(fields.Body, example={"max_records": 10, "max_wait_ms": 1000}):
    """Number of records to receive, how long to wait for them, and how long they are locked."""

    max_records: Annotated[int, fields.Between(1, RECORDS_MAX)] = RECEIVE_RECORDS_DEFAULT
    max_bytes: Annotated[int, fields.Between(1, BYTES_MAX)] = BYTES_DEFAULT
    max_wait_ms: Annotated[int, fields.Between(0, WAIT_MS_MAX)] = 0
    lock_ms: Annotated[LockMs | None, fields.NotNull()] = None
    client_id: fields.Identifier | None = None
    begun_max: Annotated[Annotated[int, fields.Between(0, RECORDS_MAX)] | None, fields.NotNull()] = None

    def wish(self) -> ReceiveRequest:
        """Return the request for the engine."""
        return ReceiveRequest(
            records_max=self.max_records,
            bytes_max=self.max_bytes,
            wait_ms_max=self.max_wait_ms,
            lock_ms=self.lock_ms,
            begun_max=self.begun_max,
        )


class SettlementToMake(fields.PartitionKey):
    """A settlement of one record (`offset`) or a range (`first_offset` to `last_offset`, both included) of one lease."""

    offset: Annotated[fields.Offset | None, fields.NotNull()] = None
    first_offset: Annotated[fields.Offset | None, fields.NotNull()] = None
    last_offset: Annotated[fields.Offset | None, fields.NotNull()] = None
    lease: fields.Opaque
    action: Annotated[str, fields.OneOf("accept", "release", "reject", "renew")]
    delay_ms: Annotated[DelayMs | None, fields.NotNull()] = None
    lock_ms: Annotated[LockMs | None, fields.NotNull()] = None
    reason: Annotated[Annotated[str, AfterValidator(_reason)] | None, fields.NotNull()] = None
    begun: Annotated[bool | None, fields.NotNull()] = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        found: list[Fault] = []
        if self.offset is not None:
            found += [
                ((name,), "does not go with offset")
                for name in ("first_offset", "last_offset")
                if getattr(self, name) is not None
            ]
        elif self.first_offset is None and self.last_offset is None:
            found.append((("offset",), "or first_offset and last_offset must be given"))
        elif self.first_offset is None or self.last_offset is None:
            found.append((("first_offset" if self.first_offset is None else "last_offset",), "is missing"))
        elif self.last_offset < self.first_offset:
            found.append((("last_offset",), "must not be below first_offset"))
        for name, action in _ONLY_WITH.items():
            if getattr(self, name) is not None and self.action != action:
                found.append(((name,), f"goes with {action} only"))
        if self.begun is not None and self.action != ("renew" if self.begun else "release"):
            found.append((("begun",), "true goes with renew only, false with release only"))
        if found:
            raise faults_error(found)
        return self

    def settlement(self) -> Settlement:
        """Return the settlement for the engine."""
        first = self.offset if self.offset is not None else self.first_offset
        last = self.offset if self.offset is not None else self.last_offset
        assert first is not None
        assert last is not None
        return Settlement(
            topic=self.topic,
            partition=self.partition,
            first=first,
            last=last,
            lease=self.lease,
            action=self.action,
            delay_ms=self.delay_ms,
            lock_ms=self.lock_ms,
            reason=self.reason,
            begun=self.action == "release" if self.begun is None else self.begun,
        )


class Settle(
    fields.Body,
    example={"settlements": [{"topic": "orders", "partition": 0, "offset": 7, "lease": "9-1", "action": "accept"}]},
):
    """Settlements of records. Each succeeds or fails as a whole, independently of the others."""

    settlements: Annotated[list[SettlementToMake], Field(max_length=SETTLEMENTS_MAX)]


class SettleHeaders(fields.Headers):
    """The transaction to which the settlements belong, if any."""

    transaction_id: Annotated[
        TransactionId | None,
        fields.NotNull(),
        Field(alias=TRANSACTION, description="From `POST /v1/transactions`: the records stay locked until it ends"),
    ] = None


class Redrive(fields.Body, example={"max_records": 1000}):
    """Dead letters to produce again, and their topic; without `to_topic` each record goes to its own topic."""

    to_topic: fields.TopicName | None = None
    max_records: Annotated[Annotated[int, fields.Between(1)] | None, fields.NotNull()] = None
    unproved: Annotated[
        str,
        fields.OneOf(*UNPROVED),
        Field(description="What becomes of records that say that the queue put them there, where nothing proves it"),
    ] = STOP


class QueuesQuery(fields.Parameters):
    """Page of the list of queues."""

    limit: fields.Limit = fields.LIST_LIMIT
    after: Annotated[str, Field(max_length=255, description="Only names after this one")] = ""


class StartTimestamp(TypedDict):
    """Begin with the first record of this time or later, in each partition."""

    timestamp: fields.Timestamp


class FilterOfQueue(TypedDict):
    """Filter of a queue: the records that it delivers."""

    headers: list[str]
    key: NotRequired[str]


class QueueSummary(TypedDict):
    """A queue's settings."""

    queue: fields.Identifier
    topics: list[fields.TopicName]
    start: Annotated[str, fields.OneOf("latest", "earliest")] | StartTimestamp
    lock_ms: LockMs
    max_deliveries: fields.Count
    dead_letter_topic: fields.TopicName | None
    backoff_ms: list[fields.Count]
    max_in_flight: fields.Count
    order: Annotated[str, fields.OneOf("none", "key")]
    expired: Annotated[str, fields.OneOf("drop", "dead_letter")]
    filter: FilterOfQueue | None


class QueuePartition(TypedDict):
    """Progress in a partition: every record before `start_offset` is settled. `in_flight` records are locked, `delayed` ones
    wait for their time, `lag` counts all unsettled ones. `blocked_ms`: how long the record at `start_offset` has been
    unsettled while later ones are settled."""

    topic: fields.TopicName
    partition: fields.Partition
    start_offset: fields.Offset
    in_flight: fields.Count
    delayed: fields.Count
    lag: fields.Count
    blocked_ms: fields.Count


class DroppedRange(TypedDict):
    """Records that were given up without a dead letter topic."""

    topic: fields.TopicName
    partition: fields.Partition
    first_offset: fields.Offset
    last_offset: fields.Offset
    deliveries: fields.Count
    reason: str
    at: fields.Timestamp


class DroppedRecords(TypedDict):
    """Records given up: `records` counts them since `since`, when the queue's gateway began to coordinate it; `newest` has the
    latest ranges of topics that the caller may describe. `__audit` has all."""

    records: fields.Count
    since: fields.Timestamp
    newest: list[DroppedRange]


class Queue(QueueSummary):
    """A queue, its progress in each partition, and the records that it gave up."""

    partitions: list[QueuePartition]
    dropped: DroppedRecords


class QueuePage(TypedDict):
    """One page of queues. `next` is present if more follow; send it as `after`."""

    queues: list[QueueSummary]
    next: NotRequired[str]


_RECEIVED_EXAMPLE: Final[dict[str, JsonValue]] = {
    "partition": 0,
    "offset": 41,
    "timestamp": 1763683200000,
    "key": "user-7",
    "value": "paid",
    "headers": [],
    "topic": "orders",
    "delivery_count": 1,
    "lease": "9-1",
    "locked_until_ms": 1763683230000,
}


@with_config(ConfigDict(json_schema_extra={"examples": [_RECEIVED_EXAMPLE]}))
class ReceivedRecord(Record):
    """A record and its lock."""

    topic: fields.TopicName
    delivery_count: Annotated[int, fields.Between(1)]
    lease: fields.Opaque
    locked_until_ms: fields.Timestamp


class Received(TypedDict):
    """Records, locked for the caller until `locked_until_ms`. A lease covers the records of one partition."""

    records: list[ReceivedRecord]


class SettledResult(TypedDict):
    """Result of a settlement. `locked_until_ms` is present after a `renew`."""

    topic: fields.TopicName
    partition: fields.Partition
    offset: NotRequired[fields.Offset]
    first_offset: NotRequired[fields.Offset]
    last_offset: NotRequired[fields.Offset]
    settled: bool
    error_code: NotRequired[Annotated[str, fields.OneOf(str(ErrorCode.LEASE_EXPIRED))]]
    locked_until_ms: NotRequired[fields.Timestamp]


class Results(TypedDict):
    """Results in the order of the request."""

    results: list[SettledResult]


class Redriven(TypedDict):
    """Number of records that were produced. `refused` is present for dead letters of typed topics: those that still are not of
    the schema."""

    redriven: fields.Count
    refused: NotRequired[fields.Count]
