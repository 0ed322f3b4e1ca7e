"""A frame's bytes to a request, and an answer to a frame's bytes: headers and bodies by kio's schemas of each version."""

from __future__ import annotations

import io
import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kio.index import UnknownEntity, load_request_schema, load_response_schema
from kio.serial import entity_writer

from gateway.kafka.wire.made import make_plan
from gateway.kafka.wire.reading import Malformed, make_reader, read_entity

_PREFIX: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Head:
    """What every request's header begins with, whatever its version."""

    key: int
    version: int
    correlation_id: int


@dataclass(frozen=True, slots=True)
class Request:
    """``body`` is kio's entity of the request's version."""

    head: Head
    client_id: str | None
    body: Any


def read_head(frame: memoryview) -> Head:
    """The first eight bytes of the frame. Raises ``Malformed``."""
    if len(frame) < _PREFIX.size:
        raise Malformed("a frame without a header")
    return Head(*_PREFIX.unpack_from(frame))


def read_request(head: Head, frame: memoryview) -> Request:
    """The whole frame. Bytes behind the body are ignored, as by a broker. Raises ``Malformed``."""
    try:
        kind = request_type(head.key, head.version)
    except UnknownEntity as error:
        raise Malformed(str(error)) from error
    header, size = read_entity(kind.__header_schema__, frame)
    body, _ = read_entity(kind, frame, size)
    return Request(head, header.client_id, body)


def prepare(key: int, version: int) -> None:
    """Import a version's schemas, and make what reads and writes them: some 10 ms, so not on the event loop."""
    with suppress(UnknownEntity):
        for schema in (request_type(key, version), response_type(key, version)):
            for entity_type in (schema.__header_schema__, schema):
                make_reader(entity_type)
                entity_writer(entity_type)
                make_plan(entity_type)


@cache
def request_type(key: int, version: int) -> Any:
    """kio's class of the request, which it would look up by name each time. Raises ``UnknownEntity``."""
    return load_request_schema(key, version)


@cache
def response_type(key: int, version: int) -> Any:
    """kio's class of the answer. Raises as ``request_type``."""
    return load_response_schema(key, version)


def encoded_body(entity: Any) -> bytes:
    """The answer's body."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def framed(head: Head, *parts: bytes | memoryview) -> list[bytes | memoryview]:
    """The answer's frame in parts: length, header, body. Of ApiVersions' answer the header is the oldest, so that any client can
    read it."""
    header = _header(head.key, head.version, head.correlation_id)
    size = len(header) + sum(map(len, parts))
    return [_LENGTH.pack(size) + header, *parts]


def _header(key: int, version: int, correlation_id: int) -> bytes:
    header_type = _header_type(key, version)
    return encoded_body(header_type(correlation_id=correlation_id))


@cache
def _header_type(key: int, version: int) -> Any:
    return response_type(key, version).__header_schema__
