"""``text/event-stream``: records as server-sent events (WHATWG HTML, section 9.2).

An event is a few lines and a blank one. The JSON of a record has no line breaks, so it is one line of data. ``id`` is the
client's next offset, which it sends back as ``Last-Event-ID``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import pyarrow as pa

from gateway.codec.large_record import object_pieces
from gateway.codec.record_json import is_large, pieces, record_objects
from gateway.codec.text_rows import join_rows, text_of

PING: Final = b": ping\n\n"
"""A comment, which clients skip. It tells both sides that the connection is alive."""


def ping_at(next_offset: int) -> bytes:
    """A ping to a reader with a filter. Its bare ``id`` dispatches no event, and moves a client that reconnects."""
    return b"%bid: %d\n\n" % (PING[:-1], next_offset)


def record_events(records: pa.Table) -> Iterator[bytes]:
    """An event for each row of ``records`` (``RECORD_SCHEMA``), in pieces."""
    for piece in pieces(records):
        if is_large(piece):
            yield b"id: %d\nevent: record\ndata: " % (piece.column("offset")[0].as_py() + 1)
            yield from object_pieces(piece)
            yield b"\n\n"
            continue
        ids = piece.column("offset").to_numpy() + 1
        rows = join_rows(["id: ", ids, "\nevent: record\ndata: ", record_objects(piece), "\n\n"])
        yield bytes(text_of(rows))


def end_event(reason: str, next_offset: int | None = None) -> bytes:
    """The last event of a stream: why it ends and, where that is known, where to go on."""
    identity = b"" if next_offset is None else b"id: %d\n" % next_offset
    return b"%bevent: end\ndata: %b\n\n" % (identity, msgspec.json.encode({"reason": reason}))
