"""Arrival of requests that another gateway passes on: one with ``Tidelog-Hop`` is checked here, before anything acts on it.

1. The header is removed from the request, so that nothing after this sees it, and ``scope`` has the hop (``hop_of``) and its
   caller. The sender who waits for the answer is the client's connection, not the gateway's.
2. A hop that does not hold, also a client's own, stays in the request, which then comes from no gateway. It is refused:
   without a credential (401), else as a header that is not supported (400). The gateway that sent it recognizes both refusals
   (``is_refusal``), since it never sends a credential, and serves the request itself.
3. A hop that held, and whose caller's credential ended while the request waited, is also answered with 401. The header
   ``CALLER_ENDED`` distinguishes this answer from the refusal of a hop: it is the client's answer.
4. The body is hashed (SHA-256) as it is read, and refused at its last piece if it is another body than the hop's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.access.authentication import Unauthenticated
from gateway.access.caller import CALLER
from gateway.access.rights import Rights
from gateway.asgi.gatekeeper import HOP_REFUSED
from gateway.call import current_call
from gateway.forwarding.connections import Headers
from gateway.forwarding.forwarded_headers import forwarded_request_headers
from gateway.forwarding.hop import HEADER, Hop, HopRefused, Hops, SealedRequest
from gateway.problem import problem_response, refused
from log_format.errors import RequestRefused

CALLER_ENDED: Final = b"x-tidelog-caller-ended"
"""Header of a 401 to another gateway whose hop held."""
_HOP: Final = "tidelog.hop"
_NAME: Final = "Tidelog-Hop"


def hop_of(scope: Scope) -> Hop | None:
    """Return the hop of another gateway of the cluster; None if a client sent the request."""
    found: Hop | None = scope.get(_HOP)
    return found


def sealed(scope: Scope) -> SealedRequest:
    """Return the parts of the request that a hop covers."""
    target: bytes = scope["raw_path"]
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    headers = forwarded_request_headers(scope["headers"])
    return SealedRequest(method=scope["method"], target=target, request_id=scope["tidelog.request_id"], headers=headers)


def is_refusal(status: int, headers: Headers, body: bytes) -> bool:
    """Return whether the answer says that the receiver did not take the hop: then it did nothing."""
    if status not in (400, 401) or any(name == CALLER_ENDED for name, _ in headers):
        return False
    try:
        return status == 401 or bool(json.loads(body)["errors"][0]["where"] == _NAME)
    except (ValueError, TypeError, LookupError):
        return False


class ArrivalMiddleware:
    """Middleware that takes in hops, before unknown headers are refused and before authentication.

    ``messages`` serves messages that gateways send by themselves. For a client's request the hop proves all that is judged in
    between.
    """

    def __init__(self, app: ASGIApp, hops: Hops, rights: Rights, messages: ASGIApp) -> None:
        self._app = app
        self._hops = hops
        self._rights = rights
        self._messages = messages

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request. Raises ``RequestRefused``, ``BackOff``."""
        for name, _ in scope["headers"]:
            if name == HEADER:
                return self._arrived(scope, receive, send)
        return self._app(scope, receive, send)

    async def _arrived(self, scope: Scope, receive: Receive, send: Send) -> None:
        values: list[bytes] = []
        others: list[tuple[bytes, bytes]] = []
        for header in scope["headers"]:
            if header[0] == HEADER:
                values.append(header[1])
            else:
                others.append(header)
        app = self._app
        try:
            hop = self._hops.check(values, sealed(scope))
            if self._rights.enforced and hop.passed:
                if hop.caller is None:
                    raise HopRefused("names no caller: the forwarding gateway runs with auth=off")
                await self._rights.refresh_to(hop.revision)
                await self._rights.refresh_if_old()
                scope[CALLER] = hop.caller
        except HopRefused as refusal:
            scope[HOP_REFUSED] = str(refusal)
        else:
            scope[_HOP], scope["headers"] = hop, others
            # Another gateway's connections are a pool: it sends a client's next request by any of them.
            if hop.connection is not None and (call := current_call()) is not None:
                call.sender = hop.sender, hop.connection
            receive = _Checked(receive, hop.body)
            app = app if hop.passed else self._messages
        try:
            await app(scope, receive, send)
        except Unauthenticated as ended:
            if _HOP not in scope:
                raise
            response = problem_response(ended, scope["tidelog.request_id"], headers={CALLER_ENDED.decode(): "1"})
            await response(scope, receive, send)


class _Checked:
    """ASGI's ``receive`` for a body that must have this SHA-256."""

    def __init__(self, receive: Receive, expected: str) -> None:
        self._receive = receive
        self._expected = expected
        self._hash = hashlib.sha256()

    async def __call__(self) -> Message:
        """Return the next message. Raises ``RequestRefused`` instead of the last piece of another body."""
        message = await self._receive()
        if message["type"] == "http.request":
            self._hash.update(message.get("body", b""))
            if not message.get("more_body", False) and self._hash.hexdigest() != self._expected:
                raise _refused("was made for another body")
        return message


def _refused(what: str) -> RequestRefused:
    return refused(f"The header {_NAME} {what}.", [(_NAME, what)])
