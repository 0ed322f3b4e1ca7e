"""The HTTP shell as a process with a stub engine: what only sockets, signals and slow clients can show."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

pytestmark = pytest.mark.processes

STUB = Path(__file__).with_name("stub_gateway.py")
MEBIBYTE = 1024 * 1024


class StubProcess:
    """A running stub gateway."""

    def __init__(self, log_path: Path, *settings: str, drain_seconds: float = 0.0) -> None:
        self.log_path = log_path
        environment = os.environ | {"STUB_DRAIN_SECONDS": str(drain_seconds)}
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "error", str(STUB), *settings],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.log()
        self.port = int(self.url.rpartition(":")[2])

    def log(self) -> str:
        return self.log_path.read_text()

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connection_count(self) -> int:
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(connection.status != "LISTEN" for connection in found)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=20)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubProcess]:
    """One for the tests that leave nothing behind."""
    found = StubProcess(
        tmp_path_factory.mktemp("stub") / "log",
        *("--body-idle-ms", "1500", "--header-idle-ms", "1500", "--write-stall-ms", "1500"),
        *("--in-flight-bytes-max", str(20 * MEBIBYTE), "--connections-max", "50"),
    )
    yield found
    assert found.end() == 0, found.log()
    lines = [json.loads(line) for line in found.log().splitlines()]
    assert {line["event"] for line in lines if line["level"] == "error"} <= {"unforeseen error"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., StubProcess]]:
    """Start stubs of a test's own."""
    started: list[StubProcess] = []

    def begin(*settings: str, drain_seconds: float = 0.0) -> StubProcess:
        started.append(StubProcess(tmp_path / f"log{len(started)}", *settings, drain_seconds=drain_seconds))
        return started[-1]

    yield begin
    for one in started:
        one.end()


def everything(connection: socket.socket) -> bytes:
    """What comes until the other side ends."""
    received = bytearray()
    while chunk := connection.recv(65536):
        received += chunk
    return bytes(received)


def problem_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error_code"]


def eventually(condition: Callable[[], bool], seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


def metric(stub: StubProcess, name: str) -> float:
    lines = stub.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def in_flight(stub: StubProcess) -> float:
    """Requests under way, this one included."""
    return metric(stub, "tidelog_http_requests_in_flight")


def header_lines(count: int, size: int = 1) -> bytes:
    return b"".join(b"X-%d: %s\r\n" % (index, b"y" * size) for index in range(count))


CHUNKED = b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: h\r\n" + header_lines(10_000) + b"\r\n", id="10,000 headers"),
        pytest.param(
            b"GET /healthz HTTP/1.1\r\nHost: h\r\n" + header_lines(100, 1000) + b"\r\n", id="100 KB of headers"
        ),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 5_000_000 + b"\r\n\r\n", id="a 5 MB header"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", id="a long target"),
        pytest.param(b"GET /" + b"a" * 5_000_000, id="an endless target"),
        pytest.param(b"hello\r\n\r\n", id="no HTTP"),
        pytest.param(b"CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n", id="CONNECT"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(
            b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nno chunk", id="a bad chunk"
        ),
        pytest.param(
            b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="two lengths",
        ),
        pytest.param(CHUNKED + b"2;" + b"e" * 200_000 + b"\r\nhi\r\n0\r\n\r\n", id="a 200 KB chunk extension"),
        pytest.param(CHUNKED + b"2\r\nhi\r\n0\r\n" + header_lines(10_000), id="10,000 trailers"),
    ],
)
def test_what_is_no_proper_request_is_400(stub: StubProcess, request_bytes: bytes) -> None:
    """Malformed and oversized heads get a problem and the connection's end: no hang, no 5xx, no reset before the answer."""
    with stub.connect() as connection:
        connection.sendall(request_bytes)
        answer = everything(connection)
    assert problem_of(answer) == (400, "INVALID_REQUEST")
    assert b"x-request-id: " in answer
    assert stub.get("/healthz").status_code == 200


def test_an_endless_trailer_is_refused_for_its_length(stub: StubProcess) -> None:
    """It is counted as it comes, though it has no end and nothing is made of it."""
    with stub.connect() as connection:
        connection.sendall(CHUNKED + b"2\r\nhi\r\n0\r\nX: " + b"y" * 5_000_000)
        answer = everything(connection)
    assert problem_of(answer) == (400, "INVALID_REQUEST")
    assert b"extensions and trailers" in answer


def test_requests_sent_ahead_are_answered_in_order(stub: StubProcess) -> None:
    """Pipelining works, also when what follows is rubbish: the good ones are answered, then the connection ends."""
    one = b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n"
    with stub.connect() as connection:
        connection.sendall(one + b"a" + one + b"b" + one + b"c" + b"rubbish\r\n\r\n")
        answer = everything(connection)
    assert [part[-1:] for part in answer.split(b"HTTP/1.1 200 OK")[1:]] == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 2\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_request_that_offers_another_protocol_keeps_its_body(stub: StubProcess, framing: bytes, pieces: int) -> None:
    """Clients that would rather speak HTTP/2 say so with their first request, and its body arrives all the same."""
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
    head = b"POST /v1/echo HTTP/1.1\r\nHost: h\r\n"
    sent = head + offer + framing + head + b"Connection: close\r\nContent-Length: 2\r\n\r\nho"
    with stub.connect() as connection:
        for start in range(0, len(sent), size := -(-len(sent) // pieces)):
            connection.sendall(sent[start : start + size])
            time.sleep(0.02)
        answer = everything(connection)
    assert [part[-2:] for part in answer.split(b"HTTP/1.1 200 OK")[1:]] == [b"hi", b"ho"]


def test_a_body_announced_too_large_is_refused_at_once(stub: StubProcess) -> None:
    """413 comes before any of the gigabyte, and a client that waits for 100 Continue never sends it."""
    with stub.connect() as connection:
        connection.sendall(
            b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1073741824\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = connection.recv(65536)
        while b"limit_bytes" not in answer:
            answer += connection.recv(65536)
    assert b"100 Continue" not in answer
    assert problem_of(answer) == (413, "REQUEST_TOO_LARGE")
    assert b'"limit_bytes":16777216' in answer


@pytest.mark.parametrize("announced", [True, False])
def test_a_gigabyte_sent_all_the_same_costs_no_memory(stub: StubProcess, announced: bool) -> None:
    """A client that ignores the refusal and goes on sending can still read it; the gateway's memory stays flat."""
    before = stub.resident_bytes()
    highest = before
    length = b"Content-Length: 1073741824\r\n" if announced else b"Transfer-Encoding: chunked\r\n"
    piece = b"z" * MEBIBYTE if announced else b"100000\r\n" + b"z" * MEBIBYTE + b"\r\n"
    with stub.connect() as connection:
        connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\n" + length + b"\r\n")
        for _ in range(200):
            connection.sendall(piece)
            highest = max(highest, stub.resident_bytes())
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413 ")
    assert highest - before < 48 * MEBIBYTE
    assert stub.get("/healthz").status_code == 200


def test_bodies_past_the_budget_are_overloaded_and_freed(stub: StubProcess) -> None:
    """Slow clients hold what they sent; when that is all there is, others get 503 until it is given back."""
    holders = []
    for _ in range(2):
        holder = stub.connect()
        holder.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 12582912\r\n\r\n" + b"z" * (9 * MEBIBYTE))
        holders.append(holder)
    assert eventually(lambda: metric(stub, "tidelog_request_memory_bytes") == 18 * MEBIBYTE, 1.0)
    answer = httpx.post(stub.url + "/v1/echo", content=b"z" * (4 * MEBIBYTE), timeout=20)
    assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
    assert answer.headers["retry-after"] == "1"
    for holder in holders:
        holder.close()
    assert eventually(lambda: metric(stub, "tidelog_request_memory_bytes") == 0)
    assert httpx.post(stub.url + "/v1/echo", content=b"z" * (4 * MEBIBYTE), timeout=20).status_code == 200


def test_a_body_that_stops_coming_is_refused(stub: StubProcess) -> None:
    """Half a body and silence: 400 after the limit, not a connection for ever."""
    with stub.connect() as connection:
        connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert problem_of(everything(connection)) == (400, "INVALID_REQUEST")


@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
def test_a_body_in_drops_is_refused(stub: StubProcess, framing: bytes) -> None:
    """A body that never pauses for long and never ends holds its place no longer than one that stops."""
    piece = b"y" if framing.startswith(b"Content") else b"1\r\ny\r\n"
    with stub.connect() as connection:
        connection.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\n" + framing + b"\r\n\r\n")
        connection.settimeout(0.2)
        answer = b""
        for _ in range(60):
            connection.sendall(piece)
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
    assert problem_of(answer) == (400, "INVALID_REQUEST")
    assert b"bytes a second" in answer


@pytest.mark.parametrize("body_bytes", [1, 100])
def test_chunks_however_small_are_a_body(stub: StubProcess, body_bytes: int) -> None:
    """The bound on framing does not meet those who send in small chunks."""
    chunks = (b"%x\r\n" % body_bytes + b"z" * body_bytes + b"\r\n") * 100_000
    with stub.connect() as connection:
        connection.sendall(CHUNKED.replace(b"Host: h", b"Host: h\r\nConnection: close") + chunks + b"0\r\nX: y\r\n\r\n")
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.count(b"z") >= 100_000 * body_bytes


def test_an_empty_line_keeps_no_connection(stub: StubProcess) -> None:
    """After an answer a connection is idle until a request comes; a line break is none."""
    with stub.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(b"\r\n")
        assert everything(connection) == b""


def test_half_a_request_behind_another_one_ends_after_its_answer(stub: StubProcess) -> None:
    """The time for a head does not run out on the answer that the client waits for."""
    with stub.connect() as waiting:
        waiting.sendall(b"GET /v1/large?size=67108864 HTTP/1.1\r\nHost: h\r\n\r\nGET /healthz HT")
        received = 0
        while chunk := waiting.recv(1024 * 1024):
            received += len(chunk)
            if received < 4 * MEBIBYTE:
                time.sleep(0.7)
    assert received > 64 * MEBIBYTE


def test_silent_connections_are_closed(stub: StubProcess) -> None:
    """Neither saying nothing nor half a head keeps a connection."""
    with stub.connect() as silent, stub.connect() as halfway:
        halfway.sendall(b"GET /healthz HTTP/1.1\r\nHos")
        assert (everything(silent), everything(halfway)) == (b"", b"")


def test_a_head_in_drops_is_closed(stub: StubProcess) -> None:
    """A header that comes a byte at a time is given the same time as one that does not come."""
    with stub.connect() as connection, contextlib.suppress(ConnectionError):
        for byte in b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 20:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)
        pytest.fail("the connection was kept")


def test_a_client_that_never_reads_is_cut_off(stub: StubProcess) -> None:
    """An answer that nobody takes does not hold its memory for ever; others are served meanwhile."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect(("127.0.0.1", stub.port))
    with connection:
        connection.sendall(b"GET /v1/large?size=67108864 HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: in_flight(stub) == 2, 5)
        assert stub.get("/healthz").status_code == 200
        assert eventually(lambda: in_flight(stub) == 1)
    assert "does not read its answer" in stub.log()


def test_a_slow_reader_gets_everything(stub: StubProcess) -> None:
    """Who reads slowly but steadily is not cut off, and gets every byte."""
    size = 12 * MEBIBYTE
    with stub.connect() as connection:
        connection.sendall(b"GET /v1/large?size=%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n" % size)
        received = 0
        while chunk := connection.recv(1024 * 1024):
            received += len(chunk)
            time.sleep(0.02)
    assert received > size


def test_a_poll_ends_with_its_client(stub: StubProcess) -> None:
    """A client that leaves its long poll leaves no waiting task."""
    with stub.connect() as connection:
        connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.get("/v1/waiting").json()["waiting"] == 1)
    assert eventually(lambda: stub.get("/v1/waiting").json()["waiting"] == 0)


def test_connections_past_the_limit_are_told(stub: StubProcess) -> None:
    """The 51st connection gets 503 OVERLOADED; when others end, new ones are served."""
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            connection = stack.enter_context(stub.connect())
            connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.connection_count() >= 50)
        answer = stub.get("/healthz")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
        assert answer.headers["retry-after"] == "1"
    assert eventually(lambda: stub.get("/healthz").status_code == 200)


def test_an_address_has_its_share_of_connections(start: Callable[..., StubProcess]) -> None:
    """One client's connections leave room for others'; those past its share are told, and served when it has ended some."""
    stub = start("--connections-per-address-max", "5")
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(stub.connect())
            connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.connection_count() >= 5)
        answer = stub.get("/healthz")
        assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
        assert "from this address" in answer.json()["detail"]
        for _ in range(50):
            stack.enter_context(stub.connect())
        assert eventually(lambda: 5 <= stub.connection_count() <= 5 + 32)
    assert eventually(lambda: stub.get("/healthz").status_code == 200)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_answers_survive_compression_on_the_wire(stub: StubProcess, encoding: str) -> None:
    """A large compressed answer, sliced for pacing, is whole; event streams are not compressed."""
    answer = stub.get("/v1/large?size=3000001", **{"Accept-Encoding": encoding})
    assert answer.headers["content-encoding"] == encoding
    assert answer.content == b"x" * 3000001
    with httpx.stream("GET", stub.url + "/v1/stream", headers={"accept-encoding": encoding}, timeout=20) as stream:
        assert next(stream.iter_raw()).startswith(b"event: record\ndata: {}\n\n")


def test_every_request_is_one_line_of_the_log(stub: StubProcess) -> None:
    """Id, route template, status, duration and bytes of a request are in the log; an unforeseen error's traceback, too."""
    httpx.post(stub.url + "/v1/echo", content=b"12345", headers={"x-request-id": "line-1"})
    assert stub.get("/v1/fail", **{"x-request-id": "line-2"}).status_code == 500

    def lines(name: str) -> list[dict[str, object]]:
        found = [json.loads(line) for line in stub.log().splitlines()]
        return [line for line in found if line.get("request_id") == name]

    assert eventually(lambda: bool(lines("line-1")) and len(lines("line-2")) == 2)
    (line,) = lines("line-1")
    assert (line["route"], line["status"], line["received_bytes"], line["sent_bytes"]) == ("/v1/echo", 200, 5, 5)
    assert isinstance(line["duration_ms"], float)
    assert any("ZeroDivisionError" in str(line.get("exception")) for line in lines("line-2"))


def test_readiness_returns_with_the_store(start: Callable[..., StubProcess]) -> None:
    """The store goes and comes back: readiness follows without a restart."""
    stub = start()
    assert stub.get("/readyz").status_code == 200
    httpx.post(stub.url + "/v1/store/down")
    assert eventually(lambda: stub.get("/readyz").status_code == 503)
    httpx.post(stub.url + "/v1/store/up")
    assert eventually(lambda: stub.get("/readyz").status_code == 200)


def test_sigterm_drains_in_order(start: Callable[..., StubProcess]) -> None:
    """Readiness fails and new work is refused while the socket listens; waits and streams end with answers; exit status 0."""
    stub = start("--drain-notice-ms", "700", drain_seconds=0.7)
    answers: dict[str, str] = {}

    def ask(path: str) -> None:
        answers[path] = stub.get(path).text

    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/v1/wait", "/v1/stream")]
    for thread in threads:
        thread.start()
    assert eventually(lambda: in_flight(stub) == 3)
    stub.process.send_signal(signal.SIGTERM)
    assert eventually(lambda: stub.get("/readyz").status_code == 503, 2)
    refusal = httpx.post(stub.url + "/v1/echo", content=b"x")
    assert (refusal.status_code, refusal.json()["error_code"]) == (503, "DRAINING")
    assert int(refusal.headers["retry-after"]) > 0
    assert stub.get("/healthz").status_code == 200
    for thread in threads:
        thread.join(10)
    assert json.loads(answers["/v1/wait"]) == {"waited": True}
    assert answers["/v1/stream"].endswith("event: end\ndata: draining\n\n")
    assert stub.process.wait(10) == 0, stub.log()


def test_a_drain_that_takes_too_long_ends_all_the_same(start: Callable[..., StubProcess]) -> None:
    """After its time the process ends with a status that says that something was left."""
    stub = start("--drain-timeout-ms", "300", drain_seconds=30)
    stub.process.send_signal(signal.SIGTERM)
    assert stub.process.wait(10) == 1
    assert "draining took longer" in stub.log()


def test_a_second_signal_ends_the_process_at_once(start: Callable[..., StubProcess]) -> None:
    """Whoever insists does not wait for the drain."""
    stub = start(drain_seconds=30)
    stub.process.send_signal(signal.SIGINT)
    assert eventually(lambda: stub.get("/readyz").status_code == 503, 3)
    stub.process.send_signal(signal.SIGINT)
    assert stub.process.wait(3) == 1


def test_a_port_in_use_is_said_and_fails(start: Callable[..., StubProcess]) -> None:
    """The second server on a port ends with a status and a reason, and the first goes on."""
    stub = start()
    command = [sys.executable, str(STUB), "--port", str(stub.port)]
    second = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert second.returncode == 3
    assert b"address already in use" in second.stderr
    assert stub.get("/healthz").status_code == 200


def test_an_operations_port_in_use_is_said_and_fails(start: Callable[..., StubProcess]) -> None:
    """A gateway that its operators could not see does not start, and names the setting."""
    stub = start()
    command = [sys.executable, str(STUB), "--ops-port", str(stub.port)]
    second = subprocess.run(command, capture_output=True, timeout=30, check=False)
    assert second.returncode == 3
    assert b"ops_port" in second.stderr
    assert b"address already in use" in second.stderr
