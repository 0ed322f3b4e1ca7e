"""One request over an open connection: plain answers are read here, others by ``http.client``, and failures are botocore's."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import botocore.awsrequest
import botocore.exceptions
import pytest

from log_format.stores.s3_exchange import HEAD_BYTES_MAX, JOINED_BYTES_MAX, Answer, Exchange

FIRST = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
"""The answer to the request that opens the connection."""
OK = b"HTTP/1.1 200 OK\r\nServer: a\r\nVary: Origin\r\nVary: Accept\r\nContent-Length: 2\r\n\r\nhi"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"


class Scripted:
    """A server that gives each connection these answers in turn, and keeps what it was sent. An empty one closes."""

    def __init__(self, answers: list[bytes]) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self._answers = answers
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.released = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self.released.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, suppress(ConnectionError):  # an endless answer is not read to its end
                self._answer_all(connection)

    def _answer_all(self, connection: socket.socket) -> None:
        for answer in self._answers:
            request = b""
            while b"\r\n\r\n" not in request:
                piece = connection.recv(65536)
                if not piece:
                    return
                request += piece
            head, _, body = request.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
            while len(body) < length:
                body += connection.recv(65536)
            self.requests.append(head + b"\r\n\r\n" + body)
            if not answer:
                return
            if answer == b"stall":
                self.released.wait(30)
                return
            for piece in answer.split(b"|"):
                connection.sendall(piece)


@contextmanager
def opened(*answers: bytes) -> Iterator[tuple[Exchange, Scripted]]:
    """An exchange whose pool has one open connection, and its server."""
    server = Scripted([FIRST, *answers])
    pool = botocore.awsrequest.AWSHTTPConnectionPool("127.0.0.1", server.port, maxsize=2, timeout=5)
    try:
        pool.urlopen("PUT", "/first", body=b"", retries=False)
        yield Exchange(pool, "http://store", send_s=5, read_s=0.5), server
    finally:
        pool.close()
        server.close()


def put(exchange: Exchange, body: bytes = b"body") -> Answer | None:
    return exchange.answer("PUT", "/bucket/a%20b", {"Host": "store", "If-None-Match": "*"}, body)


def test_a_plain_answer() -> None:
    """Status, headers in lower case, body; the connection is used again, also for a long body."""
    with opened(OK, OK.replace(b"\r\n", b"|\r\n").replace(b"hi", b"h|i")) as (exchange, server):
        for body in (b"body", b"x" * (JOINED_BYTES_MAX + 1)):
            answer = put(exchange, body)
            assert answer == Answer(200, {"server": "a", "vary": "Origin, Accept", "content-length": "2"}, b"hi")
        head = b"PUT /bucket/a%20b HTTP/1.1\r\nAccept-Encoding: identity\r\nContent-Length: 4\r\nHost: store"
        assert server.requests[1] == head + b"\r\nIf-None-Match: *\r\n\r\nbody"
        assert len(server.requests[2]) > JOINED_BYTES_MAX
        assert server.connections == 1


def test_without_an_open_connection_nothing_is_sent() -> None:
    """Neither before the first, nor where the server has closed it meanwhile, nor once the pool is closed."""
    with opened() as (exchange, server):
        pool = exchange._pool
        deadline = threading.Event()
        connection = pool._get_conn()
        while connection.is_connected and not deadline.wait(0.01):  # the server ends it after its last answer
            pass
        pool._put_conn(connection)
        assert put(exchange) is None
        pool.close()
        assert put(exchange) is None
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        pytest.param(CHUNKED, b"hi", id="chunked"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, b"hi", id="continue"),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi", id="http-1.0"),
        pytest.param(OK.replace(b"Server: a", b"Server: a\r\n b"), b"hi", id="folded"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", b"", id="no-content"),
        pytest.param(CHUNKED.replace(b"\r\n", b"\r\nContent-Length: 4\r\n", 1), b"hi", id="chunked-of-a-length"),
        pytest.param(
            CHUNKED.replace(b"2\r\nhi", b"4E20\r\n" + b"hi" * 10_000), b"hi" * 10_000, id="longer-than-a-buffer"
        ),
        pytest.param(b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n" + OK, b"hi", id="continue-of-a-length"),
        pytest.param(b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", b"", id="no-content-of-a-length"),
        pytest.param(OK.replace(b"Server: a", b"Server: a\r\n b: c"), b"hi", id="folded-with-a-colon"),
        pytest.param(OK.replace(b"Length: 2", b"Length: 2\r\nword"), b"hi", id="no-colon"),
        pytest.param(OK.replace(b"Length: 2", b"Length: 2\r\nContent-Length: 2"), b"hi", id="length-twice"),
    ],
)
def test_another_answer_is_read_by_http_client(answer: bytes, body: bytes) -> None:
    """And its connection is not used again."""
    with opened(answer, OK) as (exchange, _):
        found = put(exchange)
        assert found is not None
        assert found.body == body
        assert put(exchange) is None


@pytest.mark.parametrize("closes", [b"Connection: close", b"Connection: Close", b"Connection: upgrade"])
def test_a_connection_that_ends_is_not_used_again(closes: bytes) -> None:
    """Whatever it says but that it is kept."""
    with opened(OK.replace(b"Server: a", closes), OK) as (exchange, server):
        assert put(exchange) is not None
        assert put(exchange) is None
        assert len(server.requests) == 2


def test_bytes_behind_an_answer_end_the_connection() -> None:
    """They would be taken for the next answer."""
    with opened(OK + OK, OK) as (exchange, _):
        assert put(exchange) is not None
        assert put(exchange) is None


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(b"", botocore.exceptions.ConnectionClosedError, id="closed"),
        pytest.param(b"stall", botocore.exceptions.ReadTimeoutError, id="silent"),
        pytest.param(b"nonsense\r\n\r\n", botocore.exceptions.ConnectionClosedError, id="no-http"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", botocore.exceptions.HTTPClientError, id="length"),
        pytest.param(b"a" * (HEAD_BYTES_MAX * 2), botocore.exceptions.HTTPClientError, id="endless"),
        pytest.param(
            OK.replace(b"Server: a", b"a: b\r\n" * HEAD_BYTES_MAX + b"a: b"),
            botocore.exceptions.HTTPClientError,
            id="too-long-a-head",
        ),
    ],
)
def test_failures_are_botocores(answer: bytes, kind: type[Exception]) -> None:
    """And the connection is not used again."""
    with opened(answer, OK) as (exchange, _):
        with pytest.raises(kind):
            put(exchange)
        assert put(exchange) is None


def test_an_answer_that_breaks_off() -> None:
    """It says less than it promised, whether the connection ends or not: what became of the request is not known."""
    with opened(OK[:-1]) as (exchange, _), pytest.raises(botocore.exceptions.HTTPClientError):
        put(exchange)
    with opened(OK[:-1], OK) as (exchange, _), pytest.raises(botocore.exceptions.HTTPClientError):
        put(exchange)


class Breaking:
    """urllib3's pool, its one connection and that one's socket: sending raises ``error``, and the answer is ``OK``."""

    def __init__(self, error: OSError) -> None:
        self.error = error
        self.sock = self
        self.limits: list[float] = []

    def _get_conn(self) -> Breaking:
        return self

    def _put_conn(self, connection: Breaking) -> None:
        """Kept."""

    def close(self) -> None:
        """Nothing to close."""

    def settimeout(self, seconds: float) -> None:
        """For what comes now."""
        self.limits.append(seconds)

    def sendall(self, data: bytes) -> None:
        """Fails."""
        raise self.error

    def recv(self, _size: int) -> bytes:
        """The answer."""
        return OK


def test_an_answer_before_the_whole_request_counts() -> None:
    """The store refuses a body, say, that it does not read. Sending and reading have a time limit each."""
    pool = Breaking(BrokenPipeError())
    answer = put(Exchange(pool, "http://store", send_s=5, read_s=0.5))
    assert answer is not None
    assert answer.status == 200
    assert pool.limits == [5, 0.5]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ssl.SSLError(1, "bad record"), botocore.exceptions.SSLError),
        (ConnectionResetError(), botocore.exceptions.ConnectionClosedError),
        (TimeoutError(), botocore.exceptions.ConnectionClosedError),
    ],
)
def test_sending_fails_as_with_botocore(error: OSError, kind: type[Exception]) -> None:
    """botocore tells a failure of TLS from any other."""
    with pytest.raises(kind) as caught:
        put(Exchange(Breaking(error), "http://store", send_s=5, read_s=0.5))
    assert caught.value.__cause__ is error
