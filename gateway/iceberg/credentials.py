"""Temporary credentials of the store for one table, for clients that ask for them with the load.

A client that asks gets what ``POST /v1/credentials`` gives for reading: everything below the topic's prefix and nothing else, for
15 minutes. Where there are none (a directory, no role), it gets the table without: it may have its own. Each is audited.

Source: Iceberg's "REST Catalog API", ``X-Iceberg-Access-Delegation``; names of properties as in Iceberg's ``S3FileIO``.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request

from gateway.access.caller import caller_of
from gateway.asgi.auditing import audit_event
from gateway.gateway import gateway_of
from log_format.errors import RequestRefused

DELEGATION: Final = "x-iceberg-access-delegation"
VENDED: Final = "vended-credentials"
DURATION_S: Final = 900
"""Lifetime of the credentials: the shortest that the store's service gives."""


def is_asked_for(request: Request, access: str) -> bool:
    """Return whether the client says that it can use this kind of access."""
    return access in [one.strip() for one in request.headers.get(DELEGATION, "").split(",")]


async def _audit(request: Request, topic: str) -> None:
    """Record that the caller gets credentials for a topic's files. Raise ``BackOff`` where that is required and fails."""
    gateway = gateway_of(request)
    event = audit_event(request.scope, "vending", ("Read", "topic", topic), gateway.clock.now_ms())
    if gateway.recording is not None and gateway.recording.is_required:
        await gateway.recording.record_durably(event)
    elif gateway.recording is not None:
        gateway.recording.note(event)


async def vended_properties(request: Request, topic: str) -> dict[str, str]:
    """Return properties with credentials for reading a topic's table, if the client asks for them and there are any; else none.

    Raises ``BackOff`` if the store's service does not answer.
    """
    gateway = gateway_of(request)
    if not is_asked_for(request, VENDED):
        return {}
    try:
        gateway.vending.check()
    except RequestRefused:
        return {}
    await _audit(request, topic)
    given = await gateway.vending.vend([topic], "read", duration_s=DURATION_S, principal=caller_of(request).principal)
    found = {
        "s3.access-key-id": given.access_key_id,
        "s3.secret-access-key": given.secret_access_key,
        "s3.session-token": given.session_token,
        "s3.session-token-expires-at-ms": str(given.expires_at_ms),
        "s3.region": given.region,
        "client.region": given.region,
    }
    if given.endpoint_url is not None:
        found |= {"s3.endpoint": given.endpoint_url, "s3.path-style-access": "true"}
    return found
