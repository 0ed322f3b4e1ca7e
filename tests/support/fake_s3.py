"""A server of S3's protocol that misbehaves as it is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer: a status with an S3 error code or a body; or silence, a closed connection, a body that breaks off, or whose
    length is not told."""

    status: int = 200
    code: str = ""
    body: bytes = b""
    breaks_off: bool = False
    is_unmeasured: bool = False
    closes: bool = False
    stalls: bool = False
    headers: tuple[tuple[str, str], ...] = ()


def error(status: int, code: str, *headers: tuple[str, str]) -> Answer:
    """An error answer."""
    return Answer(status=status, code=code, headers=headers)


FINE = Answer(body=b"12345")


@dataclass(slots=True)
class FakeS3:
    """Gives the answers in turn, the last one for ever, and keeps what it was asked.

    ``keeps_open``: its connections go on, as those of stores do, from the next one on.
    """

    answers: list[Answer] = field(default_factory=lambda: [FINE])
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""
    keeps_open: bool = False
    connections: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
        with self.lock:
            self.requests.append((method, path, headers, body))
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _handler(server: FakeS3) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            super().setup()
            server.connections += 1
            self.protocol_version = "HTTP/1.1" if server.keeps_open else "HTTP/1.0"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.next_answer(self.command, self.path, headers, body)
            if answer.stalls:
                server.released.wait(30)
                self.close_connection = True
                return
            if answer.closes:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            content = answer.body
            if answer.code:
                content = f"<Error><Code>{answer.code}</Code><Message>at hidden-bucket</Message></Error>".encode()
            self.send_response(answer.status)
            self.send_header("Last-Modified", DATE)
            if not answer.is_unmeasured:
                self.send_header("Content-Length", str(len(content) + (10 if answer.breaks_off else 0)))
            for name, value in answer.headers:
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
            self.close_connection = self.close_connection or answer.breaks_off or answer.is_unmeasured

        do_GET = do_PUT = do_HEAD = do_DELETE = handle_any

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    return Handler


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """The server on a free port of 127.0.0.1."""
    fake = FakeS3()
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(fake))
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    fake.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield fake
    finally:
        fake.released.set()
        http.shutdown()
        thread.join()
        http.server_close()


def point_to(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process's environment name the server as the store, and credentials for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "password")


class NoBody:
    """Of a response that boto3 is given in place of a server's: it is empty."""

    def stream(self, *_: object, **__: object) -> Iterator[bytes]:
        return iter(())
