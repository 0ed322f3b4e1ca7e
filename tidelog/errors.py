"""All exceptions of the SDK.

Three roots, by what went wrong:

* ``GatewayError``: a gateway's error answer, or a missing answer. It carries the API's fields: ``code``, ``detail``,
  ``status``, ``retryable``, ``may_have_happened`` (false promises that nothing changed), ``fields`` (further members of the
  problem, such as ``limit_bytes``) and ``request_id``, which appears in the gateway's log.
* ``TidelogError`` that is no ``GatewayError``: what the client itself refuses or gives up (``BufferFull``, ``DeliveryTimeout``,
  …). It has the same fields.
* ``ValueError``, ``TypeError``, ``RuntimeError``: a wrong call.

The middle classes come from ``log_format.errors`` and say what to do next: ``RequestRefused`` (correct the request),
``BackOff`` (retry later), ``OutcomeUnknown`` (read back), ``CorruptData``. ``CLASSES`` maps an error code of the API to its
class. A code that this version does not know gets the middle class of its status.
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
    """A gateway's error answer, or a missing answer. A subclass with a ``code`` is the class for that code."""

    request_id: str | None = None
    after_doubt: bool = False
    """Whether only the last attempt is known to have failed: an earlier attempt of the same request may have happened."""

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        super().__init_subclass__(code=code)
        if code is not None:
            _classes[code] = cls


class RequestRefused(GatewayError, errors.RequestRefused, code=ErrorCode.INVALID_REQUEST):
    """Correct the request: an unchanged retry will be refused again. Nothing changed."""


class BackOff(GatewayError, errors.BackOff):
    """Try again later. Nothing changed."""


class OutcomeUnknown(GatewayError, errors.OutcomeUnknown, code=ErrorCode.OUTCOME_UNKNOWN):
    """The request may have happened, and no answer says so: read back before you retry."""


class InvalidRecord(RequestRefused, code=ErrorCode.INVALID_RECORD):
    """A record that can't be stored; ``fields["errors"]`` says where and why."""


class InvalidTopicName(RequestRefused, code=ErrorCode.INVALID_TOPIC_NAME):
    """The name is not allowed for a topic."""


class InvalidConfig(RequestRefused, code=ErrorCode.INVALID_CONFIG):
    """A topic setting is unknown or out of range; ``fields["errors"]`` lists all of them."""


class Unauthenticated(RequestRefused, code=ErrorCode.UNAUTHENTICATED):
    """The token is missing, unknown or expired, or the token source gave none; the gateway does not say which."""


class Unauthorized(RequestRefused, code=ErrorCode.UNAUTHORIZED):
    """The caller has no right to do this. The answer is the same whether or not the resource exists."""

    @property
    def operation(self) -> str | None:
        """The first missing right, such as ``Write``."""
        return self._named("operation")

    @property
    def resource_type(self) -> str | None:
        """The resource's type: ``topic``, ``group``, ``transactional_id`` or ``cluster``."""
        return self._named("resource_type")

    @property
    def resource(self) -> str | None:
        """The resource's name."""
        return self._named("resource")

    def _named(self, member: str) -> str | None:
        value = self.fields.get(member)
        return value if isinstance(value, str) else None


class UnknownToken(RequestRefused, code=ErrorCode.UNKNOWN_TOKEN):
    """No access token has this id."""


class UnknownRole(RequestRefused, code=ErrorCode.UNKNOWN_ROLE):
    """No role has this name."""


class AuthDisabled(RequestRefused, code=ErrorCode.AUTH_DISABLED):
    """The gateway runs without authentication (``auth=off``) and stores no rights."""


class VendingUnavailable(RequestRefused, code=ErrorCode.VENDING_UNAVAILABLE):
    """The gateway has no credentials to give: its store is a directory, it has no role to assume, or only a journal has the
    records."""


class UnknownTopic(RequestRefused, code=ErrorCode.UNKNOWN_TOPIC):
    """The topic does not exist, or was deleted."""


class UnknownPartition(RequestRefused, code=ErrorCode.UNKNOWN_PARTITION):
    """The topic has no such partition."""


class TopicAlreadyExists(RequestRefused, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """A topic of that name exists."""


class OffsetOutOfRange(RequestRefused, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset is below the log start (status 410) or beyond the end (416). ``fields``: ``log_start_offset``,
    ``high_watermark``."""


class ExpectedOffsetMismatch(RequestRefused, code=ErrorCode.EXPECTED_OFFSET_MISMATCH):
    """The partition's next offset is not the expected one."""


class UnknownProducer(RequestRefused, code=ErrorCode.UNKNOWN_PRODUCER):
    """The producer id was never issued, or was forgotten after a day without use."""


class SequenceOutOfOrder(RequestRefused, code=ErrorCode.SEQUENCE_OUT_OF_ORDER):
    """The request's sequence is not the producer's next one, ``fields["expected_sequence"]``."""


class FencedProducer(RequestRefused, code=ErrorCode.FENCED_PRODUCER):
    """A newer epoch of this producer has started."""


class UnknownTransaction(RequestRefused, code=ErrorCode.UNKNOWN_TRANSACTION):
    """The transaction does not exist; ended transactions are remembered for a day."""


class TransactionNotOpen(RequestRefused, code=ErrorCode.TRANSACTION_NOT_OPEN):
    """The transaction was aborted, perhaps by its timeout. Raised by an abort: it was committed before."""


class UnknownScheduled(RequestRefused, code=ErrorCode.UNKNOWN_SCHEDULED):
    """The topic has no such delayed record: it never existed, or is delivered or cancelled."""


class UnknownErasure(RequestRefused, code=ErrorCode.UNKNOWN_ERASURE):
    """The topic has no such request to erase, or it was finished long ago."""


class AlreadyDelivered(RequestRefused, code=ErrorCode.ALREADY_DELIVERED):
    """The delayed record can no longer be cancelled."""


class UnknownGroup(RequestRefused, code=ErrorCode.UNKNOWN_GROUP):
    """The consumer group does not exist, or was deleted."""


class UnknownMember(RequestRefused, code=ErrorCode.UNKNOWN_MEMBER):
    """The group has no such member: it left, or was silent for longer than its session timeout."""


class FencedMember(RequestRefused, code=ErrorCode.FENCED_MEMBER):
    """Another consumer with the same ``instance_id`` replaced this one."""


class StaleGeneration(RequestRefused, code=ErrorCode.STALE_GENERATION):
    """The member does not own these partitions in the group's current generation. Nothing was committed."""


class GroupNotEmpty(RequestRefused, code=ErrorCode.GROUP_NOT_EMPTY):
    """The group has live members; the request needs an empty group."""


class NoCommittedOffset(RequestRefused, code=ErrorCode.NO_COMMITTED_OFFSET):
    """The group has committed nothing for a partition, and ``auto_offset_reset`` is ``"none"``."""


class UnknownQueue(RequestRefused, code=ErrorCode.UNKNOWN_QUEUE):
    """The queue does not exist."""


class QueueAlreadyExists(RequestRefused, code=ErrorCode.QUEUE_ALREADY_EXISTS):
    """The queue exists with another start."""


class LeaseExpired(RequestRefused, code=ErrorCode.LEASE_EXPIRED):
    """A record's lease has expired: the record may have been delivered again."""


class NoDeadLetterTopic(RequestRefused, code=ErrorCode.NO_DEAD_LETTER_TOPIC):
    """The queue has no dead letter topic."""


class InconsistentAssignor(RequestRefused, code=ErrorCode.INCONSISTENT_ASSIGNOR):
    """The group's members use a different assignor."""


class UnknownPin(RequestRefused, code=ErrorCode.UNKNOWN_PIN):
    """The topic has no pin of this name."""


class PinAlreadyExists(RequestRefused, code=ErrorCode.PIN_ALREADY_EXISTS):
    """The topic has a pin of this name, of another version."""


class TopicHasPins(RequestRefused, code=ErrorCode.TOPIC_HAS_PINS):
    """The topic has pins, which would end with it: delete them first, or delete the topic by force."""


class VersionGone(RequestRefused, code=ErrorCode.VERSION_GONE):
    """The version of the topic's table is deleted, or may be deleted soon: it can't be pinned any more."""


class SchemaRefused(RequestRefused):
    """The schema registry refused the request: the schema or the subject is not valid, or the subject's mode forbids it."""

    @property
    def registry_code(self) -> int | None:
        """The error's number in Confluent's API, such as 42201."""
        value = self.fields.get("error_code")
        return value if isinstance(value, int) else None


class UnknownSchema(SchemaRefused):
    """The registry has no such subject, version or id, or the subject has no setting of its own."""


class IncompatibleSchema(SchemaRefused):
    """The schema is not compatible with the subject's versions; the message says where."""


class RequestTooLarge(RequestRefused, code=ErrorCode.REQUEST_TOO_LARGE):
    """The request is larger than ``fields["limit_bytes"]``."""


class RecordTooLarge(RequestRefused, code=ErrorCode.RECORD_TOO_LARGE):
    """The record is larger than its topic's ``max.message.bytes``, given as ``fields["limit_bytes"]``."""


class Throttled(BackOff, code=ErrorCode.THROTTLED):
    """The caller exceeded a quota, or the gateway its own limit; ``retry_after_ms`` says when to retry."""

    @property
    def quota(self) -> str | None:
        """The exceeded member of the caller's quota, such as ``produce_bytes_per_s``; None for another limit."""
        value = self.fields.get("quota")
        return value if isinstance(value, str) else None

    @property
    def retry_after_ms(self) -> float:
        """Milliseconds until the same request will be accepted; 0: the gateway did not say."""
        value = self.fields.get("retry_after_ms")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0


class Unavailable(BackOff, code=ErrorCode.UNAVAILABLE):
    """The gateway can't reach its store."""


class Overloaded(BackOff, code=ErrorCode.OVERLOADED):
    """The gateway has reached a memory limit."""


class Draining(BackOff, code=ErrorCode.DRAINING):
    """The gateway is shutting down: retry at another one, or at this one after its restart."""


class CorruptSegment(GatewayError, errors.CorruptData, code=ErrorCode.CORRUPT_SEGMENT):
    """A stored segment (``fields["segment"]``) is missing or damaged; ``tidelog verify`` shows details."""


class UnsupportedTable(GatewayError, errors.UnsupportedTable, code=ErrorCode.UNSUPPORTED_TABLE):
    """A later release of Tidelog wrote the topic's table with something that the gateway does not know; the answer names it."""


class InternalError(GatewayError, code=ErrorCode.INTERNAL):
    """An internal error of the gateway, whose log has the request id."""


class GatewayUnreachable(BackOff):
    """No address answered in time. The request did not happen, or changes nothing."""


class UnexpectedAnswer(InternalError):
    """The answer violates the API: it comes from a proxy in between, or from a gateway of another version."""


class BufferFull(TidelogError, code=ErrorCode.OVERLOADED):
    """The producer's buffer had no room within ``max_block_ms``. The record was not accepted."""


class DeliveryTimeout(TidelogError, code=ErrorCode.UNAVAILABLE):
    """The record was not stored within ``delivery_timeout_ms``. The cause is the last error, if any."""


class ClientClosed(TidelogError, code=ErrorCode.UNAVAILABLE):
    """The client was closed before the call finished. The call did nothing."""


class TransactionAborted(TidelogError, code=ErrorCode.TRANSACTION_NOT_OPEN):
    """The record's transaction did not commit. The record is in no topic, and never will be."""


class DeliveryFailed(TidelogError):
    """Some records sent since the last ``flush`` were not acknowledged.

    ``failed_count`` is their number. The cause is the first record's error, whose fields this error repeats.
    """

    def __init__(self, failed_count: int, first: TidelogError) -> None:
        """Copy the fields of the first error."""
        records = "1 record was" if failed_count == 1 else f"{failed_count} records were"
        which = "it" if failed_count == 1 else "the first one"
        fate = f"{which} may be stored or not" if first.may_have_happened else f"{which} is not stored"
        super().__init__(
            f"{records} not acknowledged; {fate}: {first.detail}",
            code=first.code,
            status=first.status,
            retryable=first.retryable,
            **first.fields,
        )
        self.may_have_happened = first.may_have_happened
        self.failed_count = failed_count
        self.__cause__ = first
