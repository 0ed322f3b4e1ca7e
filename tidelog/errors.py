"""The SDK's exceptions, all of them.

Three roots, by what went wrong:

* ``GatewayError``: a gateway's error answer, or the lack of an answer. It carries the contract's fields: ``code``, ``detail``,
  ``status``, ``retryable``, ``may_have_happened`` (false: a promise that nothing changed), ``fields`` (further members of the
  problem, such as ``limit_bytes``) and ``request_id``, which the gateway's log names.
* ``TidelogError`` beside it: what the client itself refuses or gives up (``BufferFull``, ``DeliveryTimeout``, …). Same fields.
* ``ValueError``, ``TypeError``, ``RuntimeError``: a call that is wrong in itself.

The middle classes are ``log_format.errors``' and say what to do next: ``RequestRefused`` (mend the request), ``BackOff``
(later), ``OutcomeUnknown`` (read back), ``CorruptData``. ``CLASSES`` maps a contract's code to its class. A code that this
version does not know gets the middle class of its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from log_format import errors
from log_format.errors import ErrorCode, TidelogError

_classes: Final[dict[ErrorCode, type[GatewayError]]] = {}
CLASSES: Final[Mapping[ErrorCode, type[GatewayError]]] = MappingProxyType(_classes)


class GatewayError(TidelogError):
    """An error answer of a gateway, or the lack of an answer. A subclass with a ``code`` is that code's class."""

    request_id: str | None = None
    after_doubt: bool = False
    """The error is the last try's only: an earlier try of the same request may have happened."""

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        super().__init_subclass__(code=code)
        if code is not None:
            _classes[code] = cls


class RequestRefused(GatewayError, errors.RequestRefused, code=ErrorCode.INVALID_REQUEST):
    """Mend the request: repeated as it is, it will be refused again. Nothing changed."""


class BackOff(GatewayError, errors.BackOff):
    """Try again later. Nothing changed."""


class OutcomeUnknown(GatewayError, errors.OutcomeUnknown, code=ErrorCode.OUTCOME_UNKNOWN):
    """The request may have happened, and no answer says so: read back before it is repeated."""


class InvalidRecord(RequestRefused, code=ErrorCode.INVALID_RECORD):
    """A record can't be stored; ``fields["errors"]`` says where and why."""


class InvalidTopicName(RequestRefused, code=ErrorCode.INVALID_TOPIC_NAME):
    """No topic may have this name."""


class InvalidConfig(RequestRefused, code=ErrorCode.INVALID_CONFIG):
    """A topic setting is unknown or out of range; ``fields["errors"]`` lists all of them."""


class Unauthenticated(RequestRefused, code=ErrorCode.UNAUTHENTICATED):
    """The token is missing, unknown or expired, or its source gave none: the gateway does not say which."""


class Unauthorized(RequestRefused, code=ErrorCode.UNAUTHORIZED):
    """The caller has no right to do this. The answer is the same whether the resource exists or not."""

    @property
    def operation(self) -> str | None:
        """The first right that is missing, such as ``Write``."""
        return self._named("operation")

    @property
    def resource_type(self) -> str | None:
        """``topic``, ``group``, ``transactional_id`` or ``cluster``."""
        return self._named("resource_type")

    @property
    def resource(self) -> str | None:
        """Its name."""
        return self._named("resource")

    def _named(self, member: str) -> str | None:
        value = self.fields.get(member)
        return value if isinstance(value, str) else None


class UnknownToken(RequestRefused, code=ErrorCode.UNKNOWN_TOKEN):
    """There is no access token of this id."""


class UnknownRole(RequestRefused, code=ErrorCode.UNKNOWN_ROLE):
    """There is no role of this name."""


class AuthDisabled(RequestRefused, code=ErrorCode.AUTH_DISABLED):
    """The gateway runs without authentication (``auth=off``), and keeps no rights."""


class VendingUnavailable(RequestRefused, code=ErrorCode.VENDING_UNAVAILABLE):
    """The gateway gives no credentials for this: a directory, no role to assume, or records that only a journal has."""


class UnknownTopic(RequestRefused, code=ErrorCode.UNKNOWN_TOPIC):
    """The topic does not exist, or not any more."""


class UnknownPartition(RequestRefused, code=ErrorCode.UNKNOWN_PARTITION):
    """The topic has no such partition."""


class TopicAlreadyExists(RequestRefused, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of that name exists."""


class OffsetOutOfRange(RequestRefused, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """Status 410: below the log start; 416: beyond the end. ``fields``: ``log_start_offset``, ``high_watermark``."""


class ExpectedOffsetMismatch(RequestRefused, code=ErrorCode.EXPECTED_OFFSET_MISMATCH):
    """The partition's next offset is not the expected one."""


class UnknownProducer(RequestRefused, code=ErrorCode.UNKNOWN_PRODUCER):
    """The producer id was never issued, or was not used for a day and is forgotten."""


class SequenceOutOfOrder(RequestRefused, code=ErrorCode.SEQUENCE_OUT_OF_ORDER):
    """The request is not its producer's next one, which is ``fields["expected_sequence"]``."""


class FencedProducer(RequestRefused, code=ErrorCode.FENCED_PRODUCER):
    """A newer epoch of this producer has begun."""


class UnknownTransaction(RequestRefused, code=ErrorCode.UNKNOWN_TRANSACTION):
    """There is no such transaction; ended ones are remembered for a day."""


class TransactionNotOpen(RequestRefused, code=ErrorCode.TRANSACTION_NOT_OPEN):
    """The transaction was aborted, perhaps by its time-out; from an abort: it was committed before."""


class UnknownScheduled(RequestRefused, code=ErrorCode.UNKNOWN_SCHEDULED):
    """The topic has no such delayed record, or not any more: it is delivered or cancelled."""


class AlreadyDelivered(RequestRefused, code=ErrorCode.ALREADY_DELIVERED):
    """The delayed record can't be cancelled any more."""


class UnknownGroup(RequestRefused, code=ErrorCode.UNKNOWN_GROUP):
    """The consumer group does not exist, or not any more."""


class UnknownMember(RequestRefused, code=ErrorCode.UNKNOWN_MEMBER):
    """The group has no such member: it left, or was silent for longer than its session time-out."""


class FencedMember(RequestRefused, code=ErrorCode.FENCED_MEMBER):
    """Another consumer with the same ``instance_id`` replaced this one."""


class StaleGeneration(RequestRefused, code=ErrorCode.STALE_GENERATION):
    """The member does not hold these partitions in the group's generation. Nothing was committed."""


class GroupNotEmpty(RequestRefused, code=ErrorCode.GROUP_NOT_EMPTY):
    """The group has live members; the request needs a group without."""


class NoCommittedOffset(RequestRefused, code=ErrorCode.NO_COMMITTED_OFFSET):
    """The group has committed nothing for a partition, and ``auto_offset_reset`` is ``"none"``."""


class UnknownQueue(RequestRefused, code=ErrorCode.UNKNOWN_QUEUE):
    """The queue does not exist."""


class QueueAlreadyExists(RequestRefused, code=ErrorCode.QUEUE_ALREADY_EXISTS):
    """The queue exists and starts elsewhere."""


class LeaseExpired(RequestRefused, code=ErrorCode.LEASE_EXPIRED):
    """The lease of a record is over: the record may have been delivered again."""


class NoDeadLetterTopic(RequestRefused, code=ErrorCode.NO_DEAD_LETTER_TOPIC):
    """The queue has no dead letter topic."""


class InconsistentAssignor(RequestRefused, code=ErrorCode.INCONSISTENT_ASSIGNOR):
    """The group's members use another assignor."""


class RequestTooLarge(RequestRefused, code=ErrorCode.REQUEST_TOO_LARGE):
    """The request is above ``fields["limit_bytes"]``."""


class RecordTooLarge(RequestRefused, code=ErrorCode.RECORD_TOO_LARGE):
    """The record is above its topic's ``max.message.bytes``, which is ``fields["limit_bytes"]``."""


class Throttled(BackOff, code=ErrorCode.THROTTLED):
    """The caller is above a quota, or the gateway's own limit; the gateway says when to come back."""

    @property
    def quota(self) -> str | None:
        """The member of the caller's quota, such as ``produce_bytes_per_s``; None: it is no quota of the caller's."""
        value = self.fields.get("quota")
        return value if isinstance(value, str) else None

    @property
    def retry_after_ms(self) -> float:
        """When the same request will pass, from now; 0: the gateway did not say."""
        value = self.fields.get("retry_after_ms")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0


class Unavailable(BackOff, code=ErrorCode.UNAVAILABLE):
    """The gateway can't reach its store."""


class Overloaded(BackOff, code=ErrorCode.OVERLOADED):
    """The gateway is at a limit of its memory."""


class Draining(BackOff, code=ErrorCode.DRAINING):
    """The gateway is shutting down; another one, or the same after its restart, will do it."""


class CorruptSegment(GatewayError, errors.CorruptData, code=ErrorCode.CORRUPT_SEGMENT):
    """A stored segment (``fields["segment"]``) is missing or damaged: ``tidelog verify`` tells more."""


class UnsupportedTable(GatewayError, errors.UnsupportedTable, code=ErrorCode.UNSUPPORTED_TABLE):
    """Another program gave the topic's table Delta features that Tidelog does not support; the answer says which."""


class InternalError(GatewayError, code=ErrorCode.INTERNAL):
    """An error inside the gateway; its log has the request id."""


class GatewayUnreachable(BackOff):
    """No address answered within the time. The request did not happen, or changes nothing."""


class UnexpectedAnswer(InternalError):
    """The answer does not follow the contract: a proxy in between sent it, or a gateway of another version."""


class BufferFull(TidelogError, code=ErrorCode.OVERLOADED):
    """``max_block_ms`` passed without room in the producer's buffer. The record was not taken."""


class DeliveryTimeout(TidelogError, code=ErrorCode.UNAVAILABLE):
    """``delivery_timeout_ms`` passed, and the record was not stored. The cause is the last error met, if any."""


class ClientClosed(TidelogError, code=ErrorCode.UNAVAILABLE):
    """The client was closed first. The call did nothing."""


class TransactionAborted(TidelogError, code=ErrorCode.TRANSACTION_NOT_OPEN):
    """The transaction that the record was sent in did not commit. The record is in no topic, and never will be."""


class DeliveryFailed(TidelogError):
    """Some records sent since the last ``flush`` were not acknowledged.

    ``failed_count`` is how many; the cause, whose fields this error repeats, is the first of their errors.
    """

    def __init__(self, failed_count: int, first: TidelogError) -> None:
        """Take the first error's fields."""
        records = "1 record was" if failed_count == 1 else f"{failed_count} records were"
        super().__init__(
            f"{records} not acknowledged; the first error: {first.detail}",
            code=first.code,
            status=first.status,
            retryable=first.retryable,
            **first.fields,
        )
        self.may_have_happened = first.may_have_happened
        self.failed_count = failed_count
        self.__cause__ = first
