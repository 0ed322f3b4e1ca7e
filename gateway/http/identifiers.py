"""Ids that clients choose: groups, members' client and instance ids (docs/http-api.md section 1.3)."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from gateway.http.json_request import Members
from gateway.http.parameters import path_text
from gateway.problem import refused

IDENTIFIER_BYTES_MAX: Final = 255
IDENTIFIER: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": IDENTIFIER_BYTES_MAX,
    "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
}
"""As JSON schema says it, which counts characters."""
_WHAT: Final = f"must be 1 to {IDENTIFIER_BYTES_MAX} bytes without control characters"


def is_identifier(text: str) -> bool:
    """Whether it is one: 1 to 255 bytes of UTF-8 without control characters."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return False
    return 1 <= size <= IDENTIFIER_BYTES_MAX and not any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text)


def path_group(request: Request) -> str:
    """The group that the path names. Raises ``RequestRefused`` (``INVALID_REQUEST``) for what can't be a group's name."""
    name = path_text(request, "group")
    if not is_identifier(name):
        raise refused(f"A group's name {_WHAT}.", [("group", _WHAT)])
    return name


def identifier(members: Members, name: str) -> str:
    """A member of the body that must be one; faults are noted."""
    value = members.text(name)
    if isinstance(members.raw(name), str) and not is_identifier(value):
        members.fault(name, _WHAT)
    return value


def optional_identifier(members: Members, name: str) -> str | None:
    """A member of the body that is one, or null, or absent; faults are noted."""
    return None if members.raw(name) is None else identifier(members, name)
