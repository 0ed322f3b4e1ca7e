"""Answer with a queue's received records, each with its lock, encoded while it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from gateway.codec.large_record import object_pieces
from gateway.codec.media_type import JSON
from gateway.codec.record_json import is_large, pieces, record_objects
from gateway.codec.text_rows import text_of
from gateway.gateway import Gateway
from gateway.http.fetch_response import RecordsResponse
from gateway.queues.queue_partition import Lease
from gateway.queues.received import Delivered, Received

_RECORD_TEXT_BYTES: Final = 224
"""Estimated bytes that JSON adds to a record."""


def received_response(gateway: Gateway, received: Received) -> RecordsResponse:
    """Return the answer, which releases the memory once it is sent."""
    return RecordsResponse(
        lambda: _pieces(received),
        size_bytes=received.size_bytes + _RECORD_TEXT_BYTES * received.record_count,
        media_type=JSON,
        headers={},
        reservation=received.reservation,
        pool=gateway.codec_pool,
    )


def _pieces(received: Received) -> Iterator[bytes]:
    yield b'{"records":['
    is_first = True
    for delivered, lease in received.parts:
        further = _lock_fields(delivered, lease, received.locked_until_ms)
        for piece in pieces(delivered.records):
            if is_large(piece):
                yield b"" if is_first else b","
                yield from object_pieces(piece, further)
            else:
                # Each object begins with its comma, which saves a further pass over the text.
                text = text_of(record_objects(piece, further, lead=","))
                yield bytes(text[1:] if is_first else text)
            is_first = False
    yield b"]}"


def _lock_fields(delivered: Delivered, lease: Lease, locked_until_ms: int) -> str:
    members = {
        "topic": delivered.topic,
        "delivery_count": delivered.held.count + 1,
        "lease": lease.lease_id,
        "locked_until_ms": locked_until_ms,
    }
    return "," + msgspec.json.encode(members).decode()[1:-1]
