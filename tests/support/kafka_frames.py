"""Kafka's protocol by hand: any request in any version over one connection, and bytes that no client would send."""

from __future__ import annotations

import io
import socket
import ssl
import struct
from collections.abc import Mapping
from typing import Any, Self

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from gateway.kafka.wire.entities import make_entity

KEYS: Mapping[str, int] = {name: key for key, name in api_key_map.items()}
"""API keys by their names, as ``create_topics``."""


class Closed(Exception):
    """The gateway closed the connection."""


class Wire:
    """One connection to ``host:port``."""

    def __init__(self, address: str, trust: ssl.SSLContext | None = None, seconds: float = 20) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        if trust is not None:
            self.socket = trust.wrap_socket(self.socket, server_hostname=host)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, name: str, version: int, /, **values: Any) -> Any:
        """The answer to a request. Raises ``Closed``."""
        self.ask(name, version, **values)
        return self.answer(name, version)

    def ask(self, name: str, version: int, /, **values: Any) -> None:
        """Send a request."""
        self.send(framed(name, version, self.correlate(), **values))

    def correlate(self) -> int:
        """The next correlation id."""
        self._correlation_id += 1
        return self._correlation_id

    def send(self, data: bytes) -> None:
        """Any bytes."""
        self.socket.sendall(data)

    def answer(self, name: str, version: int) -> Any:
        """The next answer. Raises ``Closed``."""
        correlation_id, answer = answered(name, version, self.frame())
        assert correlation_id == self._correlation_id
        return answer

    def frame(self) -> bytes:
        """The next frame. Raises ``Closed``."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def is_open(self, seconds: float = 0.2) -> bool:
        """Whether the gateway has left the connection open so long."""
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) != b""
        except TimeoutError:
            return True
        except OSError:
            return False

    def is_closed(self) -> bool:
        """Whether the gateway ends the connection without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                more = self.socket.recv(min(size - len(found), 1 << 20))
            except ConnectionError as error:
                raise Closed from error
            if not more:
                raise Closed
            found += more
        return found


def framed(name: str, version: int, correlation_id: int, /, client_id: str | None = "test", **values: Any) -> bytes:
    """A request's frame."""
    key = KEYS[name]
    kind: Any = load_request_schema(key, version)
    buffer = io.BytesIO()
    header = kind.__header_schema__
    given: dict[str, Any] = {
        "request_api_key": key,
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    entity_writer(header)(buffer, header(**given))
    entity_writer(kind)(buffer, make_entity(kind, values))
    body = buffer.getvalue()
    return struct.pack(">i", len(body)) + body


def answered(name: str, version: int, frame: bytes) -> tuple[int, Any]:
    """An answer's frame: whose it is, and what it says."""
    kind: Any = load_response_schema(KEYS[name], version)
    header, size = entity_reader(kind.__header_schema__)(frame, 0)
    answer, more = entity_reader(kind)(frame, size)
    assert size + more == len(frame), "bytes behind the answer"
    return header.correlation_id, answer


def plain(token: str, user: str = "") -> bytes:
    """A SASL PLAIN message."""
    return f"\0{user}\0{token}".encode()


def log_in(wire: Wire, token: str, mechanism: str = "PLAIN", version: int = 2) -> Any:
    """The answer to SaslAuthenticate."""
    assert wire.call("sasl_handshake", 1, mechanism=mechanism).error_code == 0
    message = plain(token) if mechanism == "PLAIN" else b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    return wire.call("sasl_authenticate", version, auth_bytes=message)
