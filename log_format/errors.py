"""Every error that crosses a package boundary.

An error's *class* says what the caller does next. Its *code* is the HTTP API's ``error_code`` (docs/http-api.md, section 1). A
code answers three questions: the HTTP status, whether the very same request may succeed later, and whether it may have happened.
Codes are append-only. Only the table below has these answers; HTTP problems and the SDK's exceptions are made from it.

Store errors are not part of the HTTP API. They say what an ``ObjectStore`` operation did, and its caller translates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from log_format.topic_name import NAME_RULE, create_command

DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeError, RecursionError)
"""Errors that msgspec raises for JSON or MessagePack that is damaged, is not what a decoder expects, is not UTF-8, or nests too
deeply."""


class ErrorCode(StrEnum):
    """The HTTP API's ``error_code`` values. Append-only."""

    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_RECORD = "INVALID_RECORD"
    INVALID_TOPIC_NAME = "INVALID_TOPIC_NAME"
    INVALID_CONFIG = "INVALID_CONFIG"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    UNAUTHORIZED = "UNAUTHORIZED"
    NOT_FOUND = "NOT_FOUND"
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
    UNKNOWN_PARTITION = "UNKNOWN_PARTITION"
    UNKNOWN_GROUP = "UNKNOWN_GROUP"
    UNKNOWN_MEMBER = "UNKNOWN_MEMBER"
    UNKNOWN_PRODUCER = "UNKNOWN_PRODUCER"
    UNKNOWN_QUEUE = "UNKNOWN_QUEUE"
    UNKNOWN_TRANSACTION = "UNKNOWN_TRANSACTION"
    UNKNOWN_SCHEDULED = "UNKNOWN_SCHEDULED"
    UNKNOWN_TOKEN = "UNKNOWN_TOKEN"  # noqa: S105 - the name of an error
    UNKNOWN_ROLE = "UNKNOWN_ROLE"
    UNKNOWN_PIN = "UNKNOWN_PIN"
    UNKNOWN_ERASURE = "UNKNOWN_ERASURE"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    NOT_ACCEPTABLE = "NOT_ACCEPTABLE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    FENCED_PRODUCER = "FENCED_PRODUCER"
    FENCED_MEMBER = "FENCED_MEMBER"
    STALE_GENERATION = "STALE_GENERATION"
    TRANSACTION_NOT_OPEN = "TRANSACTION_NOT_OPEN"
    GROUP_NOT_EMPTY = "GROUP_NOT_EMPTY"
    NO_COMMITTED_OFFSET = "NO_COMMITTED_OFFSET"
    QUEUE_ALREADY_EXISTS = "QUEUE_ALREADY_EXISTS"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    NO_DEAD_LETTER_TOPIC = "NO_DEAD_LETTER_TOPIC"
    INCONSISTENT_ASSIGNOR = "INCONSISTENT_ASSIGNOR"
    ALREADY_DELIVERED = "ALREADY_DELIVERED"
    AUTH_DISABLED = "AUTH_DISABLED"
    VENDING_UNAVAILABLE = "VENDING_UNAVAILABLE"
    PIN_ALREADY_EXISTS = "PIN_ALREADY_EXISTS"
    TOPIC_HAS_PINS = "TOPIC_HAS_PINS"
    VERSION_GONE = "VERSION_GONE"
    SEQUENCE_OUT_OF_ORDER = "SEQUENCE_OUT_OF_ORDER"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    EXPECTED_OFFSET_MISMATCH = "EXPECTED_OFFSET_MISMATCH"
    REQUEST_TOO_LARGE = "REQUEST_TOO_LARGE"
    RECORD_TOO_LARGE = "RECORD_TOO_LARGE"
    THROTTLED = "THROTTLED"
    UNAVAILABLE = "UNAVAILABLE"
    OVERLOADED = "OVERLOADED"
    DRAINING = "DRAINING"
    CORRUPT_SEGMENT = "CORRUPT_SEGMENT"
    UNSUPPORTED_TABLE = "UNSUPPORTED_TABLE"
    INTERNAL = "INTERNAL"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"


class Answers(NamedTuple):
    """The meaning of a code: HTTP status, whether to retry, whether the request may have changed anything, a short title."""

    status: int
    retryable: bool
    may_have_happened: bool
    title: str


def _no(status: int, title: str) -> Answers:
    return Answers(status, retryable=False, may_have_happened=False, title=title)


def _later(status: int, title: str) -> Answers:
    return Answers(status, retryable=True, may_have_happened=False, title=title)


def _perhaps(status: int, title: str) -> Answers:
    return Answers(status, retryable=True, may_have_happened=True, title=title)


ANSWERS: Mapping[ErrorCode, Answers] = MappingProxyType(
    {
        ErrorCode.INVALID_REQUEST: _no(400, "The request is malformed"),
        ErrorCode.INVALID_RECORD: _no(400, "A record can't be stored"),
        ErrorCode.INVALID_TOPIC_NAME: _no(400, "The topic name is not allowed"),
        ErrorCode.INVALID_CONFIG: _no(400, "A topic setting is not allowed"),
        ErrorCode.UNAUTHENTICATED: _no(401, "Credentials are missing or wrong"),
        ErrorCode.UNAUTHORIZED: _no(403, "Not allowed"),
        ErrorCode.NOT_FOUND: _no(404, "There is nothing at this address"),
        ErrorCode.UNKNOWN_TOPIC: _no(404, "The topic does not exist"),
        ErrorCode.UNKNOWN_PARTITION: _no(404, "The partition does not exist"),
        ErrorCode.UNKNOWN_GROUP: _no(404, "The consumer group does not exist"),
        ErrorCode.UNKNOWN_MEMBER: _no(404, "The group has no such member"),
        ErrorCode.UNKNOWN_PRODUCER: _no(404, "The producer id was never issued or is forgotten"),
        ErrorCode.UNKNOWN_QUEUE: _no(404, "The queue does not exist"),
        ErrorCode.UNKNOWN_TRANSACTION: _no(404, "The transaction does not exist"),
        ErrorCode.UNKNOWN_SCHEDULED: _no(404, "The topic has no such delayed record"),
        ErrorCode.UNKNOWN_TOKEN: _no(404, "The token does not exist"),
        ErrorCode.UNKNOWN_ROLE: _no(404, "The role does not exist"),
        ErrorCode.UNKNOWN_PIN: _no(404, "The topic has no such pin"),
        ErrorCode.UNKNOWN_ERASURE: _no(404, "The topic has no such request to erase"),
        ErrorCode.METHOD_NOT_ALLOWED: _no(405, "The method is not allowed here"),
        ErrorCode.NOT_ACCEPTABLE: _no(406, "None of the accepted media types can be served"),
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: _no(415, "The body's type or encoding is not supported"),
        ErrorCode.TOPIC_ALREADY_EXISTS: _no(409, "The topic exists with other settings"),
        ErrorCode.FENCED_PRODUCER: _no(409, "A newer epoch of this producer exists"),
        ErrorCode.FENCED_MEMBER: _no(409, "Another member took this place"),
        ErrorCode.STALE_GENERATION: _no(409, "The member's generation is not current"),
        ErrorCode.TRANSACTION_NOT_OPEN: _no(409, "The transaction is not open"),
        ErrorCode.GROUP_NOT_EMPTY: _no(409, "The group has live members"),
        ErrorCode.NO_COMMITTED_OFFSET: _no(409, "The group has no committed offset here"),
        ErrorCode.QUEUE_ALREADY_EXISTS: _no(409, "The queue exists with another start"),
        ErrorCode.LEASE_EXPIRED: _no(409, "The lease is over"),
        ErrorCode.NO_DEAD_LETTER_TOPIC: _no(409, "The queue has no dead letter topic"),
        ErrorCode.INCONSISTENT_ASSIGNOR: _no(409, "The group uses another assignor"),
        ErrorCode.ALREADY_DELIVERED: _no(409, "The delayed record is delivered"),
        ErrorCode.AUTH_DISABLED: _no(409, "The gateway runs without authentication"),
        ErrorCode.VENDING_UNAVAILABLE: _no(409, "There are no credentials to vend"),
        ErrorCode.PIN_ALREADY_EXISTS: _no(409, "The pin exists with another version"),
        ErrorCode.TOPIC_HAS_PINS: _no(409, "The topic has pins"),
        ErrorCode.VERSION_GONE: _no(410, "The version can't be pinned any more"),
        ErrorCode.SEQUENCE_OUT_OF_ORDER: _no(409, "The producer's sequence is out of order"),
        ErrorCode.OFFSET_OUT_OF_RANGE: _no(416, "The offset is not in the log"),
        ErrorCode.EXPECTED_OFFSET_MISMATCH: _no(412, "The next offset is another one"),
        ErrorCode.REQUEST_TOO_LARGE: _no(413, "The request body is too large"),
        ErrorCode.RECORD_TOO_LARGE: _no(413, "A record is too large for its topic"),
        ErrorCode.THROTTLED: _later(429, "Too many requests"),
        ErrorCode.UNAVAILABLE: _later(503, "The store can't be reached"),
        ErrorCode.OVERLOADED: _later(503, "The gateway is at a limit"),
        ErrorCode.DRAINING: _later(503, "The gateway is shutting down"),
        ErrorCode.CORRUPT_SEGMENT: _no(500, "A segment is missing or damaged"),
        ErrorCode.UNSUPPORTED_TABLE: _no(500, "The table has Delta features that Tidelog does not support"),
        ErrorCode.INTERNAL: _perhaps(500, "An error inside the gateway"),
        ErrorCode.OUTCOME_UNKNOWN: _perhaps(504, "It is not known whether this happened"),
    }
)


class TidelogError(Exception):
    """The root of all errors. ``code`` is the HTTP API's; ``detail`` is a sentence for people; ``fields`` go into the HTTP
    problem.

    ``status``, ``retryable`` and ``may_have_happened`` are those of the code unless given. A class without a code of its own has
    its base class's.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.INTERNAL

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.default_code = code

    def __init__(
        self,
        detail: str,
        *,
        code: ErrorCode | None = None,
        status: int | None = None,
        retryable: bool | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(detail)
        self.code = code if code is not None else self.default_code
        answers = ANSWERS[self.code]
        self.detail = detail
        self.status = answers.status if status is None else status
        self.retryable = answers.retryable if retryable is None else retryable
        self.may_have_happened = answers.may_have_happened
        self.fields = fields


class RequestRefused(TidelogError, code=ErrorCode.INVALID_REQUEST):
    """Error: the request must be fixed. Repeated unchanged, it is refused again. Nothing changed."""


class UnknownTopic(RequestRefused, code=ErrorCode.UNKNOWN_TOPIC):
    """Error: the topic does not exist, or no longer does."""

    def __init__(self, topic: str) -> None:
        command = create_command(topic)
        advice = f"No topic can: a name {NAME_RULE}."
        if command is not None:
            advice = f"Create it with '{command}' (over HTTP: POST /v1/topics)."
        super().__init__(f"Topic {topic!r} does not exist. {advice}", topic=topic)


class UnknownPartition(RequestRefused, code=ErrorCode.UNKNOWN_PARTITION):
    """Error: the topic has no such partition."""

    def __init__(self, topic: str, partition: object, partition_count: int) -> None:
        super().__init__(
            f"Topic {topic!r} has no partition {partition}: its partitions are 0 to {partition_count - 1}.", topic=topic
        )


class OffsetOutOfRange(RequestRefused, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """Error: the offset is outside the log, whose start and end the caller must look up again.

    The status is 410 below the log start, 416 beyond the high watermark.
    """

    def __init__(self, topic: str, partition: int, offset: int, log_start_offset: int, high_watermark: int) -> None:
        below = offset < log_start_offset
        where = "below the log start" if below else "beyond the high watermark"
        super().__init__(
            f"Offset {offset} of {topic}/{partition} is {where}: the log holds [{log_start_offset}, {high_watermark}).",
            status=410 if below else 416,
            topic=topic,
            partition=partition,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
        )


REPLACED_BY: Final = "replaced_by"
"""Field of ``TopicReplaced``: the id of the topic that has the name now."""


class TopicReplaced(TidelogError, code=ErrorCode.UNAVAILABLE):
    """Error: the topic was re-created or got partitions since the request was prepared. Nothing changed; reload and retry."""

    @classmethod
    def by(cls, topic: str, topic_id: str) -> TopicReplaced:
        """Return the error for a topic whose name now belongs to ``topic_id``."""
        return cls(f"Topic {topic!r} was deleted and re-created meanwhile.", topic=topic, replaced_by=topic_id)


class BackOff(TidelogError, code=ErrorCode.UNAVAILABLE):
    """Error: the store or the gateway can't do it now. Nothing changed; retry later."""


def log_outran_reader(topic: str) -> BackOff:
    """Return the error of who works on a topic's log at one version, while others write checkpoints of later ones."""
    return BackOff(f"The log of topic {topic!r} grows faster than it can be read.", topic=topic)


class OutcomeUnknown(TidelogError, code=ErrorCode.OUTCOME_UNKNOWN):
    """Error: a limit was reached before it was known whether the change is in the log. Read back."""


class CorruptData(TidelogError, code=ErrorCode.CORRUPT_SEGMENT):
    """Error: stored bytes are missing, or are not what the log says. Quarantine them. Decoders raise only this."""


class UnsupportedTable(CorruptData, code=ErrorCode.UNSUPPORTED_TABLE):
    """Error: a later release wrote something that this one does not know. Stop; nothing is damaged, nothing changed."""


class StoreError(Exception):
    """An error of an ``ObjectStore`` operation. ``key`` is the object's."""

    def __init__(self, key: str, detail: str) -> None:
        super().__init__(f"{key}: {detail}")
        self.key = key
        self.detail = detail


class ObjectMissing(StoreError):
    """Error: there is no such object."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "no such object")


class ObjectTooLarge(StoreError):
    """Error: the object has more bytes than the caller accepts. None of them was read."""

    def __init__(self, key: str, size_bytes: int, bytes_max: int) -> None:
        super().__init__(key, f"it has {size_bytes} bytes, more than {bytes_max}")
        self.size_bytes = size_bytes


class ObjectExists(StoreError):
    """Error: ``put_if_absent`` found an object with the key: perhaps the caller's own, from a try whose answer was lost."""

    def __init__(self, key: str) -> None:
        super().__init__(key, "the object exists")


class StoreReason(StrEnum):
    """Why a store failed, as far as every caller may know. Append-only."""

    ACCESS_DENIED = "access_denied"
    READ_ONLY = "read_only"
    NO_SPACE = "no_space"
    CLOCK = "clock"
    BUSY = "busy"
    UNREACHABLE = "unreachable"
    FAILED = "failed"

    @property
    def said(self) -> str:
        """What people are told."""
        return _SAID[self]


_SAID: Final[Mapping[StoreReason, str]] = {
    StoreReason.ACCESS_DENIED: "access to the store is denied",
    StoreReason.READ_ONLY: "the store is read-only",
    StoreReason.NO_SPACE: "the store has no space left",
    StoreReason.CLOCK: "this machine's clock is not the store's",
    StoreReason.BUSY: "the store asks for fewer requests",
    StoreReason.UNREACHABLE: "the store can't be reached",
    StoreReason.FAILED: "the store failed",
}


class StoreUnavailable(StoreError):
    """Error: the operation failed. ``may_have_happened`` false promises that nothing changed: it was refused, or never sent.

    ``may_pass`` false: waiting does not help. The store's name, the permissions or the settings must change.
    """

    def __init__(
        self,
        key: str,
        detail: str,
        *,
        may_have_happened: bool,
        may_pass: bool = True,
        reason: StoreReason = StoreReason.FAILED,
    ) -> None:
        super().__init__(key, detail)
        self.may_have_happened = may_have_happened
        self.may_pass = may_pass
        self.reason = reason


def store_reason(error: BaseException | None) -> StoreReason | None:
    """Return why the store failed, of an error that a store's failure caused; None of any other."""
    for _ in range(_CAUSES_MAX):
        if error is None or isinstance(error, StoreUnavailable):
            break
        error = error.__cause__
    return error.reason if isinstance(error, StoreUnavailable) else None


_CAUSES_MAX: Final = 8
"""Causes of causes that are looked at: an error that is raised again may be its own."""
