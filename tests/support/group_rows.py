"""Rows of groups' members."""

from __future__ import annotations

from typing import Any

import msgspec

from log_format.groups.row import MemberRow

_MEMBER = MemberRow(
    member_id="m",
    client_id=None,
    instance_id=None,
    topics=("t",),
    pattern=None,
    session_timeout_ms=1000,
    target={},
    held={},
    acknowledged=-1,
)


def member_row(name: str, **fields: Any) -> MemberRow:
    """A member that reads topic ``t``, has joined and been told nothing yet, but for ``fields``."""
    return msgspec.structs.replace(_MEMBER, member_id=name, **fields)
