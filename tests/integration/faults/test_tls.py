"""A gateway that speaks TLS does all that one of plain HTTP does, and what does not speak TLS holds nothing of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.certificate_authority import Authority
from tests.support.command_runs import runner
from tests.support.gateway_process import GatewayProcess, StartGateway
from tests.support.history_readers import COUNT, NO_TAIL, TYPES, answered, fetched, fill, wait_for_readers
from tests.support.waiting import eventually
from tidelog import Admin, Consumer, Producer
from tidelog.errors import GatewayError, GatewayUnreachable

ENTRY_POINT = Path(__file__).parents[3] / "infra/docker/gateway-entrypoint.sh"
HEAD_MS = 3_000
TOO_LARGE_BYTES = 17 * 1024 * 1024
LARGE_BYTES = 20_000_000


@pytest.fixture
def start_secure(authority: Authority, start_gateway: StartGateway) -> Callable[..., Any]:
    """Start gateways that speak TLS."""

    def begin(store: str, *settings: str, pair: tuple[str, str] | None = None, **more: Any) -> Any:
        cert, key = pair or authority.issue()
        tls = ("--tls-cert", cert, "--tls-key", key, "--ops-port", "0", "--head-ms", str(HEAD_MS))
        return start_gateway(store, *tls, *settings, trust=authority.trust(), **more)

    return begin


@pytest.fixture
def secure(authority: Authority) -> Callable[[Any], ssl.SSLSocket]:
    """A TLS connection to a gateway."""

    def connect(gateway: GatewayProcess) -> ssl.SSLSocket:
        tcp = socket.create_connection(("127.0.0.1", gateway.port), timeout=30)
        trust: ssl.SSLContext = authority.trust()
        return trust.wrap_socket(tcp, server_hostname="127.0.0.1", suppress_ragged_eofs=False)

    return connect


def _all_of(connection: socket.socket) -> bytes:
    """What comes until the connection ends, in whichever way."""
    received = bytearray()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while piece := connection.recv(65536):
            received += piece
    return bytes(received)


def test_records_polls_and_streams(start_secure: StartGateway, secure: Callable[..., ssl.SSLSocket]) -> None:
    """Produce, fetch, a long poll that a record ends and an event stream work over TLS; the operations listener is plain,
    and SIGTERM ends a gateway with open connections of every kind in its time.
    """
    gateway = start_secure("memory://tls")
    gateway.topic("log")
    large = "x" * 900_000
    assert gateway.produce("log", large, large, large).status_code == 200
    assert gateway.read("log") == [(offset, large) for offset in range(3)]
    assert httpx.get(f"{gateway.operations_url}/readyz").status_code == 200
    path = "/v1/topics/log/partitions/0/records?offset=3"
    with secure(gateway) as poll, secure(gateway) as stream, secure(gateway) as idle:
        poll.sendall(f"GET {path}&max_wait_ms=20000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode())
        assert gateway.produce("log", "b").status_code == 200
        assert poll.recv(65536).startswith(b"HTTP/1.1 200 ")
        received = b""
        while b'"value":"b"' not in received:
            received += stream.recv(65536)
        assert b"text/event-stream" in received
        raw = gateway.connect()
        begun = time.monotonic()
        assert gateway.end() == 0, gateway.log()
        assert time.monotonic() - begun < 15
        assert _all_of(idle) == b""
        raw.close()
    assert "error" not in gateway.log()


def test_the_sdk_trusts_whom_it_is_told_to(
    start_secure: StartGateway, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the authority's file, as an argument or in the environment, a client works; without it nothing is sent, and the
    error says what to do.
    """
    gateway = start_secure("memory://tls")
    with Admin(gateway.url, ca_file=authority.ca_file) as admin:
        admin.create_topic("log")
    with (
        pytest.raises(GatewayUnreachable, match=r"certificate is not trusted.*TIDELOG_CA_FILE"),
        Admin(gateway.url, timeout_ms=1_000) as admin,
    ):
        admin.list_topics()
    plain = gateway.url.replace("https://", "http://")
    with pytest.raises(GatewayError, match=r"TLS.* https://"), Admin(plain, timeout_ms=1_000) as admin:
        admin.list_topics()
    with pytest.raises(ValueError, match="ca_file"):
        Admin(gateway.url, ca_file=str(tmp_path / "absent"))
    monkeypatch.setenv("TIDELOG_CA_FILE", authority.ca_file)
    with Producer(gateway.url) as producer:
        producer.send("log", "a").result()
    with Consumer("log", bootstrap_servers=gateway.url, consumer_timeout_ms=5_000) as consumer:
        assert next(iter(consumer)).value == b"a"


def test_the_command_line_trusts_whom_it_is_told_to(start_secure: StartGateway, authority: Authority) -> None:
    """``--ca-file`` is for that command only; without it the error comes at once, and says what to type."""
    gateway = start_secure("memory://tls")
    run = runner(gateway.url)
    assert run("topic", "create", "log", "--ca-file", authority.ca_file).exit_code == 0
    begun = time.monotonic()
    refused = run("topic", "list")
    assert time.monotonic() - begun < 5
    assert refused.exit_code == 3
    assert "certificate is not trusted" in refused.stderr
    assert "--ca-file" in refused.stderr
    assert "Is a gateway running" not in refused.stderr
    plain = run("topic", "list", "--url", gateway.url.replace("https://", "http://"))
    assert "TLS" in plain.stderr
    assert "https://" in plain.stderr
    absent = run("topic", "list", "--ca-file", "absent.pem")
    assert absent.exit_code == 2
    assert "absent.pem" in absent.stderr


def test_gateways_pass_requests_on_over_tls(start_secure: StartGateway, authority: Authority, tmp_path: Path) -> None:
    """Two gateways that share a certificate, for a name and not for their addresses, forward to each other by that name."""
    shared = authority.issue("DNS:tidelog.internal,DNS:localhost")
    settings = ("--tls-ca", authority.ca_file, "--tls-peer-name", "tidelog.internal", "--heartbeat-ms", "200")
    gateways = [start_secure(tmp_path.as_uri(), *settings, pair=shared) for _ in range(2)]
    with httpx.Client(base_url=f"https://localhost:{gateways[0].port}", verify=authority.trust()) as http:
        gateways[0].http = http
        assert eventually(lambda: len(http.get("/v1/cluster").json()["gateways"]) == 2)
        for number in range(8):
            gateways[0].topic(f"log{number}")
            assert gateways[0].produce(f"log{number}", "a" * 100_000).status_code == 200
    counted = httpx.get(f"{gateways[0].operations_url}/metrics").text
    assert 'tidelog_forwarded_requests_total{outcome="answered"}' in counted
    assert 'tidelog_forwarded_requests_total{outcome="unreachable"}' not in counted


def test_a_changed_certificate_is_shown_to_new_connections(
    start_secure: StartGateway, authority: Authority, secure: Callable[..., ssl.SSLSocket], tmp_path: Path,
) -> None:  # fmt: skip
    """Open connections go on, new ones see the new certificate; a pair that is none changes nothing and is logged once."""
    pair = (str(tmp_path / "cert"), str(tmp_path / "key"))

    def install(source: tuple[str, str]) -> None:
        for path, new in zip(pair, source, strict=True):
            shutil.copy(new, path + ".new")
            Path(path + ".new").replace(path)

    def serial() -> Any:
        with secure(gateway) as connection:
            return (connection.getpeercert() or {})["serialNumber"]

    install(authority.issue())
    gateway = start_secure("memory://tls", pair=pair)

    def is_served(connection: ssl.SSLSocket) -> bool:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        received = bytearray()
        while b"alive" not in received:
            received += connection.recv(65536) or pytest.fail("the connection ended")
        return received.startswith(b"HTTP/1.1 200 ")

    with secure(gateway) as old:
        assert is_served(old)
        first = serial()
        install(authority.issue())
        assert eventually(lambda: serial() != first)
        second = serial()
        Path(pair[1]).write_text("none")
        assert eventually(lambda: "is not used" in gateway.log())
        time.sleep(3)
        assert gateway.log().count("is not used") == 1
        assert serial() == second
        assert is_served(old)


@pytest.mark.parametrize("framing", [f"Content-Length: {TOO_LARGE_BYTES}", "Transfer-Encoding: chunked"])
def test_a_refusal_reaches_a_client_that_still_sends(
    start_secure: StartGateway, secure: Callable[..., ssl.SSLSocket], framing: str
) -> None:
    """413 before the body was read: a client that sends all of it first still gets the answer, whole."""
    gateway = start_secure("memory://tls", "--request-bytes-max", str(1024 * 1024))
    gateway.topic("log")
    head = f"POST /v1/topics/log/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
    body = b"x" * TOO_LARGE_BYTES
    if "chunked" in framing:
        body = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
    with secure(gateway) as connection:
        connection.sendall(head.encode())
        for start_at in range(0, len(body), 1 << 20):
            connection.sendall(body[start_at : start_at + (1 << 20)])
            time.sleep(0.1)
        received = connection.recv(65536)
        while b'"request_id"' not in received:
            received += connection.recv(65536)
    assert received.startswith(b"HTTP/1.1 413 ")
    assert received.count(b"connection: close") == 1


def test_what_is_no_tls_ends(start_secure: StartGateway) -> None:
    """A client of plain HTTP, garbage, an old version and a client that goes half-way through: each connection ends, no
    line of the log calls it an error, and the gateway serves on.
    """
    gateway = start_secure("memory://tls")
    for said in (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", b"\0" * 5_000, b"\x16\x03\x01"):
        with gateway.connect() as connection:
            connection.sendall(said)
            if len(said) < 10:
                connection.shutdown(socket.SHUT_WR)
            assert b"HTTP" not in _all_of(connection)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with gateway.connect() as connection, pytest.raises((ssl.SSLError, ConnectionError)):
        old.wrap_socket(connection)
    assert gateway.http.get("/healthz").status_code == 200
    assert gateway.log() == ""


def _connections(gateway: GatewayProcess) -> float:
    text = httpx.get(f"{gateway.operations_url}/metrics").text
    (line,) = [line for line in text.splitlines() if line.startswith("tidelog_http_connections ")]
    return float(line.split()[1])


def test_connections_that_never_shake_hands(start_secure: StartGateway) -> None:
    """A thousand of them are counted from the start, leave the probes alone, and are gone when their time is over; past
    twice ``connections_max`` more are cut at once.
    """
    gateway = start_secure("memory://tls", "--connections-max", "100")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(gateway.connect()) for _ in range(1_000)]
        for connection in held[::2]:
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.send(b"\x16\x03\x01\x02\x00\x01")
        begun = time.monotonic()
        assert httpx.get(f"{gateway.operations_url}/healthz").status_code == 200
        assert time.monotonic() - begun < 15
        assert eventually(lambda: 100 <= _connections(gateway) <= 200)
        assert eventually(lambda: _connections(gateway) == 0)
    assert gateway.http.get("/healthz").status_code == 200


def test_answers_that_are_not_read(start: Callable[..., Any], authority: Authority, secure: Callable[..., Any]) -> None:
    """A client that takes nothing of its answer is cut after ``write_stall_ms``; one that reads slowly gets all of it, even
    where the connection ends with the answer.
    """
    cert, key = authority.issue()
    gateway = start("--write-stall-ms", "2000", "--tls-cert", cert, "--tls-key", key)
    ask = f"GET /v1/large?size={LARGE_BYTES} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    with secure(gateway) as stuck, secure(gateway) as slow:
        stuck.sendall(ask + b"\r\n")
        slow.sendall(ask + b"Connection: close\r\n\r\n")
        received = 0
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            while piece := slow.recv(65536):
                received += len(piece)
                time.sleep(0.003)
        assert received > LARGE_BYTES
        assert len(_all_of(stuck)) < LARGE_BYTES
    assert eventually(lambda: "does not read its answer" in gateway.log(), 5)
    assert gateway.log().count("does not read its answer") == 1


def test_old_records_by_a_reader_go_through_the_gateway(start_secure: StartGateway, tmp_path: Path) -> None:
    """The reader has no part in the encryption, so it does not get the client's socket."""
    gateway = start_secure(str(tmp_path / "store"), *NO_TAIL)
    fill(gateway)
    wait_for_readers(gateway)
    before = answered(gateway)
    records = fetched(gateway, TYPES[0], None, offset=0, max_records=COUNT, max_bytes=3_000_000).json()["records"]
    assert answered(gateway) == before + 1
    assert [record["offset"] for record in records] == list(range(len(records)))
    assert len(records) > 1_000


def test_the_image_takes_its_certificate_from_a_variable(authority: Authority, tmp_path: Path) -> None:
    """Where files can't be mounted: the entry point makes them, the gateway says https, and trusts what it shows itself."""
    cert, key = authority.issue()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDELOG_")}
    environment |= {"GATEWAY_TLS_PEM": Path(cert).read_text() + Path(key).read_text(), "TIDELOG_PORT": "0"}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "TMPDIR": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", ENTRY_POINT, "--store", "memory://x"], env=environment, stdout=subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline().decode()
        assert " listens on https://127.0.0.1:" in line, (tmp_path / "log").read_text()
        answer = httpx.get(line.split(" listens on ")[1].split()[0] + "/v1/cluster", verify=authority.trust())
        process.terminate()
        assert process.wait(60) == 0
    assert answer.json()["gateways"][0]["url"].startswith("https://")
