"""Connections that send half of something, ask for much and read nothing, or say what two programs read in two ways."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.support.gateway_process import GatewayProcess

READERS = 400
HALF_A_HEAD = b"GET /v1/topics HTTP/1.1\r\nHost: h\r\nX: "
HALF_A_BODY = b"POST /v1/topics HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
TWO_READINGS = (
    b"GET /healthz\r\n\r\n",
    b"GET /healthz HTTP/0.9\r\nHost: x\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\r\n folded\r\n\r\n",
    b"POST /v1/topics HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    + b"e" * 200_000
    + b"\r\n{\r\n0\r\n\r\n",
)
"""Requests that are refused with 400 whatever comes before them."""


def authorization(gateway: GatewayProcess) -> str:
    """The line of a head by which ``gateway.http`` is let in; empty: it shows nothing."""
    shown = gateway.http.headers.get("authorization")
    return "" if shown is None else f"Authorization: {shown}\r\n"


@contextmanager
def half_requests(gateway: GatewayProcess, records: str) -> Iterator[None]:
    """Far more connections than it takes, each with half a head, half a body, or an event stream of the path ``records``."""
    stream = f"GET {records}?offset=0 HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n{authorization(gateway)}\r\n"
    requests = (HALF_A_HEAD, HALF_A_BODY, stream.encode())
    with ExitStack() as stack:
        for number in range(2_100):
            with suppress(OSError):
                stack.enter_context(gateway.connect()).sendall(requests[number % 3])
        yield


def answer_to(gateway: GatewayProcess, request: bytes) -> bytes:
    """All that comes back until the gateway closes, or says no more for a second."""
    received = b""
    with gateway.connect() as connection:
        connection.settimeout(1)
        try:
            connection.sendall(request)
            while piece := connection.recv(65536):
                received += piece
        except OSError:
            pass
    return received


def read_slowly(gateway: GatewayProcess, target: str, count: int, seconds: float) -> None:
    """Ask for it on ``count`` connections, and read nothing of the answers."""
    connections = []
    for _ in range(count):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: h\r\n{authorization(gateway)}\r\n".encode())
        connections.append(connection)
    time.sleep(seconds)
    for connection in connections:
        connection.close()


@contextmanager
def readers_that_do_not_read(gateway: GatewayProcess, path: str, count: int = READERS) -> Iterator[None]:
    """They have asked, and wait for the time of the block."""
    with ExitStack() as stack:
        for _ in range(count):
            reader = stack.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            # As across a network: over loopback the gateway's system would take megabytes at once.
            reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            reader.connect(("127.0.0.1", gateway.port))
            reader.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n{authorization(gateway)}\r\n".encode())
        time.sleep(1)
        yield
