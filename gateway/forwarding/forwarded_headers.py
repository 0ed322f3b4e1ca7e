"""Headers that cross from one gateway to another: those of the API's contract, and nothing else.

A client's credentials (``Authorization``, ``Cookie``, or a later standard's) never travel, and no peer can set a cookie or a
policy at a client. Both lists say which headers pass: an unknown header does not. A hop covers the headers that cross to the
peer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.forwarding.connections import Headers
from gateway.forwarding.hop import HEADER

_CONTRACT: Final = b"tidelog-"
"""Prefix of the API's own headers."""
_REQUEST: Final = frozenset({b"accept", b"accept-encoding", b"content-encoding", b"content-type", b"last-event-id"})
_ANSWER: Final = frozenset(
    {
        *(b"allow", b"cache-control", b"content-encoding", b"content-length", b"content-type"),
        *(b"retry-after", b"vary", b"www-authenticate"),
    }
)


def forwarded_request_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a client's request that a peer gets, besides this gateway's own. Names are lower-case."""
    return _crossing(headers, _REQUEST)


def forwarded_answer_headers(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers of a peer's answer that the client gets. Names are lower-case."""
    return _crossing(headers, _ANSWER)


def _crossing(headers: Iterable[tuple[bytes, bytes]], listed: frozenset[bytes]) -> Headers:
    return [one for one in headers if one[0] in listed or (one[0][: len(_CONTRACT)] == _CONTRACT and one[0] != HEADER)]
