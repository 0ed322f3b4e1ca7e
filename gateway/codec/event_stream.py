"""``text/event-stream``: records as server-sent events (WHATWG HTML, section 9.2).

An event is a few lines and a blank one. The JSON of a record has no line breaks, so it is one line of data. ``id`` is the
client's next offset, which the client sends back as ``Last-Event-ID``.
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
"""A comment, which clients skip. It shows both sides that the connection is alive."""


class EventWriter:
    """Encoder of one stream's events. ``topic_id``: appended to each id after an @; None: ids are offsets only."""

    def __init__(self, topic_id: str | None = None, *, is_recreated: bool = False) -> None:
        """Set the opening event. ``is_recreated``: the client's position was in a topic that has been re-created."""
        self._behind = "" if topic_id is None else f"@{topic_id}"
        self.opening = b""
        """The first event; empty if there is none."""
        if is_recreated:
            self.opening = b"event: topic_recreated\ndata: %b\n\n" % msgspec.json.encode({"topic_id": topic_id})

    def ping_at(self, next_offset: int) -> bytes:
        """Return a ping for a reader with a filter. Its ``id`` alone dispatches no event, but moves the position of a client
        that reconnects."""
        return b"%b%b\n" % (PING[:-1], self._id(next_offset))

    def records(self, records: pa.Table) -> Iterator[bytes]:
        """Yield an event for each row of ``records`` (``RECORD_SCHEMA``), in pieces."""
        for piece in pieces(records):
            if is_large(piece):
                yield b"%bevent: record\ndata: " % self._id(piece.column("offset")[0].as_py() + 1)
                yield from object_pieces(piece)
                yield b"\n\n"
                continue
            ids = piece.column("offset").to_numpy() + 1
            objects = record_objects(piece)
            yield bytes(text_of(join_rows(["id: ", ids, f"{self._behind}\nevent: record\ndata: ", objects, "\n\n"])))

    def end(self, reason: str, next_offset: int | None = None) -> bytes:
        """Return the last event of a stream: why it ends and, if known, where to continue."""
        identity = b"" if next_offset is None else self._id(next_offset)
        return b"%bevent: end\ndata: %b\n\n" % (identity, msgspec.json.encode({"reason": reason}))

    def _id(self, next_offset: int) -> bytes:
        return f"id: {next_offset}{self._behind}\n".encode()
