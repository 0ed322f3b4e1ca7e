"""Decoding of requests from frames, and encoding of answers to frames: headers and bodies by kio's schemas of each version."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kio.index import UnknownEntity, load_request_schema, load_response_schema
from kio.serial import entity_writer

from gateway.kafka.wire.entities import prepare_entity
from gateway.kafka.wire.reading import Malformed, make_reader, read_entity

_PREFIX: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")
_KEPT_BYTES_MAX: Final = 256


@dataclass(frozen=True, slots=True)
class Head:
    """The fields at the start of every request's header, in any version."""

    key: int
    version: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Request:
    """A decoded request. ``body`` is kio's entity of the request's version."""

    head: Head
    client_id: str | None
    body: Any


def read_head(frame: memoryview) -> Head:
    """Decode the first eight bytes of the frame. Raise ``Malformed``."""
    if len(frame) < _PREFIX.size:
        raise Malformed("a frame without a header")
    return Head(*_PREFIX.unpack_from(frame))


@dataclass(slots=True)
class LastHeader:
    """The last request's header on a connection, as clients send the same header in each request."""

    key: int = -1
    version: int = -1
    rest: bytes = b""
    """Bytes of the header after the correlation id."""
    client_id: str | None = None

    def end(self, head: Head, frame: memoryview) -> int | None:
        """Return the index at which the frame's header ends, if it equals this one; else None."""
        end = _PREFIX.size + len(self.rest)
        is_this = head.key == self.key and head.version == self.version and frame[_PREFIX.size : end] == self.rest
        return end if is_this else None

    def keep(self, head: Head, client_id: str | None, rest: memoryview) -> None:
        """Remember the header, unless it is long."""
        if len(rest) <= _KEPT_BYTES_MAX:
            self.key, self.version, self.rest, self.client_id = head.key, head.version, bytes(rest), client_id


def read_request(head: Head, frame: memoryview, last: LastHeader) -> Request:
    """Decode the whole frame. Bytes after the body are ignored, as by a broker. Raise ``Malformed``."""
    try:
        kind = request_type(head.key, head.version)
    except UnknownEntity as error:
        raise Malformed(str(error)) from error
    size = last.end(head, frame)
    if size is None:
        header, size = read_entity(kind.__header_schema__, frame)
        last.keep(head, header.client_id, frame[_PREFIX.size : size])
        client_id = header.client_id
    else:
        client_id = last.client_id
    body, _ = read_entity(kind, frame, size)
    return Request(head, client_id, body)


def prepare(key: int, version: int) -> None:
    """Import a version's schemas, and make their readers and writers: takes some 10 ms, so not on the event loop."""
    with suppress(UnknownEntity):
        for schema in (request_type(key, version), response_type(key, version)):
            for entity_type in (schema.__header_schema__, schema):
                make_reader(entity_type)
                entity_writer(entity_type)
                prepare_entity(entity_type)


@cache
def request_type(key: int, version: int) -> Any:
    """Return kio's class of the request, cached because kio looks it up by name. Raise ``UnknownEntity``."""
    return load_request_schema(key, version)


@cache
def response_type(key: int, version: int) -> Any:
    """Return kio's class of the answer. Raise as ``request_type`` does."""
    return load_response_schema(key, version)


def encode_body(entity: Any) -> bytes:
    """Encode the answer's body."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def encode_with_field(entity: Any, size: int, parts: Iterable[Any], *, behind: int = 0) -> list[bytes]:
    """Encode the entity in parts, with ``parts`` in place of its last array or bytes field.

    Args:
        entity: The entity, whose last array or bytes field is empty, and whose tagged fields have their defaults.
        size: Number of entries or bytes in ``parts``.
        parts: The field's encoded entries or bytes.
        behind: Number of bytes of plain fields after the field.
    """
    encoded = encode_body(entity)
    is_flexible = type(entity).__flexible__
    tail = behind + (1 if is_flexible else 0)
    end = len(encoded) - tail
    head = encoded[: end - (1 if is_flexible else _LENGTH.size)] + encode_count(size, is_flexible=is_flexible)
    return [head, *parts, encoded[end:]] if tail else [head, *parts]


def encode_count(size: int, *, is_flexible: bool) -> bytes:
    """Encode the number of entries or bytes that follow."""
    if not is_flexible:
        return _LENGTH.pack(size)
    left, found = size + 1, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    found.append(left)
    return bytes(found)


def frame_answer(head: Head, *parts: bytes | memoryview) -> list[bytes | memoryview]:
    """Return the answer's frame in parts: length, header, body. ApiVersions' answer has the oldest header, so that any client
    can decode it."""
    rest = _header_rest(head.key, head.version)
    size = _LENGTH.size + len(rest) + sum(map(len, parts))
    return [_HEADER.pack(size, head.correlation_id) + rest, *parts]


@cache
def _header_rest(key: int, version: int) -> bytes:
    """Return the bytes of an answer's header after its correlation id."""
    header = encode_body(response_type(key, version).__header_schema__(correlation_id=0))
    return header[_LENGTH.size :]
