"""One request and its answer over an open connection of urllib3's pool, without ``http.client``.

``http.client`` reads an answer's headers as those of an e-mail, and urllib3 and botocore wrap each request and answer in a dozen
objects. Together they take several times what the system needs.

1. The connections are the pool's, which opens them, with their TLS: a request that finds none open is not sent here.
2. Only a plain answer is read here: HTTP/1.1 with ``Content-Length`` and no transfer coding. The bytes of another one are handed
   to ``http.client``.
3. Failures raise what botocore would raise.

Not here: proxies.
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
"""A longer body is not copied behind its head."""
_RECEIVED_BYTES: Final = 64 * 1024


class Answer(NamedTuple):
    """Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _NotPlain(Exception):
    """The answer is left to ``http.client``."""


class Exchange:
    """Requests to one host. ``pool`` is urllib3's; times are seconds. Thread-safe."""

    def __init__(self, pool: Any, url: str, *, send_s: float, read_s: float) -> None:
        self._pool = pool
        self._url = url
        self._send_s = send_s
        self._read_s = read_s

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer | None:
        """The answer to a request with these headers and its ``Content-Length``. None: no connection is open, nothing was sent.

        Raises botocore's ``HTTPClientError`` of its kind.
        """
        try:
            connection = self._pool._get_conn()
        except Exception:  # noqa: BLE001 - the pool is closed or used up: the long way says so
            return None
        is_reusable = False
        try:
            if connection.sock is None:  # or it was found dropped
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
            pass  # the server may have answered before it read all
        except OSError as error:
            raise self._lost(error) from error

    def _read(self, sock: Any, method: str) -> tuple[Answer, bool]:
        """The answer, and whether the connection may be used again."""
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
    """``received`` gets what the connection gives. Raises ``_NotPlain``."""
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
    response = http.client.HTTPResponse(_Begun(sock, received), method=method)  # type: ignore[arg-type]
    response.begin()
    headers: dict[str, str] = {}
    for name, value in response.getheaders():
        headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
    return Answer(response.status, headers, response.read())


class _Begun(io.RawIOBase):
    """A connection from which some bytes were read already, as ``http.client`` asks for it."""

    def __init__(self, sock: Any, received: bytes) -> None:
        self._sock = sock
        self._received = received

    def makefile(self, _mode: str) -> io.BufferedReader:
        """To read from."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """First what was read already."""
        piece = self._received[: len(buffer)] or self._sock.recv(len(buffer))
        self._received = self._received[len(buffer) :]
        buffer[: len(piece)] = piece
        return len(piece)
