"""Which headers cross from one gateway to another: those of the API's contract, and nothing else.

A client's credentials (``Authorization``, ``Cookie``, and whatever a later standard calls them) never travel, and no peer can
set a cookie or a policy at a client. Both lists say what is let through: an unknown header stays behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.forwarding.connections import Headers

_CONTRACT: Final = b"tidelog-"
"""Headers of the API begin so."""
_REQUEST: Final = frozenset({b"accept", b"accept-encoding", b"content-encoding", b"content-type", b"last-event-id"})
_ANSWER: Final = frozenset(
    {b"allow", b"cache-control", b"content-encoding", b"content-length", b"content-type", b"retry-after", b"vary"}
)


def request_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What a peer is told of a client's request, besides what this gateway says itself. Names are lower-case."""
    return [(name, value) for name, value in headers if name in _REQUEST or name.startswith(_CONTRACT)]


def answer_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What a client is told of a peer's answer. Names are lower-case."""
    return [(name, value) for name, value in headers if name in _ANSWER or name.startswith(_CONTRACT)]
