"""The table of error codes: total, as the HTTP contract has it, and what each class of errors says by itself."""

from __future__ import annotations

import pytest

from log_format.errors import (
    ANSWERS,
    BackOff,
    CorruptData,
    ErrorCode,
    ObjectExists,
    ObjectMissing,
    OffsetOutOfRange,
    OutcomeUnknown,
    RequestRefused,
    StoreError,
    StoreUnavailable,
    TidelogError,
    TopicReplaced,
    UnknownPartition,
    UnknownTopic,
    UnsupportedTable,
)

CONTRACT = {
    400: "INVALID_REQUEST INVALID_RECORD INVALID_TOPIC_NAME INVALID_CONFIG",
    401: "UNAUTHENTICATED",
    403: "UNAUTHORIZED",
    404: "NOT_FOUND UNKNOWN_TOPIC UNKNOWN_PARTITION UNKNOWN_GROUP UNKNOWN_MEMBER UNKNOWN_PRODUCER UNKNOWN_QUEUE "
    "UNKNOWN_TRANSACTION UNKNOWN_SCHEDULED UNKNOWN_TOKEN UNKNOWN_ROLE UNKNOWN_PIN UNKNOWN_ERASURE",
    405: "METHOD_NOT_ALLOWED",
    406: "NOT_ACCEPTABLE",
    409: "TOPIC_ALREADY_EXISTS FENCED_PRODUCER FENCED_MEMBER STALE_GENERATION TRANSACTION_NOT_OPEN GROUP_NOT_EMPTY "
    "NO_COMMITTED_OFFSET INCONSISTENT_ASSIGNOR AUTH_DISABLED VENDING_UNAVAILABLE QUEUE_ALREADY_EXISTS LEASE_EXPIRED "
    "NO_DEAD_LETTER_TOPIC ALREADY_DELIVERED PIN_ALREADY_EXISTS TOPIC_HAS_PINS SEQUENCE_OUT_OF_ORDER",
    410: "VERSION_GONE",
    412: "EXPECTED_OFFSET_MISMATCH",
    413: "REQUEST_TOO_LARGE RECORD_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    416: "OFFSET_OUT_OF_RANGE",
    429: "THROTTLED",
    500: "CORRUPT_SEGMENT UNSUPPORTED_TABLE INTERNAL",
    503: "UNAVAILABLE OVERLOADED DRAINING",
    504: "OUTCOME_UNKNOWN",
}
"""docs/http-api.md section 1.6: status -> codes; ``UNSUPPORTED_TABLE`` was appended."""
RETRYABLE = {"THROTTLED", "UNAVAILABLE", "OVERLOADED", "DRAINING", "INTERNAL", "OUTCOME_UNKNOWN"}
MAY_HAVE_HAPPENED = {"INTERNAL", "OUTCOME_UNKNOWN"}


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_answers_as_the_contract_says(code: ErrorCode) -> None:
    """Status, whether to retry and whether it may have happened are those of the contract, for every code there is."""
    statuses = [status for status, codes in CONTRACT.items() if code in codes.split()]
    answers = ANSWERS[code]
    assert [answers.status] == statuses
    assert answers.retryable == (code in RETRYABLE)
    assert answers.may_have_happened == (code in MAY_HAVE_HAPPENED)
    assert answers.title
    assert code == code.name


def test_the_contract_has_no_other_code() -> None:
    """Every code of the contract is in the enumeration, and the table has nothing else."""
    assert {code for codes in CONTRACT.values() for code in codes.split()} == set(ErrorCode) == set(ANSWERS)


def test_an_error_answers_with_its_code() -> None:
    """Status, retryable and may_have_happened come from the code; fields are kept for the problem."""
    error = RequestRefused("too large", code=ErrorCode.RECORD_TOO_LARGE, limit_bytes=5)
    assert (error.code, error.status, error.retryable, error.may_have_happened) == (
        "RECORD_TOO_LARGE",
        413,
        False,
        False,
    )
    assert error.fields == {"limit_bytes": 5}
    assert str(error) == error.detail == "too large"
    assert TidelogError("ahead", code=ErrorCode.SEQUENCE_OUT_OF_ORDER, retryable=True).retryable


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (TidelogError("?"), ErrorCode.INTERNAL, 500),
        (RequestRefused("?"), ErrorCode.INVALID_REQUEST, 400),
        (UnknownTopic("t"), ErrorCode.UNKNOWN_TOPIC, 404),
        (UnknownPartition("t", 7, 2), ErrorCode.UNKNOWN_PARTITION, 404),
        (TopicReplaced("?"), ErrorCode.UNAVAILABLE, 503),
        (BackOff("?"), ErrorCode.UNAVAILABLE, 503),
        (OutcomeUnknown("?"), ErrorCode.OUTCOME_UNKNOWN, 504),
        (CorruptData("?"), ErrorCode.CORRUPT_SEGMENT, 500),
        (UnsupportedTable("?"), ErrorCode.UNSUPPORTED_TABLE, 500),
    ],
)
def test_a_class_has_its_code(error: TidelogError, code: ErrorCode, status: int) -> None:
    """What a handler does next follows from the class, and the class has the code that tells the client the same."""
    assert (error.code, error.status) == (code, status)


@pytest.mark.parametrize(("offset", "status"), [(4, 410), (11, 416)])
def test_an_offset_is_below_or_beyond(offset: int, status: int) -> None:
    """410 below the log start, 416 beyond the high watermark; both positions are in the problem."""
    error = OffsetOutOfRange("t", 0, offset, 5, 10)
    assert error.status == status
    assert (error.fields["log_start_offset"], error.fields["high_watermark"]) == (5, 10)


def test_store_errors_name_their_object() -> None:
    """A store's error says which object it met, and is no error of the contract."""
    errors = [ObjectMissing("a/b"), ObjectExists("a/b"), StoreUnavailable("a/b", "down", may_have_happened=True)]
    assert [(error.key, isinstance(error, StoreError), isinstance(error, TidelogError)) for error in errors] == [
        ("a/b", True, False)
    ] * 3
    assert "a/b" in str(errors[0])
