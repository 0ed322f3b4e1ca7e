"""Addresses at which no gateway may be trusted: told at once where nothing ever answered, else waited out."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator

import pytest

from tests.support.certificate_authority import Authority
from tests.support.fake_gateway import FakeGateway
from tests.support.listener import Listener
from tidelog import Admin
from tidelog.errors import GatewayUnreachable

PATIENT_MS = 60_000


class UntrustedGateway:
    """Takes connections: with a certificate that nobody trusts, or without TLS."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = Listener(self._answer)
        self.url = f"https://127.0.0.1:{self._listener.port}"
        self.end = self._listener.end

    def _answer(self, connection: socket.socket) -> None:
        if self._context is None:
            connection.recv(1024)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        else:
            with self._context.wrap_socket(connection, server_side=True) as tls:
                tls.recv(1)


@pytest.fixture(params=["untrusted", "no TLS"])
def listener(authority: Authority, request: pytest.FixtureRequest) -> Iterator[UntrustedGateway]:
    context = None
    if request.param == "untrusted":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue())
    started = UntrustedGateway(context)
    yield started
    started.end()


def test_it_is_told_at_once(listener: UntrustedGateway) -> None:
    """Waiting does not help: the caller hears of it long before the end of its patience, and that another try says the same."""
    began_s = time.monotonic()
    with Admin(listener.url, timeout_ms=PATIENT_MS) as admin, pytest.raises(GatewayUnreachable) as told:
        admin.list_topics()
    assert told.value.retryable is False
    assert time.monotonic() - began_s < PATIENT_MS / 4000


def test_another_address_serves(listener: UntrustedGateway, gateway: FakeGateway) -> None:
    """One address of several is no reason to give up."""
    with Admin([listener.url, gateway.url], timeout_ms=PATIENT_MS) as admin:
        for _ in range(4):
            assert list(admin.list_topics()) == []


def test_what_is_refused_or_unknown_is_tried_again() -> None:
    """Nothing listens there yet, or the name can't be resolved now: both pass."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"https://127.0.0.1:{taken.getsockname()[1]}"
    for url in (closed, "https://no-such-host.invalid:8080"):
        with Admin(url, timeout_ms=300) as admin, pytest.raises(GatewayUnreachable) as told:
            admin.list_topics()
        assert told.value.retryable is True
