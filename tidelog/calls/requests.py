"""Common requests: a read, or a request with a JSON body."""

from __future__ import annotations

import msgspec

from tidelog.bodies.encode import JSON
from tidelog.http.owners import RoutingKey
from tidelog.http.transport import Request


def read_request(where: str, *, routing_key: RoutingKey | None = None) -> Request:
    """Return a GET request, which changes nothing and may be retried."""
    return Request(method="GET", target=where, repeatable=True, reads=True, routing_key=routing_key)


def json_request(
    method: str,
    where: str,
    body: object = None,
    *,
    repeatable: bool,
    reads: bool = False,
    routing_key: RoutingKey | None = None,
) -> Request:
    """Return a request with ``body`` as JSON; None: without a body."""
    return Request(
        method=method,
        target=where,
        body=None if body is None else msgspec.json.encode(body),
        content_type=None if body is None else JSON,
        repeatable=repeatable,
        reads=reads,
        routing_key=routing_key,
    )
