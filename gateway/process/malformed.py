"""The answer to malformed input, written without the application, which never gets such input."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.asgi.request_id import request_id_of
from gateway.problem import problem_response, refused

Headers = Sequence[tuple[bytes, bytes]]


def malformed_answer(why: str, where: str, sent: Headers, default_headers: Headers) -> bytes:
    """Return a 400 problem, after which the connection closes.

    Args:
        why: What is wrong with the request; empty: it is not HTTP.
        where: The header at fault, or nothing.
        sent: Headers received so far, of which the request id is used.
        default_headers: The server's own headers.
    """
    error = refused(why or "This is not an HTTP/1.1 request.", [(where, why)] * bool(where))
    response = problem_response(error, request_id := request_id_of({"headers": sent}))
    head = [
        b"HTTP/1.1 400 Bad Request",
        *(name + b": " + value for name, value in default_headers),
        *(name + b": " + value for name, value in response.raw_headers),
        b"x-request-id: " + request_id.encode("ascii"),
        b"connection: close",
    ]
    return b"\r\n".join(head) + b"\r\n\r\n" + bytes(response.body)
