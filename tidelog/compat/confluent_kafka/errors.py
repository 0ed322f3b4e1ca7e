"""confluent-kafka's ``KafkaError`` and ``KafkaException``, and which number stands for which error of the SDK.

Numbers of Kafka's protocol are 0 and above; librdkafka's own are negative, and their names begin with an underscore.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from log_format.errors import ErrorCode, TidelogError
from tidelog import errors as sdk


class KafkaError:
    """What went wrong: a number, and words about it."""

    NO_ERROR = 0
    OFFSET_OUT_OF_RANGE = 1
    INVALID_MSG = 2
    UNKNOWN_TOPIC_OR_PART = 3
    REQUEST_TIMED_OUT = 7
    MSG_SIZE_TOO_LARGE = 10
    COORDINATOR_NOT_AVAILABLE = 15
    TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    TOPIC_ALREADY_EXISTS = 36
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_TXN_STATE = 48
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    UNKNOWN = -1
    _FAIL = -196
    _TRANSPORT = -195
    _MSG_TIMED_OUT = -192
    _PARTITION_EOF = -191
    _UNKNOWN_PARTITION = -190
    _UNKNOWN_TOPIC = -188
    _ALL_BROKERS_DOWN = -187
    _INVALID_ARG = -186
    _TIMED_OUT = -185
    _QUEUE_FULL = -184
    _ASSIGN_PARTITIONS = -175
    _REVOKE_PARTITIONS = -174
    _STATE = -172
    _NOT_IMPLEMENTED = -170
    _NO_OFFSET = -168
    _PURGE_QUEUE = -152
    _FENCED = -144
    _VALUE_DESERIALIZATION = -159
    _KEY_DESERIALIZATION = -160

    def __init__(
        self,
        error: int,
        reason: str | None = None,
        fatal: bool = False,
        retriable: bool = False,
        txn_requires_abort: bool = False,
    ) -> None:
        self._code = error
        self._reason = reason
        self._fatal, self._retriable, self._aborts = fatal, retriable, txn_requires_abort

    def code(self) -> int:
        """Its number."""
        return self._code

    def name(self) -> str:
        """Its number's name."""
        return _NAMES.get(self._code, str(self._code))

    def str(self) -> str:
        """Words about it."""
        return self._reason or self.name()

    def fatal(self) -> bool:
        """Whether the client is of no more use."""
        return self._fatal

    def retriable(self) -> bool:
        """Whether the same call may succeed later."""
        return self._retriable

    def txn_requires_abort(self) -> bool:
        """Whether the transaction can only be aborted."""
        return self._aborts

    def __str__(self) -> str:  # type: ignore[valid-type]
        """Name, number and words."""
        return f'KafkaError{{code={self.name()},val={self._code},str="{self.str()}"}}'

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        """Of errors and numbers, by number."""
        return self._code == (other.code() if isinstance(other, KafkaError) else other)

    def __hash__(self) -> int:
        """By number."""
        return hash(self._code)


class KafkaException(Exception):
    """``args[0]`` is the ``KafkaError``."""


_NAMES: Final = {value: name for name, value in vars(KafkaError).items() if isinstance(value, int)}

BY_CODE: Final[dict[ErrorCode, int]] = {
    ErrorCode.INVALID_REQUEST: KafkaError.INVALID_REQUEST,
    ErrorCode.INVALID_RECORD: KafkaError.INVALID_RECORD,
    ErrorCode.INVALID_TOPIC_NAME: KafkaError.TOPIC_EXCEPTION,
    ErrorCode.INVALID_CONFIG: KafkaError.INVALID_CONFIG,
    ErrorCode.UNAUTHENTICATED: KafkaError.SASL_AUTHENTICATION_FAILED,
    ErrorCode.UNAUTHORIZED: KafkaError.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_TOPIC: KafkaError.UNKNOWN_TOPIC_OR_PART,
    ErrorCode.UNKNOWN_PARTITION: KafkaError.UNKNOWN_TOPIC_OR_PART,
    ErrorCode.UNKNOWN_GROUP: KafkaError.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_MEMBER: KafkaError.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_PRODUCER: KafkaError.UNKNOWN_PRODUCER_ID,
    ErrorCode.TOPIC_ALREADY_EXISTS: KafkaError.TOPIC_ALREADY_EXISTS,
    ErrorCode.FENCED_PRODUCER: KafkaError._FENCED,
    ErrorCode.FENCED_MEMBER: KafkaError.FENCED_INSTANCE_ID,
    ErrorCode.STALE_GENERATION: KafkaError.ILLEGAL_GENERATION,
    ErrorCode.TRANSACTION_NOT_OPEN: KafkaError.INVALID_TXN_STATE,
    ErrorCode.GROUP_NOT_EMPTY: KafkaError.NON_EMPTY_GROUP,
    ErrorCode.NO_COMMITTED_OFFSET: KafkaError._NO_OFFSET,
    ErrorCode.INCONSISTENT_ASSIGNOR: KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.SEQUENCE_OUT_OF_ORDER: KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.OFFSET_OUT_OF_RANGE: KafkaError.OFFSET_OUT_OF_RANGE,
    ErrorCode.REQUEST_TOO_LARGE: KafkaError.RECORD_LIST_TOO_LARGE,
    ErrorCode.RECORD_TOO_LARGE: KafkaError.MSG_SIZE_TOO_LARGE,
    ErrorCode.THROTTLED: KafkaError.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNAVAILABLE: KafkaError.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OVERLOADED: KafkaError.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.DRAINING: KafkaError.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CORRUPT_SEGMENT: KafkaError.INVALID_MSG,
    ErrorCode.OUTCOME_UNKNOWN: KafkaError.REQUEST_TIMED_OUT,
}


def kafka_error(error: BaseException) -> KafkaError:
    """What confluent-kafka would say."""
    if isinstance(error, sdk.GatewayUnreachable):
        return KafkaError(KafkaError._ALL_BROKERS_DOWN, str(error), retriable=True)
    if isinstance(error, sdk.DeliveryTimeout):
        return KafkaError(KafkaError._MSG_TIMED_OUT, str(error))
    if isinstance(error, sdk.TransactionAborted):
        return KafkaError(KafkaError._PURGE_QUEUE, str(error), txn_requires_abort=True)
    if isinstance(error, TidelogError):
        code = BY_CODE.get(error.code, KafkaError.UNKNOWN)
        fenced = error.code is ErrorCode.FENCED_PRODUCER
        aborts = not error.retryable and not fenced
        return KafkaError(code, str(error), fatal=fenced, retriable=error.retryable, txn_requires_abort=aborts)
    if isinstance(error, TimeoutError):
        return KafkaError(KafkaError._TIMED_OUT, str(error) or None, retriable=True)
    return KafkaError(KafkaError._STATE, str(error))


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises the block's errors as ``KafkaException``."""
    try:
        yield
    except (TidelogError, TimeoutError) as error:
        raise KafkaException(kafka_error(error)) from error


def invalid(reason: str) -> KafkaException:
    """A setting or argument that has no meaning here."""
    return KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))


def not_there(what: str) -> KafkaException:
    """A call that has no counterpart here."""
    return KafkaException(KafkaError(KafkaError._NOT_IMPLEMENTED, f"{what} is not to be had here"))
