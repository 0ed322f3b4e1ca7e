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


class GatewayError(TidelogError):
    """An error answer of a gateway, or the lack of an answer."""

    request_id: str | None = None
    after_doubt: bool = False
    """The error is the last try's only: an earlier try of the same request may have happened."""


class RequestRefused(GatewayError, errors.RequestRefused):
    """Mend the request: repeated as it is, it will be refused again. Nothing changed."""

    default_code = ErrorCode.INVALID_REQUEST


class BackOff(GatewayError, errors.BackOff):
    """Try again later. Nothing changed."""

    default_code = ErrorCode.UNAVAILABLE


class OutcomeUnknown(GatewayError, errors.OutcomeUnknown):
    """The request may have happened, and no answer says so: read back before it is repeated."""

    default_code = ErrorCode.OUTCOME_UNKNOWN


class InvalidRecord(RequestRefused):
    """A record can't be stored; ``fields["errors"]`` says where and why."""

    default_code = ErrorCode.INVALID_RECORD


class InvalidTopicName(RequestRefused):
    """No topic may have this name."""

    default_code = ErrorCode.INVALID_TOPIC_NAME


class InvalidConfig(RequestRefused):
    """A topic setting is unknown or out of range; ``fields["errors"]`` lists all of them."""

    default_code = ErrorCode.INVALID_CONFIG


class UnknownTopic(RequestRefused):
    """The topic does not exist, or not any more."""

    default_code = ErrorCode.UNKNOWN_TOPIC


class UnknownPartition(RequestRefused):
    """The topic has no such partition."""

    default_code = ErrorCode.UNKNOWN_PARTITION


class TopicAlreadyExists(RequestRefused):
    """A topic of that name exists."""

    default_code = ErrorCode.TOPIC_ALREADY_EXISTS


class OffsetOutOfRange(RequestRefused):
    """Status 410: below the log start; 416: beyond the end. ``fields``: ``log_start_offset``, ``high_watermark``."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE


class ExpectedOffsetMismatch(RequestRefused):
    """The partition's next offset is not the expected one."""

    default_code = ErrorCode.EXPECTED_OFFSET_MISMATCH


class UnknownProducer(RequestRefused):
    """The producer id was never issued, or was not used for a day and is forgotten."""

    default_code = ErrorCode.UNKNOWN_PRODUCER


class SequenceOutOfOrder(RequestRefused):
    """The request is not its producer's next one, which is ``fields["expected_sequence"]``."""

    default_code = ErrorCode.SEQUENCE_OUT_OF_ORDER


class FencedProducer(RequestRefused):
    """A newer epoch of this producer has begun."""

    default_code = ErrorCode.FENCED_PRODUCER


class UnknownTransaction(RequestRefused):
    """There is no such transaction; ended ones are remembered for a day."""

    default_code = ErrorCode.UNKNOWN_TRANSACTION


class TransactionNotOpen(RequestRefused):
    """The transaction was aborted, perhaps by its time-out; from an abort: it was committed before."""

    default_code = ErrorCode.TRANSACTION_NOT_OPEN


class UnknownGroup(RequestRefused):
    """The consumer group does not exist, or not any more."""

    default_code = ErrorCode.UNKNOWN_GROUP


class UnknownMember(RequestRefused):
    """The group has no such member: it left, or was silent for longer than its session time-out."""

    default_code = ErrorCode.UNKNOWN_MEMBER


class FencedMember(RequestRefused):
    """Another consumer with the same ``instance_id`` replaced this one."""

    default_code = ErrorCode.FENCED_MEMBER


class StaleGeneration(RequestRefused):
    """The member does not hold these partitions in the group's generation. Nothing was committed."""

    default_code = ErrorCode.STALE_GENERATION


class GroupNotEmpty(RequestRefused):
    """The group has live members; the request needs a group without."""

    default_code = ErrorCode.GROUP_NOT_EMPTY


class NoCommittedOffset(RequestRefused):
    """The group has committed nothing for a partition, and ``auto_offset_reset`` is ``"none"``."""

    default_code = ErrorCode.NO_COMMITTED_OFFSET


class InconsistentAssignor(RequestRefused):
    """The group's members use another assignor."""

    default_code = ErrorCode.INCONSISTENT_ASSIGNOR


class RequestTooLarge(RequestRefused):
    """The request is above ``fields["limit_bytes"]``."""

    default_code = ErrorCode.REQUEST_TOO_LARGE


class RecordTooLarge(RequestRefused):
    """The record is above its topic's ``max.message.bytes``, which is ``fields["limit_bytes"]``."""

    default_code = ErrorCode.RECORD_TOO_LARGE


class Throttled(BackOff):
    """The gateway asks for fewer requests."""

    default_code = ErrorCode.THROTTLED


class Unavailable(BackOff):
    """The gateway can't reach its store."""

    default_code = ErrorCode.UNAVAILABLE


class Overloaded(BackOff):
    """The gateway is at a limit of its memory."""

    default_code = ErrorCode.OVERLOADED


class Draining(BackOff):
    """The gateway is shutting down; another one, or the same after its restart, will do it."""

    default_code = ErrorCode.DRAINING


class CorruptSegment(GatewayError, errors.CorruptData):
    """A stored segment (``fields["segment"]``) is missing or damaged: ``tidelog verify`` tells more."""

    default_code = ErrorCode.CORRUPT_SEGMENT


class UnsupportedTable(GatewayError, errors.UnsupportedTable):
    """Another program gave the topic's table Delta features that Tidelog does not support; the answer says which."""

    default_code = ErrorCode.UNSUPPORTED_TABLE


class InternalError(GatewayError):
    """An error inside the gateway; its log has the request id."""

    default_code = ErrorCode.INTERNAL


class GatewayUnreachable(BackOff):
    """No address answered within the time. The request did not happen, or changes nothing."""


class UnexpectedAnswer(InternalError):
    """The answer does not follow the contract: a proxy in between sent it, or a gateway of another version."""


class BufferFull(TidelogError):
    """``max_block_ms`` passed without room in the producer's buffer. The record was not taken."""

    default_code = ErrorCode.OVERLOADED


class DeliveryTimeout(TidelogError):
    """``delivery_timeout_ms`` passed, and the record was not stored. The cause is the last error met, if any."""

    default_code = ErrorCode.UNAVAILABLE


class ClientClosed(TidelogError):
    """The client was closed first. The call did nothing."""

    default_code = ErrorCode.UNAVAILABLE


class TransactionAborted(TidelogError):
    """The transaction that the record was sent in did not commit. The record is in no topic, and never will be."""

    default_code = ErrorCode.TRANSACTION_NOT_OPEN


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


CLASSES: Final[Mapping[ErrorCode, type[GatewayError]]] = MappingProxyType(
    {
        error.default_code: error
        for error in (
            RequestRefused,
            InvalidRecord,
            InvalidTopicName,
            InvalidConfig,
            UnknownTopic,
            UnknownPartition,
            TopicAlreadyExists,
            OffsetOutOfRange,
            ExpectedOffsetMismatch,
            UnknownProducer,
            SequenceOutOfOrder,
            FencedProducer,
            UnknownTransaction,
            TransactionNotOpen,
            UnknownGroup,
            UnknownMember,
            FencedMember,
            StaleGeneration,
            GroupNotEmpty,
            NoCommittedOffset,
            InconsistentAssignor,
            RequestTooLarge,
            RecordTooLarge,
            Throttled,
            Unavailable,
            Overloaded,
            Draining,
            CorruptSegment,
            UnsupportedTable,
            InternalError,
            OutcomeUnknown,
        )
    }
)
