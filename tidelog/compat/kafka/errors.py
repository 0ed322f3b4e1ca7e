"""kafka-python's exceptions that can occur here, and which of them stands for which error of the SDK.

The SDK's error is the ``__cause__`` of each. ``retriable`` and ``errno`` are Kafka's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from log_format.errors import ErrorCode, TidelogError
from tidelog import errors as sdk


class KafkaError(Exception):
    """The root of what Kafka's client raises."""

    retriable: bool = False


class KafkaConfigurationError(KafkaError):
    """A setting is unknown, or has no meaning here."""


class KafkaTimeoutError(KafkaError):
    """It took too long, or there was no room in time."""

    retriable = True


class NoBrokersAvailable(KafkaError):
    """No gateway could be reached."""

    retriable = True


class IllegalStateError(KafkaError):
    """The call does not go with what was called before."""


class UnsupportedVersionError(KafkaError):
    """The call has no counterpart here."""


class CommitFailedError(KafkaError):
    """The group's partitions went to other members: nothing was committed."""


class NoOffsetForPartitionError(KafkaError):
    """Nothing is committed, and ``auto_offset_reset`` says nothing."""


class BrokerResponseError(KafkaError):
    """A refusal. ``errno``: Kafka's number for it."""

    errno: int = -1


class UnknownError(BrokerResponseError):
    """It may have happened."""


class OffsetOutOfRangeError(BrokerResponseError):
    """The offset is not in the log."""

    errno = 1


class CorruptRecordError(BrokerResponseError):
    """Stored bytes are damaged."""

    errno = 2


class UnknownTopicOrPartitionError(BrokerResponseError):
    """There is no such topic or partition."""

    errno, retriable = 3, True


class RequestTimedOutError(BrokerResponseError):
    """It is not known whether it happened."""

    errno, retriable = 7, True


class MessageSizeTooLargeError(BrokerResponseError):
    """The record is above ``max.message.bytes``."""

    errno = 10


class CoordinatorNotAvailableError(BrokerResponseError):
    """Try again: the gateway or its store can't now."""

    errno, retriable = 15, True


class InvalidTopicError(BrokerResponseError):
    """No topic may have this name."""

    errno = 17


class RecordListTooLargeError(BrokerResponseError):
    """The request is too large."""

    errno = 18


class IllegalGenerationError(BrokerResponseError):
    """The group has gone on without this member."""

    errno = 22


class InconsistentGroupProtocolError(BrokerResponseError):
    """The group's members use another assignor."""

    errno = 23


class UnknownMemberIdError(BrokerResponseError):
    """The group has no such member any more."""

    errno = 25


class TopicAuthorizationFailedError(BrokerResponseError):
    """The caller has no right to do this."""

    errno = 29


class TopicAlreadyExistsError(BrokerResponseError):
    """There is one of this name."""

    errno = 36


class InvalidConfigurationError(BrokerResponseError):
    """A topic's setting is unknown or out of its range."""

    errno = 40


class InvalidRequestError(BrokerResponseError):
    """The request is malformed."""

    errno = 42


class OutOfOrderSequenceNumberError(BrokerResponseError):
    """A producer's request is missing."""

    errno = 45


class InvalidTxnStateError(BrokerResponseError):
    """The transaction is not open."""

    errno = 48


class SaslAuthenticationFailedError(BrokerResponseError):
    """The token is missing, unknown or expired."""

    errno = 58


class UnknownProducerIdError(BrokerResponseError):
    """The producer is forgotten."""

    errno = 59


class NonEmptyGroupError(BrokerResponseError):
    """The group has live members."""

    errno = 68


class GroupIdNotFoundError(BrokerResponseError):
    """There is no such group."""

    errno = 69


class FencedInstanceIdError(BrokerResponseError):
    """Another consumer took this instance's place."""

    errno = 82


class InvalidRecordError(BrokerResponseError):
    """A record can't be stored."""

    errno = 87


class ThrottlingQuotaExceededError(BrokerResponseError):
    """Above a quota."""

    errno, retriable = 89, True


class ProducerFencedError(BrokerResponseError):
    """Another producer took the transactional id."""

    errno = 90


class TransactionAbortedError(KafkaError):
    """The record's transaction was aborted."""


BY_CODE: Final[dict[ErrorCode, type[KafkaError]]] = {
    ErrorCode.INVALID_REQUEST: InvalidRequestError,
    ErrorCode.INVALID_RECORD: InvalidRecordError,
    ErrorCode.INVALID_TOPIC_NAME: InvalidTopicError,
    ErrorCode.INVALID_CONFIG: InvalidConfigurationError,
    ErrorCode.UNAUTHENTICATED: SaslAuthenticationFailedError,
    ErrorCode.UNAUTHORIZED: TopicAuthorizationFailedError,
    ErrorCode.UNKNOWN_TOPIC: UnknownTopicOrPartitionError,
    ErrorCode.UNKNOWN_PARTITION: UnknownTopicOrPartitionError,
    ErrorCode.UNKNOWN_GROUP: GroupIdNotFoundError,
    ErrorCode.UNKNOWN_MEMBER: UnknownMemberIdError,
    ErrorCode.UNKNOWN_PRODUCER: UnknownProducerIdError,
    ErrorCode.TOPIC_ALREADY_EXISTS: TopicAlreadyExistsError,
    ErrorCode.FENCED_PRODUCER: ProducerFencedError,
    ErrorCode.FENCED_MEMBER: FencedInstanceIdError,
    ErrorCode.STALE_GENERATION: IllegalGenerationError,
    ErrorCode.TRANSACTION_NOT_OPEN: InvalidTxnStateError,
    ErrorCode.GROUP_NOT_EMPTY: NonEmptyGroupError,
    ErrorCode.NO_COMMITTED_OFFSET: NoOffsetForPartitionError,
    ErrorCode.INCONSISTENT_ASSIGNOR: InconsistentGroupProtocolError,
    ErrorCode.SEQUENCE_OUT_OF_ORDER: OutOfOrderSequenceNumberError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.REQUEST_TOO_LARGE: RecordListTooLargeError,
    ErrorCode.RECORD_TOO_LARGE: MessageSizeTooLargeError,
    ErrorCode.THROTTLED: ThrottlingQuotaExceededError,
    ErrorCode.UNAVAILABLE: CoordinatorNotAvailableError,
    ErrorCode.OVERLOADED: CoordinatorNotAvailableError,
    ErrorCode.DRAINING: CoordinatorNotAvailableError,
    ErrorCode.CORRUPT_SEGMENT: CorruptRecordError,
    ErrorCode.OUTCOME_UNKNOWN: RequestTimedOutError,
}


def kafka_error(error: TidelogError) -> KafkaError:
    """What kafka-python would raise; ``error`` is its cause."""
    kind: type[KafkaError]
    if isinstance(error, sdk.GatewayUnreachable):
        kind = NoBrokersAvailable
    elif isinstance(error, sdk.DeliveryTimeout | sdk.BufferFull):
        kind = KafkaTimeoutError
    elif isinstance(error, sdk.TransactionAborted):
        kind = TransactionAbortedError
    else:
        kind = BY_CODE.get(error.code, UnknownError)
    made = kind(str(error))
    made.__cause__ = error
    return made


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises the block's errors as kafka-python's."""
    try:
        yield
    except TidelogError as error:
        raise kafka_error(error) from error
    except TimeoutError as error:
        raise KafkaTimeoutError(str(error) or "it took too long") from error
