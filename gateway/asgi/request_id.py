"""Ids of requests: the client's own if it is well-formed, else a new one.

The id is in the answer's ``X-Request-Id``, in problems, and in every log line of the request.
"""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.telemetry.structured_log import current_request_id

_HEADER: Final = b"x-request-id"
_bits: Final = random.getrandbits
"""An id need not be secret, only new: the system's randomness costs four times as much."""
_FIT: Final = re.compile(rb"[\x20-\x7e]{1,128}")


def request_id_of(scope: Scope) -> str:
    """Return the request's own id, if it is well-formed and the only one; else a new id of 32 hexadecimal digits."""
    for name, value in scope["headers"]:
        if name == _HEADER:
            if _FIT.fullmatch(value):
                text: str = value.decode("ascii")
                return text
            break
    return f"{_bits(128):032x}"


class RequestIdMiddleware:
    """Middleware that puts the id into ``scope["tidelog.request_id"]``, the log's context and the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Handle one request."""
        request_id = request_id_of(scope)
        scope["tidelog.request_id"] = request_id
        current_request_id.set(request_id)
        header = (_HEADER, request_id.encode("ascii"))

        def send_with_id(message: Message) -> Awaitable[None]:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            return send(message)

        return self._app(scope, receive, send_with_id)
