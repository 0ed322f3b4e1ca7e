"""Audit of URLs by which a caller reads a topic's files itself: who got them, of which table, and how many.

A client may ask for thousands a second, so they are combined (``gateway.audit.combined``).
"""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from gateway.asgi.auditing import audit_event
from gateway.gateway import gateway_of


async def note_signatures(request: Request, topic: str, count: int) -> None:
    """Record that the caller gets this many URLs of a topic's files. Call it before they are sent.

    Raises ``BackOff`` where recording is required and fails; call it with 0 before an answer begins that may have some.
    """
    gateway = gateway_of(request)
    if gateway.recording is not None:
        event = audit_event(request.scope, "signature", ("Read", "topic", topic), gateway.clock.now_ms())
        await gateway.recording.record_signatures(msgspec.structs.replace(event, count=count))
