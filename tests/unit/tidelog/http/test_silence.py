"""``tidelog.http.silence``: a gateway that takes requests and answers none is given up, where another one answers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.support.waiting import until
from tidelog.http.answer import AnswerLost, GatewaySilent
from tidelog.http.credentials import Credentials
from tidelog.http.endpoints import Endpoint
from tidelog.http.silence import SilenceWatch

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Takes connections; answers ``/healthz`` if it ``lives``, and any other request after ``pause_s``, or never."""

    def __init__(self, *, lives: bool, pause_s: float | None = None) -> None:
        self._lives = lives
        self._pause_s = pause_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self.probes = 0
        self.endpoint = Endpoint(f"http://127.0.0.1:{self._listener.getsockname()[1]}", Credentials(environment={}))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            data = connection.recv(65536)
            if data.startswith(b"GET /healthz"):
                self.probes += 1
                pause_s = 0.0 if self._lives else None
            else:
                pause_s = self._pause_s
            self._ended.wait(pause_s)
            if pause_s is not None:
                connection.sendall(ANSWER)

    def end(self) -> None:
        self._ended.set()
        self._listener.close()
        self.endpoint.address.close()


@pytest.fixture
def servers() -> Iterator[Callable[..., Server]]:
    with ExitStack() as ended:

        def serve(*, lives: bool, pause_s: float | None = None) -> Server:
            server = Server(lives=lives, pause_s=pause_s)
            ended.callback(server.end)
            return server

        yield serve


def ask(server: Server, *others: Server, body: bytes | None = None, timeout_ms: float = 20_000) -> float:
    """The seconds that an exchange took. Raises as ``Address.exchange``."""
    watch = SilenceWatch(lambda _endpoint: [other.endpoint for other in others], silence_ms=100, probe_ms=200)
    began = time.monotonic()
    try:
        server.endpoint.address.exchange(
            "POST",
            "/x",
            body=body,
            headers={},
            timeout_ms=timeout_ms,
            watch=lambda cut: watch.begin(server.endpoint, cut),
        )
    finally:
        watch.close()
    return time.monotonic() - began


def test_a_frozen_gateway_is_given_up(servers: Callable[..., Server]) -> None:
    """Within the silence and a probe, not after the time-out of the exchange."""
    began = time.monotonic()
    with pytest.raises(GatewaySilent):
        ask(servers(lives=False), servers(lives=True))
    assert time.monotonic() - began < 10


def test_one_that_takes_no_more_of_a_body_is_given_up(servers: Callable[..., Server]) -> None:
    """The kernel's buffers are full: the request is not even sent whole."""
    with pytest.raises(GatewaySilent):
        ask(servers(lives=False), servers(lives=True), body=b"x" * (64 << 20))


def test_a_slow_gateway_is_waited_for(servers: Callable[..., Server]) -> None:
    """A long poll, or a slow flush: it says that it lives, each time after a longer pause."""
    slow = servers(lives=True, pause_s=1.5)
    assert ask(slow, servers(lives=True)) >= 1.4
    assert 2 <= slow.probes <= 5


def test_the_only_gateway_is_waited_for(servers: Callable[..., Server]) -> None:
    """Nothing is better than to wait: no other gateway is known, or none answers."""
    for others in ((), (servers(lives=False),)):
        with pytest.raises(AnswerLost) as lost:
            ask(servers(lives=False), *others, timeout_ms=1_500)
        assert not isinstance(lost.value, GatewaySilent)


def test_its_thread_ends(servers: Callable[..., Server]) -> None:
    """With the client, at once."""
    ask(servers(lives=True, pause_s=0))
    until(lambda: all(thread.name != "tidelog-silence" for thread in threading.enumerate()), 20)
