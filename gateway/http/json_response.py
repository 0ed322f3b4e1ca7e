"""Answers in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

encoded = msgspec.json.Encoder().encode


def json_response(members: Any, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """An ``application/json`` answer of a value that msgspec can encode."""
    return Response(encoded(members), status_code=status, headers=headers, media_type="application/json")
