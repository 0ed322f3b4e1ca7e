"""One request and its answer over an open connection of urllib3's pool, without ``http.client``.

``http.client`` parses an answer's headers like those of an e-mail, and urllib3 and botocore wrap each request and answer in a
dozen objects. Together they take several times as long as the system calls.

1. The connections are the pool's, which opens them, with their TLS. If none is open, the request is not sent here.
2. Only a plain answer is parsed here: HTTP/1.1 with ``Content-Length`` and no transfer coding. The bytes of any other answer are
   passed to ``http.client``.
3. Failures raise what botocore would raise.

Proxies are not supported.
"""

from __future__ import annotations

import http.client
import io
import ssl
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import botocore.exceptions

HEAD_BYTES_MAX: Final = 64 * 1024
JOINED_BYTES_MAX: Final = 64 * 1024
"""Size up to which a body is sent together with its head, at the price of a copy."""
_RECEIVED_BYTES: Final = 64 * 1024


class Answer(NamedTuple):
    """An answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NotPlain(Exception):
    """Signal that ``http.client`` must parse the answer."""


class Exchange:
    """A sender of requests to one host. ``pool`` is urllib3's; timeouts are in seconds. Thread-safe."""

    def __init__(self, pool: Any, url: str, *, send_s: float, read_s: float) -> None:
        self._pool = pool
        self._url = url
        self._send_s = send_s
        self._read_s = read_s

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """Send a request and return its answer; None, with nothing sent, if no connection is open.

        Args:
            method: HTTP method.
            target: path and query, quoted.
            headers: all headers except ``Content-Length`` and ``Accept-Encoding``.
            body: body, empty for none.

        Raises botocore's subclass of ``HTTPClientError`` for the failure.
        """
        try:
            connection = self._pool._get_conn()
        except Exception:  # noqa: BLE001 - the pool is closed or used up: the caller's other way reports that
            return None
        is_reusable = False
        try:
            if connection.sock is None:  # the connection is new, or was found dropped
                is_reusable = True
                return None
            self._send(connection.sock, _head(method, target, headers, len(body)), body)
            found, is_reusable = self._read(connection.sock, method)
            return found
        finally:
            if not is_reusable:
                connection.close()
            self._pool._put_conn(connection)

    def _send(self, sock: Any, head: bytes, body: bytes) -> None:
        try:
            sock.settimeout(self._send_s)
            if len(body) <= JOINED_BYTES_MAX:
                sock.sendall(head + body)
            else:
                sock.sendall(head)
                sock.sendall(body)
        except BrokenPipeError:
            pass  # the server may have answered before it read everything
        except OSError as error:
            raise self._lost(error) from error

    def _read(self, sock: Any, method: str) -> tuple[Answer, bool]:
        """Return the answer, and whether the connection may be used again."""
        received = bytearray()
        try:
            sock.settimeout(self._read_s)
            try:
                return _plain(sock, received)
            except _NotPlain:
                return _any(sock, bytes(received), method), False
        except TimeoutError as error:
            raise botocore.exceptions.ReadTimeoutError(endpoint_url=self._url, error=error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> Exception:
        if isinstance(error, ssl.SSLError):
            return botocore.exceptions.SSLError(endpoint_url=self._url, error=error)
        return botocore.exceptions.ConnectionClosedError(endpoint_url=self._url, error=error)


def _head(method: str, target: str, headers: Mapping[str, str], length: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1\r\nAccept-Encoding: identity\r\nContent-Length: {length}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers.items()]
    lines.append("\r\n")
    return "".join(lines).encode("latin-1")


def _plain(sock: Any, received: bytearray) -> tuple[Answer, bool]:
    """Parse a plain answer, appending what arrives to ``received``. Raises ``_NotPlain``."""
    while (end := received.find(b"\r\n\r\n")) < 0:
        if len(received) > HEAD_BYTES_MAX:
            raise _NotPlain
        piece = sock.recv(_RECEIVED_BYTES)
        if not piece:
            raise http.client.RemoteDisconnected("the store closed the connection without an answer")
        received += piece
    first, *lines = received[:end].decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if version != "HTTP/1.1" or not rest[:3].isdecimal() or rest[3:4] not in ("", " "):
        raise _NotPlain
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name != name.strip():
            raise _NotPlain
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    status, length = int(rest[:3]), headers.get("content-length", "")
    if status < 200 or status in (204, 304) or not length.isdecimal() or "transfer-encoding" in headers:
        raise _NotPlain
    start, size = end + 4, int(length)
    while len(received) - start < size:
        piece = sock.recv(_RECEIVED_BYTES)
        if not piece:
            raise http.client.IncompleteRead(bytes(received[start:]), size)
        received += piece
    is_reusable = len(received) - start == size and headers.get("connection", "").lower() in ("", "keep-alive")
    return Answer(status, headers, bytes(received[start : start + size])), is_reusable


def _any(sock: Any, received: bytes, method: str) -> Answer:
    response = http.client.HTTPResponse(_ReplayedSocket(sock, received), method=method)  # type: ignore[arg-type]
    response.begin()
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
    return Answer(response.status, headers, response.read())


class _ReplayedSocket(io.RawIOBase):
    """A connection from which some bytes were read already, with the interface that ``http.client`` needs."""

    def __init__(self, sock: Any, received: bytes) -> None:
        self._sock = sock
        self._received = received

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a file to read from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the bytes that were received already first."""
        piece = self._received[: len(buffer)] or self._sock.recv(len(buffer))
        self._received = self._received[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
