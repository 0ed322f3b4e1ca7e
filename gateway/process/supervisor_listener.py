"""The operators' listener of a supervisor: its workers' metrics on one page, and whether any of them can serve.

A second listener, on loopback, is for the workers: their ``/metrics`` on the clients' port returns that page.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self

from gateway.process.metrics_page import merge_pages

ASKED_SECONDS_MAX: Final = 3
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


class SupervisorListener:
    """Listener that serves in threads of its own while the context lasts. ``port`` None: nothing is served. ``workers``:
    returns the URLs of their operators' listeners, by number."""

    def __init__(self, host: str, port: int | None, workers: Callable[[], Mapping[int, str]]) -> None:
        self._server: ThreadingHTTPServer | None = None
        if port is not None:
            self._server = ThreadingHTTPServer((host, port), _handler(workers))
            self._server.daemon_threads = True

    @property
    def url(self) -> str | None:
        """URL at which it listens; None if it does not."""
        if self._server is None:
            return None
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        if self._server is not None:
            threading.Thread(target=self._server.serve_forever, name="operators", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


def _handler(workers: Callable[[], Mapping[int, str]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            if self.path == "/healthz":
                self._answer(200, "text/plain", b"ok\n")
            elif self.path == "/metrics":
                pages = {number: _asked(f"{url}/metrics") for number, url in workers().items()}
                whole = {number: body.decode() for number, (status, body) in pages.items() if status == 200}
                self._answer(200, _TEXT, merge_pages(whole).encode())
            else:
                self._of_any()

        def log_message(self, *_: object) -> None:
            """Log nothing about probes."""

        def _of_any(self) -> None:
            """Answer with the first worker's answer that is not a failure: each worker knows the same about the store."""
            status, body = 503, b""
            for url in workers().values():
                status, body = _asked(f"{url}{self.path}")
                if status < 500:
                    break
            self._answer(status, "application/json", body)

        def _answer(self, status: int, media_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler


def _asked(url: str) -> tuple[int, bytes]:
    """Return status and body; 503 if there is no answer."""
    try:
        with urllib.request.urlopen(url, timeout=ASKED_SECONDS_MAX) as answer:  # noqa: S310 - a worker's own address
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError:
        return 503, b""
