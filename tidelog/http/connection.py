"""HTTP/1.1 exchanges with one address over keep-alive connections.

Conclusions that a caller may draw from a failure:

1. ``NeverSent``: no byte of the request left this machine. It may be sent again, anywhere.
2. ``AnswerLost``: the gateway may have read and executed the request; its answer did not come, or not completely.
3. An ``Answer`` is complete: as long as its Content-Length or its chunks say, and decompressed without an error. One that is
   longer than the caller allows is given up at that length, compressed or not (``AnswerTooLarge``).

A connection is reused only after a short idle time and if no data waits to be read on it. ``abort`` cuts every exchange from
another thread. Absent on purpose: redirects, cookies, proxies, HTTP/2.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util import Url, parse_url

from tidelog import limits
from tidelog.deadline import Deadline
from tidelog.http.answer import Answer, AnswerLost, AnswerTooLarge, GatewaySilent, NeverSent, NotTrusted


class Watched(Protocol):
    """A wait for the beginning of an answer (``silence``)."""

    @property
    def is_cut(self) -> bool:
        """Whether the wait was given up."""

    def end(self) -> None:
        """End the wait."""


class Address:
    """One base URL, ``http://host:port/prefix``, and its idle connections. Thread-safe."""

    def __init__(
        self,
        url: str,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        *,
        idle_ms_max: int = limits.IDLE_CONNECTION_MS_MAX,
    ) -> None:
        """Create the address without connecting. ``tls``: returns the context of each new connection to an https gateway.

        Raises ``ValueError`` when ``url`` is no http or https URL, and what ``tls`` raises.
        """
        parsed = _parse(url)
        self.url = url.rstrip("/")
        self._prefix = (parsed.path or "").rstrip("/")
        self._host = (parsed.host or "").strip("[]")
        self._port = parsed.port
        self._tls = tls if parsed.scheme == "https" else None
        if self._tls is not None:
            self._tls()  # raises early for unusable files
        self._idle_ms_max = idle_ms_max
        self._lock = threading.Lock()
        self._idle: list[tuple[HTTPConnection, float]] = []
        self._busy: set[HTTPConnection] = set()
        self._closed = False
        self._has_answered = False
        self._aborted = threading.Event()

    def exchange(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout_ms: float,
        answer_bytes_max: int = limits.ANSWER_BYTES_MAX,
        watch: Callable[[Callable[[], None]], Watched] | None = None,
    ) -> Answer:
        """Send one request and return its whole answer within ``timeout_ms``. ``watch`` may cut it before its answer begins.

        Raises ``NeverSent``, ``AnswerLost``, ``AnswerTooLarge``, ``GatewaySilent``.
        """
        deadline = Deadline(timeout_ms)
        connection = self._take(deadline)
        reusable = False
        wait: Watched | None = None
        try:
            wait = None if watch is None else watch(partial(_cut, connection))
            connection.timeout = deadline.remaining_s()
            sent = _send(connection, method, self._prefix + target, body, headers)
            response = connection.getresponse()
            if wait is not None:
                wait.end()
            self._has_answered = True
            received = _read(response, connection, deadline, answer_bytes_max)
            reusable = sent and connection.sock is not None
            lowered = {name.lower(): value for name, value in response.headers.items()}
            data = _decompress(received, lowered.get("content-encoding"), answer_bytes_max)
            return Answer(status=response.status, headers=lowered, body=data)
        except _TooLarge:
            reusable = False
            what = f"the answer is longer than this request's limit of {answer_bytes_max} bytes"
            raise AnswerTooLarge(f"{self.url}: {what}") from None
        except _EXCHANGE_ERRORS as error:
            reusable = False
            if wait is not None and wait.is_cut:
                raise GatewaySilent(f"{self.url}: it accepts requests and does not answer them") from error
            raise AnswerLost(f"{self.url}: {self._why_lost(error)}") from error
        finally:
            if wait is not None:
                wait.end()
            self._give_back(connection, reusable)

    def _why_lost(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError):
            return "no answer in time"
        reason = str(error) or type(error).__name__
        if self._tls is None and not self._has_answered and isinstance(error, http.client.BadStatusLine):
            return f"{reason} (if the gateway uses TLS, its address must begin with https://)"
        return reason

    def abort(self) -> None:
        """Cut every current and future exchange."""
        with self._lock:
            self._aborted.set()
            busy = list(self._busy)
        for connection in busy:
            _cut(connection)
        self.close()

    def close(self) -> None:
        """Close the idle connections, and keep none from now on. Exchanges under way continue."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _take(self, deadline: Deadline) -> HTTPConnection:
        oldest = time.monotonic() - self._idle_ms_max / 1000
        stale = []
        connection = None
        with self._lock:
            if self._aborted.is_set():
                raise NeverSent(f"{self.url}: the client is closed")
            while self._idle and connection is None:
                candidate, idle_since = self._idle.pop()
                if idle_since >= oldest and candidate.is_connected:
                    connection = candidate
                else:
                    stale.append(candidate)
        for old in stale:
            old.close()
        if connection is None:
            connection = self._connect(deadline)
        with self._lock:
            self._busy.add(connection)
            aborted = self._aborted.is_set()
        if aborted:
            self._give_back(connection, reusable=False)
            raise NeverSent(f"{self.url}: the client is closed")
        return connection

    def _connect(self, deadline: Deadline) -> HTTPConnection:
        timeout_s = min(limits.CONNECT_TIMEOUT_MS, max(deadline.remaining_ms(), 1)) / 1000
        connection = (
            HTTPSConnection(self._host, self._port, timeout=timeout_s, ssl_context=self._tls())
            if self._tls is not None
            else HTTPConnection(self._host, self._port, timeout=timeout_s)
        )
        try:
            connection.connect()
        except (OSError, urllib3.exceptions.HTTPError) as error:
            connection.close()
            kind = NotTrusted if any(map(_is_no_gateway, _causes(error))) else NeverSent
            raise kind(f"{self.url}: {_reason(error)}") from error
        return connection

    def _give_back(self, connection: HTTPConnection, reusable: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            kept = reusable and not self._closed and len(self._idle) < limits.IDLE_CONNECTIONS_MAX
            if kept:
                self._idle.append((connection, time.monotonic()))
        if not kept:
            connection.close()


class _TooLarge(Exception):
    """The answer exceeds the bound."""


_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""OpenSSL's reasons for an answer that is no TLS; the second since version 3.2."""

_EXCHANGE_ERRORS = (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, zlib.error)


def _cut(connection: HTTPConnection) -> None:
    """End the exchange of another thread on this connection."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            # Not TLS's own shutdown, which would destroy the session that another thread reads from.
            socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)


def _send(connection: HTTPConnection, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bool:
    """Send the request, and return whether all of it was sent.

    A server may refuse a body and close before reading it; its answer can be read then.
    """
    try:
        connection.request(method, target, body=body, headers=headers, preload_content=False, decode_content=False)
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _parse(url: str) -> Url:
    try:
        parsed = parse_url(url)
    except urllib3.exceptions.LocationParseError as error:
        raise ValueError(f"{url!r} is not a URL") from error
    if parsed.scheme not in {"http", "https"} or not parsed.host or parsed.query or parsed.fragment or parsed.auth:
        raise ValueError(f"{url!r} is not a gateway's address: write http://host:port or https://host:port")
    return parsed


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _is_no_gateway(cause: BaseException) -> bool:
    return isinstance(cause, ssl.SSLCertVerificationError) or (
        isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS
    )


def _reason(error: BaseException) -> str:
    """Return the operating system's message, without urllib3's description of its own objects."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            what = f"its certificate is not trusted: {cause.verify_message}"
            return f"{what} (set ca_file or TIDELOG_CA_FILE to the file of its authority)"
        if isinstance(cause, ssl.SSLError) and cause.reason in _NO_TLS:
            return "the server does not use TLS: does the address begin with http://?"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return str(error).rpartition("): ")[2]


def _read(response: urllib3.HTTPResponse, connection: HTTPConnection, deadline: Deadline, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    while True:
        if deadline.passed:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(deadline.remaining_s())
        part = response.read1(limits.READ_BYTES)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size_bytes += len(part)
        if size_bytes > bytes_max:
            raise _TooLarge


def _decompress(body: bytes, encoding: str | None, bytes_max: int) -> bytes:
    if encoding in {None, "", "identity"}:
        return body
    if encoding == "gzip":
        stream = zlib.decompressobj(wbits=31)
        data = stream.decompress(body, bytes_max + 1)
        if len(data) > bytes_max:
            raise _TooLarge
        if not stream.eof:
            raise urllib3.exceptions.DecodeError("the gzip stream is incomplete")
        return data
    if encoding == "zstd":
        return _decompress_zstd(body, bytes_max)
    raise urllib3.exceptions.DecodeError(f"unknown content encoding {encoding!r}")


def _decompress_zstd(body: bytes, bytes_max: int) -> bytes:
    import zstandard  # noqa: PLC0415 - the SDK asks for zstd only where this is installed

    decompressor = zstandard.ZstdDecompressor(max_window_size=limits.ZSTD_WINDOW_BYTES_MAX)
    parts: list[bytes] = []
    left = bytes_max
    try:
        with decompressor.stream_reader(body, read_across_frames=True) as reader:
            while part := reader.read(limits.READ_BYTES):
                left -= len(part)
                if left < 0:
                    raise _TooLarge
                parts.append(part)
    except zstandard.ZstdError as error:
        raise urllib3.exceptions.DecodeError(str(error)) from error
    return b"".join(parts)
