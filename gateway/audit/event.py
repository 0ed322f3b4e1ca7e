"""One event of the audit trail: the value of a record of ``__audit`` (docs/format.md)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from log_format.delta.foreign import ForeignCommit

Kind = Literal["denial", "failed_login", "administration", "vending", "signature", "foreign_commit", "dropped"]


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event. ``time``: milliseconds since the epoch. ``route``: the template, None for an unknown route. ``source``: the
    client's address. ``count``: how often it happened, from ``time`` on.

    A ``signature`` counts URLs that the caller got for files of ``resource``; ``request_id`` and ``source`` are of the first.

    A ``foreign_commit`` has no caller: ``operation`` is the other program's word, ``method`` its name, ``request_id`` the version
    in the topic's log. Nor has ``dropped``: ``resource`` is the queue, ``operation`` the reason, ``route`` the topic and
    partition, ``request_id`` the offsets, ``count`` the number of records.
    """

    time: int
    kind: Kind
    principal: str | None
    operation: str | None
    resource_type: str | None
    resource: str | None
    method: str
    route: str | None
    request_id: str
    source: str | None
    count: int = 1


def foreign_commit_event(topic: str, commit: ForeignCommit, now_ms: int) -> AuditEvent:
    """Return the event of another program's commit to a topic's table."""
    return AuditEvent(
        time=commit.at_ms or now_ms,
        kind="foreign_commit",
        principal=None,
        operation=commit.operation or None,
        resource_type="topic",
        resource=topic,
        method=commit.program,
        route=None,
        request_id=str(commit.version),
        source=None,
    )


encode_event: Final = msgspec.json.Encoder().encode
