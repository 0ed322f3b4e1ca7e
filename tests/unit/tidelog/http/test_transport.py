"""Unit tests of ``tidelog.http``: ``transport``, ``connection``, ``endpoints`` and ``problem``, over the in-process gateway."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from log_format.errors import ANSWERS, ErrorCode
from tests.support.fake_gateway import FakeGateway
from tidelog import Admin
from tidelog.deadline import Deadline
from tidelog.errors import (
    CLASSES,
    BackOff,
    ClientClosed,
    GatewayUnreachable,
    OutcomeUnknown,
    RequestRefused,
    UnexpectedAnswer,
)
from tidelog.http.answer import AnswerLost, NeverSent
from tidelog.http.connection import Address
from tidelog.http.endpoints import Endpoints
from tidelog.http.problem import error_from_answer, error_from_problem
from tidelog.http.transport import Request, Transport, target

READ = Request(method="GET", target="/v1/cluster", repeatable=True, reads=True)
WRITE = Request(
    method="POST", target="/v1/topics/t/records", body=b"{}", content_type="application/json", repeatable=False
)
REPEATABLE = Request(
    method="PATCH", target="/v1/topics/t", body=b"{}", content_type="application/json", repeatable=True
)


@pytest.fixture
def transport(gateway: FakeGateway) -> Iterator[Transport]:
    made = Transport(gateway.url, request_timeout_ms=500)
    yield made
    made.close()


def test_connections_are_kept_and_idle_ones_are_not_trusted(
    gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection serves many requests in a row; one that was idle for long is replaced: the server may be closing it."""
    opened: list[Address] = []
    connect = Address._connect

    def noted(self: Address, deadline: Any) -> Any:
        opened.append(self)
        return connect(self, deadline)

    monkeypatch.setattr(Address, "_connect", noted)
    transport = Transport(gateway.url)
    for _ in range(5):
        transport.call(READ, Deadline(1_000))
    assert len(opened) == 1
    transport.close()
    address = Address(gateway.url, idle_ms_max=20)
    for count in (2, 3):
        address.exchange("GET", READ.target, body=None, headers={}, timeout_ms=1_000)
        assert len(opened) == count
        time.sleep(0.05)
    address.close()


def test_a_connection_with_something_left_on_it_is_not_used_again(gateway: FakeGateway) -> None:
    """A server that lies about an answer's length spoils that answer, and none after it."""
    gateway.misbehave("cluster", lambda exchange: exchange.answer(200, b'{"a": 1}{"b": 2}', {}, length=8))
    transport = Transport(gateway.url)
    assert transport.call(READ, Deadline(1_000)).body == b'{"a": 1}'
    assert b"gateways" in transport.call(READ, Deadline(1_000)).body
    assert gateway.count("cluster") == 2
    transport.close()


@pytest.mark.parametrize("request_", [READ, WRITE, REPEATABLE], ids=["read", "write", "repeatable"])
def test_what_is_tried_again(gateway: FakeGateway, transport: Transport, request_: Request) -> None:
    """The contract's table: refusals that say so always; lost answers and doubts only where repeating does no harm."""
    gateway.create("t")
    where = request_.target.replace("/v1/", "")
    for refusal in (gateway.refuse(503, "DRAINING"), gateway.refuse(429, "THROTTLED", retry_after=0)):
        gateway.misbehave(where, refusal)
        if request_ is WRITE:
            gateway.misbehave(where, gateway.answer(200, b"{}"))
        assert transport.call(request_, Deadline(5_000)).status == 200
    for doubt in (gateway.lose(done=False), gateway.refuse(500, "INTERNAL"), gateway.stall(0.7)):
        before = gateway.count(where)
        gateway.misbehave(where, doubt)
        if request_.repeatable:
            reply = transport.call(request_, Deadline(5_000))
            assert reply.repeated == (not request_.reads)
            assert gateway.count(where) == before + 2
        else:
            with pytest.raises((OutcomeUnknown, CLASSES[ErrorCode.INTERNAL])) as caught:
                transport.call(request_, Deadline(5_000))
            assert caught.value.may_have_happened
            assert gateway.count(where) == before + 1
    gateway.misbehave(where, gateway.refuse(400, "INVALID_REQUEST"))
    with pytest.raises(RequestRefused):
        transport.call(request_, Deadline(5_000))


def test_a_doubt_is_not_forgotten_when_later_tries_are_refused(gateway: FakeGateway, transport: Transport) -> None:
    """A change whose first answer was lost may have happened, whatever the tries after it say."""
    gateway.create("t")
    gateway.misbehave("PATCH", gateway.lose(done=True), *[gateway.refuse(503, "UNAVAILABLE")] * 50)
    with pytest.raises(OutcomeUnknown) as caught:
        transport.call(REPEATABLE, Deadline(600))
    assert caught.value.may_have_happened


def test_time_outs_hold_when_bytes_trickle_or_nothing_comes() -> None:
    """A server that accepts and is silent, or sends a byte now and then, is left when the time is over."""
    stopping = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while not stopping.wait(0.02):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        thread = threading.Thread(target=trickle)
        thread.start()
        address = Address(f"http://127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        with pytest.raises(AnswerLost, match="in time"):
            address.exchange("GET", "/", body=None, headers={}, timeout_ms=300)
        assert 0.25 < time.monotonic() - began < 5
        stopping.set()
        thread.join()
        with pytest.raises(AnswerLost, match="in time"):
            address.exchange("GET", "/", body=None, headers={}, timeout_ms=200)
        address.close()


def test_an_early_refusal_of_a_large_body_is_read() -> None:
    """A server may refuse and close before it has read everything: its answer counts, not the broken connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1_000)
                connection.sendall(b"HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 20):
                    pass

        thread = threading.Thread(target=refuse)
        thread.start()
        address = Address(f"http://127.0.0.1:{server.getsockname()[1]}")
        answer = address.exchange("POST", "/", body=bytes(8 << 20), headers={}, timeout_ms=5_000)
        assert answer.status == 413
        address.close()
        thread.join()


def test_abort_ends_what_is_under_way(gateway: FakeGateway) -> None:
    """Closing does not wait for a silent gateway."""
    gateway.misbehave("cluster", gateway.stall(6))
    transport = Transport(gateway.url)
    timer = threading.Timer(0.2, lambda: transport.close(abort=True))
    timer.start()
    began = time.monotonic()
    with pytest.raises(ClientClosed):
        transport.call(READ, Deadline(10_000))
    assert time.monotonic() - began < 5
    timer.join()


def test_dead_addresses_are_passed_over(gateway: FakeGateway, dead_url: str) -> None:
    """Any address may be dead; the one that answers is kept to, so that the dead cost nothing after the first time."""
    transport = Transport([dead_url, gateway.url, dead_url + "/prefix"])
    began = time.monotonic()
    for _ in range(20):
        transport.call(READ, Deadline(5_000))
    assert time.monotonic() - began < 5
    transport.close()
    dead = Transport(dead_url)
    began = time.monotonic()
    with pytest.raises(GatewayUnreachable, match="Connection refused") as caught:
        dead.call(WRITE, Deadline(400))
    assert 0.1 < time.monotonic() - began < 5
    assert (caught.value.retryable, caught.value.may_have_happened) == (True, False)
    dead.close()


def test_addresses_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL, several with commas, a list, without a scheme, from the environment; what is none is refused by name."""
    assert Endpoints("localhost:1, http://b:2/x/").urls == ("http://localhost:1", "http://b:2/x")
    assert Endpoints(["http://a", "https://[::1]:8443", "http://a"]).urls == ("http://a", "https://[::1]:8443")
    monkeypatch.setenv("TIDELOG_URL", "http://env:9")
    assert Endpoints(None).urls == ("http://env:9",)
    monkeypatch.delenv("TIDELOG_URL")
    assert Endpoints(None).urls == ("http://127.0.0.1:8080",)
    addresses: tuple[str | list[str], ...] = ("", "ftp://a", "http://", "http://user:secret@a", "http://a?x=1", [])
    for wrong in addresses:
        with pytest.raises(ValueError, match=r"address|URL"):
            Endpoints(wrong)


def test_names_are_encoded() -> None:
    """Nothing in a name can change which path is asked for."""
    assert target("topics", "a/b?c#d%ü", "partitions", 3) == "/v1/topics/a%2Fb%3Fc%23d%25%C3%BC/partitions/3"
    assert target("topics", "t", action="delete-records") == "/v1/topics/t:delete-records"
    assert target("topics", prefix="a&b", after=None) == "/v1/topics?prefix=a%26b"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_of_the_contract_becomes_an_exception(code: ErrorCode) -> None:
    """With the contract's answers; codes without a class of their own get the middle class of their status."""
    answers = ANSWERS[code]
    error = error_from_problem({"error_code": str(code), "detail": "why", "status": answers.status, "limit_bytes": 3})
    assert error.code is code
    assert (error.status, error.retryable, error.may_have_happened) == (
        answers.status, answers.retryable, answers.may_have_happened,
    )  # fmt: skip
    assert error.fields == {"limit_bytes": 3}
    assert str(error) == "why"
    if code in CLASSES:
        assert type(error) is CLASSES[code]
    else:
        assert type(error) is RequestRefused


def test_errors_of_later_versions_and_of_others() -> None:
    """What the problem says of itself is believed, also when its code is new; a foreign 5xx leaves a doubt, a 4xx none."""
    problem = {"error_code": "NEW", "status": 503, "detail": "d", "retryable": True, "may_have_happened": False}
    error = error_from_problem(problem, request_id="id")
    assert isinstance(error, BackOff)
    assert (error.retryable, error.may_have_happened, error.request_id) == (True, False, "id")
    assert error.fields["error_code"] == "NEW"
    ahead = error_from_problem({"error_code": "SEQUENCE_OUT_OF_ORDER", "retryable": True, "expected_sequence": 4})
    assert (ahead.status, ahead.retryable, ahead.fields["expected_sequence"]) == (409, True, 4)
    for status, unsure in ((502, True), (404, False)):
        foreign = error_from_answer(status, b"<html>", request_id=None, url="http://a")
        assert isinstance(foreign, UnexpectedAnswer)
        assert (foreign.status, foreign.may_have_happened) == (status, unsure)


def test_a_refused_connection_is_never_a_doubt(dead_url: str) -> None:
    """Nothing left this machine."""
    with pytest.raises(NeverSent):
        Address(dead_url).exchange("POST", "/", body=b"x", headers={}, timeout_ms=500)


def test_an_https_address_of_plain_http_is_named(gateway: FakeGateway) -> None:
    """Which address is meant, and not OpenSSL's words for an answer that is no TLS."""
    secure = gateway.url.replace("http://", "https://")
    with pytest.raises(GatewayUnreachable, match=r"does not use TLS.* http://"), Admin(secure, timeout_ms=500) as admin:
        admin.list_topics()
