"""Calls through gateways: repeated until somebody answers, refused at once where a repeat would be refused again."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator

import pytest

from log_format.clock import SystemClock
from spark_pipeline.sink import gateway_calls
from spark_pipeline.sink.gateway_calls import GatewayCalls, GatewayRefused

Answers = list[tuple[int, bytes]]
NOBODY = "http://127.0.0.1:9"


def problem(status: int, code: str, *, retryable: bool) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "retryable": retryable, "detail": "because"}).encode()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answers], tuple[str, list[str]]]]:
    """A server that gives these answers in turn; its address, and the paths it was asked for. An empty body: no answer at all."""
    monkeypatch.setattr(gateway_calls, "_PAUSE_MS_FIRST", 1)
    started: list[http.server.HTTPServer] = []

    def start(answers: Answers) -> tuple[str, list[str]]:
        asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                asked.append(self.path)
                status, body = answers.pop(0)
                if not body:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing on the tests' output."""

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_what_may_succeed_is_repeated(serve: Callable[[Answers], tuple[str, list[str]]]) -> None:
    """Nobody there, a lost answer, a proxy's page, an outcome that nobody knows: the same call again, until it is answered."""
    url, asked = serve(
        [
            (0, b""),
            (502, b"<html>"),
            problem(503, "DRAINING", retryable=True),
            problem(504, "OUTCOME_UNKNOWN", retryable=True),
            (201, b'{"transaction_id": "t"}'),
        ]
    )
    calls = GatewayCalls([NOBODY, url], SystemClock())
    assert calls.post_json("/v1/transactions", {"transactional_id": "x"}) == {"transaction_id": "t"}
    assert asked == ["/v1/transactions"] * 5
    calls.close()


def test_what_is_refused_is_told(serve: Callable[[Answers], tuple[str, list[str]]]) -> None:
    """At once, with the contract's code."""
    url, asked = serve([problem(404, "UNKNOWN_TOPIC", retryable=False)])
    calls = GatewayCalls([url], SystemClock())
    with pytest.raises(GatewayRefused, match="404 because") as refused:
        calls.post("/v1/topics/t/records", b"x", "text/plain")
    assert (refused.value.error_code, len(asked)) == ("UNKNOWN_TOPIC", 1)
    calls.close()


def test_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody answers, with what the last one did."""
    monkeypatch.setattr(gateway_calls, "CALL_MS_MAX", 0)
    calls = GatewayCalls([NOBODY], SystemClock())
    with pytest.raises(GatewayRefused, match="does not do it"):
        calls.post("/v1/transactions/t:commit")
    calls.close()
