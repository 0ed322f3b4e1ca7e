"""Reading of a peer's answer to a request that was passed on, before the answer is passed on itself."""

from __future__ import annotations

import json
from typing import Final

from gateway.forwarding.connections import KeepsWaiting, PeerConnection
from log_format.errors import REPLACED_BY, ErrorCode

WHOLE_ANSWER_BYTES_MAX: Final = 64 * 1024
"""Size up to which an answer is read to its end before its head is passed on: if it breaks off, it counts as lost."""


def is_short(connection: PeerConnection) -> bool:
    """Return whether the answer's head says that it is short; a problem (503) is short in any case."""
    lengths = [int(value) for name, value in connection.headers if name == b"content-length" and value.isdigit()]
    return connection.status == 503 or (bool(lengths) and lengths[0] <= WHOLE_ANSWER_BYTES_MAX)


async def beginning(connection: PeerConnection, goes_on: KeepsWaiting) -> bytes:
    """Return the body, or the beginning of a longer one. Raises ``PeerLost``."""
    pieces = b""
    while len(pieces) < WHOLE_ANSWER_BYTES_MAX and (piece := await connection.read_chunk(goes_on)):
        pieces += piece
    return pieces


def untouched(body: bytes) -> str | None:
    """Return why the peer did nothing, if this gateway may serve the request instead; None if the answer does not say so."""
    try:
        problem = json.loads(body)
    except ValueError:
        return None
    if not isinstance(problem, dict):
        return None
    if problem.get("error_code") == ErrorCode.DRAINING:
        return "draining"
    return "replaced" if REPLACED_BY in problem else None
