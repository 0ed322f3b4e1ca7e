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


class EventWriter:
    """The events of one stream. ``topic_id``: it stands in each id, behind an @; None: ids are offsets."""

    def __init__(self, topic_id: str | None = None, *, is_recreated: bool = False) -> None:
        """``is_recreated``: the client's position was in a topic that is no more."""
        self._behind = "" if topic_id is None else f"@{topic_id}"
        self.opening = b""
        """The first event; empty: none."""
        if is_recreated:
            self.opening = b"event: topic_recreated\ndata: %b\n\n" % msgspec.json.encode({"topic_id": topic_id})

    def ping_at(self, next_offset: int) -> bytes:
        """A ping to a reader with a filter. Its bare ``id`` dispatches no event, and moves a client that reconnects."""
        return b"%b%b\n" % (PING[:-1], self._id(next_offset))

    def records(self, records: pa.Table) -> Iterator[bytes]:
        """An event for each row of ``records`` (``RECORD_SCHEMA``), in pieces."""
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
        """The last event of a stream: why it ends and, where that is known, where to go on."""
        identity = b"" if next_offset is None else self._id(next_offset)
        return b"%bevent: end\ndata: %b\n\n" % (identity, msgspec.json.encode({"reason": reason}))

    def _id(self, next_offset: int) -> bytes:
        return f"id: {next_offset}{self._behind}\n".encode()
