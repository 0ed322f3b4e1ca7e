"""One event of the audit trail: the value of a record of ``__audit`` (docs/format.md)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Kind = Literal["denial", "failed_login", "administration", "vending"]


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """``time``: milliseconds since the epoch. ``route``: the template, None for an unknown route.

    ``source``: the client's address. ``count``: how often it happened, from ``time`` on.
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


encode_event: Final = msgspec.json.Encoder().encode
