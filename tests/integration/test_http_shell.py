"""The HTTP shell as a process with a stub engine: what only sockets, signals and slow clients can show."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable

import httpx
import pytest

from tests.support.forked import STUB, ended
from tests.support.http_shell import everything, in_flight, metric, problem_of
from tests.support.stub_process import StubProcess
from tests.support.waiting import eventually

MEBIBYTE = 1024 * 1024


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


def test_bodies_past_the_budget_are_overloaded_and_freed(start: Callable[..., StubProcess]) -> None:
    """Slow clients hold what they sent; when that is all there is, others get 503 until it is given back."""
    stub = start("--in-flight-bytes-max", str(20 * MEBIBYTE), "--body-idle-ms", "30000")
    holders = []
    for _ in range(2):
        holder = stub.connect()
        holder.sendall(b"POST /v1/echo HTTP/1.1\r\nHost: h\r\nContent-Length: 12582912\r\n\r\n" + b"z" * (9 * MEBIBYTE))
        holders.append(holder)
    assert eventually(lambda: metric(stub, "tidelog_request_memory_bytes") == 18 * MEBIBYTE)
    answer = httpx.post(stub.url + "/v1/echo", content=b"z" * (4 * MEBIBYTE), timeout=20)
    assert (answer.status_code, answer.json()["error_code"]) == (503, "OVERLOADED")
    assert answer.headers["retry-after"] == "1"
    for holder in holders:
        holder.close()
    assert eventually(lambda: metric(stub, "tidelog_request_memory_bytes") == 0)
    assert httpx.post(stub.url + "/v1/echo", content=b"z" * (4 * MEBIBYTE), timeout=20).status_code == 200


def test_a_poll_ends_with_its_client(stub: StubProcess) -> None:
    """A client that leaves its long poll leaves no waiting task."""
    with stub.connect() as connection:
        connection.sendall(b"GET /v1/wait HTTP/1.1\r\nHost: h\r\n\r\n")
        assert eventually(lambda: stub.get("/v1/waiting").json()["waiting"] == 1)
    assert eventually(lambda: stub.get("/v1/waiting").json()["waiting"] == 0)


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


def test_requests_that_succeed_are_no_lines_where_only_failures_are(start: Callable[..., StubProcess]) -> None:
    """``--log-requests failures``: the log has the request that failed behind one that did not."""
    stub = start("--log-requests", "failures")
    httpx.post(stub.url + "/v1/echo", content=b"12345", headers={"x-request-id": "done"})
    assert stub.get("/v1/nowhere", **{"x-request-id": "failed"}).status_code == 404

    def ids() -> list[object]:
        return [json.loads(line).get("request_id") for line in stub.log().splitlines()]

    assert eventually(lambda: "failed" in ids())
    assert "done" not in ids()


def test_readiness_returns_with_the_store(start: Callable[..., StubProcess]) -> None:
    """The store goes and comes back: readiness follows without a restart."""
    stub = start()
    assert stub.get("/readyz").status_code == 200
    httpx.post(stub.url + "/v1/store/down")
    assert eventually(lambda: stub.get("/readyz").status_code == 503)
    httpx.post(stub.url + "/v1/store/up")
    assert eventually(lambda: stub.get("/readyz").status_code == 200)


def test_who_is_refused_by_a_gateway_that_ends_connects_anew(start: Callable[..., StubProcess]) -> None:
    """Its answers end their connections, and ask for no longer wait than others: behind one address the next connection leads to
    another gateway, while this one would refuse for its whole notice."""
    stub = start("--drain-notice-ms", "5000", drain_seconds=0.5)
    with httpx.Client() as client:
        assert client.get(stub.url + "/readyz").headers.get("connection") != "close"
        stub.process.send_signal(signal.SIGTERM)
        assert eventually(lambda: stub.get("/readyz").status_code == 503, 2)
        refusal = client.post(stub.url + "/v1/echo", content=b"x")
    assert (refusal.status_code, refusal.json()["error_code"]) == (503, "DRAINING")
    assert refusal.headers["connection"] == "close"
    assert refusal.headers["retry-after"] == "1"


def test_sigterm_drains_in_order(start: Callable[..., StubProcess]) -> None:
    """Readiness fails and new work is refused while the socket listens; waits and streams end with answers; exit status 0."""
    stub = start("--drain-notice-ms", "2500", drain_seconds=0.5)
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
    """An operator that insists does not wait for the drain."""
    stub = start(drain_seconds=30)
    stub.process.send_signal(signal.SIGINT)
    assert eventually(lambda: stub.get("/readyz").status_code == 503)
    stub.process.send_signal(signal.SIGINT)
    assert stub.process.wait(20) == 1


def test_a_port_in_use_is_said_and_fails(start: Callable[..., StubProcess]) -> None:
    """The second server on a port ends with a status, a reason and what to do, and the first goes on."""
    stub = start()
    status, errors = ended([*STUB, "--port", str(stub.port)], os.environ)
    assert status == 3
    assert "address already in use" in errors
    assert "--port names another" in errors
    assert stub.get("/healthz").status_code == 200


def test_an_operations_port_in_use_is_said_and_fails(start: Callable[..., StubProcess]) -> None:
    """A gateway that its operators could not see does not start, and names the setting."""
    stub = start()
    status, errors = ended([*STUB, "--ops-port", str(stub.port)], os.environ)
    assert status == 3
    assert "--ops-port" in errors
    assert "address already in use" in errors
