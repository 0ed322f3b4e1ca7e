"""Refusals of bodies and parameters by pydantic's errors; ``gateway.wrong_values`` has the words.

``where`` is a JSON pointer into the body, or a parameter's or header's name; at most 20 faults are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from gateway.problem import refused
from gateway.wrong_values import what_is_wrong
from log_format.errors import RequestRefused
from log_format.limits import REPORTED_ERRORS_MAX

FAULTS_MAX: Final = 10_000
"""Number of faults beyond which none is reported: pydantic makes an object of each, and holds the interpreter's lock
meanwhile."""

UNKNOWN_PARAMETER: Final = "is not a parameter of this route"
UNKNOWN_MEMBER: Final = "is not a known member"
_FAULTS: Final = "faults"
At = tuple[str | int, ...]
Fault = tuple[At, str]
"""The members and indexes that lead to the fault, and what is wrong there."""


def faults_error(found: Sequence[Fault]) -> PydanticCustomError:
    """Return the error that a validator raises: what is wrong inside the value that it checks."""
    return PydanticCustomError(_FAULTS, "is invalid", {_FAULTS: found[:REPORTED_ERRORS_MAX]})


def body_refusal(error: ValidationError, body: object, members: Sequence[str] = ()) -> RequestRefused:
    """Return the refusal of a body with ``error``. ``members``: those that it may have."""
    if error.error_count() > FAULTS_MAX:
        what = f"has more than {FAULTS_MAX} faults"
        return refused(f"The body {what}.", [("", what)])
    errors: list[tuple[str, str]] = []
    for found in error.errors(include_url=False, include_input=False):
        at = _path(found, body)
        within = found["ctx"][_FAULTS] if found["type"] == _FAULTS else [((), what_is_wrong(found))]
        errors += [(_pointer(at + further), what) for further, what in within]
        if len(errors) >= REPORTED_ERRORS_MAX:
            break
    where, what = errors[0]
    is_unknown = what == UNKNOWN_MEMBER and where.count("/") == 1
    hint = f": the body takes {', '.join(members)}" if is_unknown and members else ""
    return refused(f"{where.lstrip('/') or 'The body'} {what}{hint}.", errors)


def parameter_faults(error: ValidationError) -> list[tuple[str, str]]:
    """Return each wrong parameter of a query or of headers, and what is wrong with it."""
    errors: list[tuple[str, str]] = []
    for found in error.errors(include_url=False, include_input=False):
        if found["type"] == _FAULTS:
            errors += [(str((*further, *found["loc"])[0]), what) for further, what in found["ctx"][_FAULTS]]
        else:
            what = UNKNOWN_PARAMETER if found["type"] == "extra_forbidden" else what_is_wrong(found)
            errors.append((str(found["loc"][0]), what))
    return errors


def _path(found: ErrorDetails, value: Any) -> At:
    """Return the fault's position in the body: pydantic's location without names of union branches."""
    path: list[str | int] = []
    for index, token in enumerate(found["loc"], 1):
        is_missing = found["type"] == "missing" and index == len(found["loc"])
        if isinstance(value, dict) and (token in value or is_missing):
            value = value.get(token)
        elif isinstance(value, list) and isinstance(token, int):
            value = value[token]
        else:
            continue
        path.append(token)
    return tuple(path)


def _pointer(at: At) -> str:
    return "".join(f"/{_token(str(token))}" for token in at)


def _token(name: str) -> str:
    """Return a member's name as a token of a JSON pointer (RFC 6901, section 3), shortened, in characters that can be encoded."""
    return name[:80].replace("~", "~0").replace("/", "~1").encode(errors="backslashreplace").decode()
