"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

encode_json = msgspec.json.Encoder().encode
_JSON: Final = (b"content-type", b"application/json")


class JsonResponse:
    """An ``application/json`` answer as bytes, at a fifth of the cost of ``Response``. ``headers``: with lower-case names."""

    __slots__ = ("_body", "_headers", "_status")

    def __init__(self, body: bytes, status: int, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self._body = body
        self._headers = headers
        self._status = status

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send the answer."""
        headers = [*self._headers, (b"content-length", b"%d" % len(self._body)), _JSON]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})


def json_response(members: Any, status: int = 200) -> JsonResponse:
    """Return an ``application/json`` answer with a value that msgspec can encode."""
    return JsonResponse(encode_json(members), status)
