"""Errors as problems: the contract's table, member by member."""

from __future__ import annotations

import json

import pytest

from gateway.problem import (
    MEDIA_TYPE,
    as_tidelog_error,
    overloaded,
    problem,
    problem_bytes,
    problem_response,
    refused,
)
from log_format.errors import (
    ANSWERS,
    BackOff,
    ErrorCode,
    ObjectMissing,
    OffsetOutOfRange,
    RequestRefused,
    StoreReason,
    StoreUnavailable,
    TidelogError,
)

MEMBERS = {"type", "title", "status", "detail", "error_code", "retryable", "may_have_happened"}


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_becomes_a_problem_of_the_contract(code: ErrorCode) -> None:
    """Each error code's answer has all members of the contract, its own status, ``errors`` where that is 400, and Retry-After
    exactly with 429 and 503."""
    response = problem_response(TidelogError("what happened", code=code), "id-1")
    members = json.loads(bytes(response.body))
    is_malformed = ANSWERS[code].status == 400
    assert members.keys() == MEMBERS | {"request_id"} | ({"errors"} if is_malformed else set())
    assert not is_malformed or members["errors"] == [{"where": "", "what": "what happened"}]
    assert response.media_type == MEDIA_TYPE
    assert response.status_code == members["status"] == ANSWERS[code].status
    assert (members["retryable"], members["may_have_happened"]) == (
        ANSWERS[code].retryable,
        ANSWERS[code].may_have_happened,
    )
    assert ("retry-after" in response.headers) == (response.status_code in (429, 503))
    assert int(response.headers.get("retry-after", "1")) >= 1


def test_why_the_store_failed_is_for_programs_too() -> None:
    """From whatever error the store's failure became; neither its key nor its own words are said."""
    why = StoreUnavailable("system/secret", "host-7 said no", may_have_happened=False, reason=StoreReason.NO_SPACE)
    wrapped = BackOff("The store accepted no commit.")
    wrapped.__cause__ = BackOff("The store did not take it.")
    wrapped.__cause__.__cause__ = why
    for error in (as_tidelog_error(why), wrapped):
        members = problem(error)
        assert (members["status"], members["store_reason"]) == (503, "no_space")
        assert not any(word in json.dumps(members) for word in ("secret", "host-7"))
    assert "the store has no space left" in as_tidelog_error(why).detail
    assert "store_reason" not in problem(overloaded("full"))
    wrapped.__cause__ = wrapped  # raised again "from" itself
    assert "store_reason" not in problem(wrapped)


def test_fields_of_an_error_are_added_but_replace_nothing() -> None:
    """An error's own fields are members of the problem; one with a name of the contract's can't change the contract's."""
    error = RequestRefused("no", topic="t", type="mine", title="mine")
    members = problem(error)
    assert members["topic"] == "t"
    assert members["type"].endswith("INVALID_REQUEST")
    assert members["title"] == ANSWERS[ErrorCode.INVALID_REQUEST].title


def test_offsets_below_the_log_are_410_and_beyond_it_416() -> None:
    """The error's own status wins over the code's usual one."""
    assert problem(OffsetOutOfRange("t", 0, 1, 5, 9))["status"] == 410
    assert problem(OffsetOutOfRange("t", 0, 10, 5, 9))["status"] == 416


def test_at_most_twenty_field_errors() -> None:
    """A request with a thousand mistakes is answered with the first twenty."""
    members = problem(refused("many", [(f"/records/{index}", "wrong") for index in range(1000)]))
    assert len(members["errors"]) == 20
    assert members["errors"][0] == {"where": "/records/0", "what": "wrong"}


@pytest.mark.parametrize(("may_have_happened", "code"), [(False, "UNAVAILABLE"), (True, "OUTCOME_UNKNOWN")])
def test_a_failing_store_says_whether_it_may_have_happened(may_have_happened: bool, code: str) -> None:
    """An untranslated store error keeps its promise about side effects and does not show the store's inside."""
    error = as_tidelog_error(StoreUnavailable("topics/secret/x", "host 10.0.0.7", may_have_happened=may_have_happened))
    members = problem(error)
    assert members["error_code"] == code
    assert members["may_have_happened"] is may_have_happened
    assert b"secret" not in problem_bytes(error)
    assert b"10.0.0.7" not in problem_bytes(error)


@pytest.mark.parametrize("error", [ZeroDivisionError("secret"), ObjectMissing("topics/secret")])
def test_the_unforeseen_is_internal_and_says_nothing_of_the_inside(error: Exception) -> None:
    """Whatever else is raised answers 500 INTERNAL without its text."""
    response = problem_response(error)
    assert response.status_code == 500
    assert b"secret" not in bytes(response.body)
    assert json.loads(bytes(response.body))["error_code"] == "INTERNAL"


def test_fields_that_json_does_not_know_do_not_break_the_answer() -> None:
    """An error about an error must not fail: odd fields are written as text."""
    assert json.loads(problem_bytes(RequestRefused("no", odd=range(3))))["odd"] == "range(0, 3)"


def test_overload_is_retryable_and_changed_nothing() -> None:
    """A limit of the gateway is 503 OVERLOADED."""
    members = problem(overloaded("full"))
    assert (members["status"], members["error_code"], members["retryable"], members["may_have_happened"]) == (
        503,
        "OVERLOADED",
        True,
        False,
    )
