"""Places of the input in errors about a request."""

from __future__ import annotations

from pathlib import Path

from log_format.errors import ErrorCode, RequestRefused
from tidelog.cli.sources.lines import Place
from tidelog.cli.sources.places import name_places

INPUT = [Place(path=Path("a"), number=number) for number in (7, 9)]


def test_places_are_those_of_the_input() -> None:
    """In the errors and in the message; where the request has no such record, its own place stays."""
    errors = [{"where": where, "what": "bad"} for where in ("/records/1/value/id", "/records/0", "/records/2", "/name")]
    detail = "Nothing was stored. /records/1/value/id: bad (and 3 more)."
    error = RequestRefused(detail, code=ErrorCode.INVALID_RECORD, errors=errors)
    assert name_places(error, dict(enumerate(INPUT)).get) == INPUT[1]
    assert [each["where"] for each in errors] == ["a, line 9, value/id", "a, line 7", "/records/2", "/name"]
    assert error.detail == "a, line 9, value/id: bad (and 3 more)."


def test_an_error_about_the_whole_request_stays() -> None:
    """It has no place, and its message is unchanged."""
    error = RequestRefused("Nothing was stored. It is too large.")
    assert name_places(error, dict(enumerate(INPUT)).get) is None
    assert error.detail == "Nothing was stored. It is too large."
