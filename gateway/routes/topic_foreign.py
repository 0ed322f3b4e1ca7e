"""The last commit of another program, as a topic's description shows it."""

from __future__ import annotations

from typing_extensions import TypedDict

from gateway.http import fields
from log_format.delta.foreign import ForeignWrites


class Foreign(TypedDict):
    """The last commit that another program made to the topic's table; it had no effect on the log. `put_back`: readers of
    Delta again see the table without that commit."""

    version: fields.Count
    program: str
    operation: str
    at: fields.Timestamp | None
    put_back: bool


def describe_foreign(foreign: ForeignWrites) -> Foreign | None:
    """Return the description; None if no other program wrote."""
    last = foreign.last
    if last is None:
        return None
    return {
        "version": last.version,
        "program": last.program,
        "operation": last.operation,
        "at": last.at_ms,
        "put_back": foreign.is_reverted,
    }
