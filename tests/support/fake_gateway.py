"""A gateway in this process that keeps to the HTTP contract, records its requests, and misbehaves when a test says so.

``misbehave(pattern, fault)`` makes one request whose
``METHOD /path`` matches go wrong: ``refuse`` answers a problem, ``lose`` closes the connection without an answer (after
doing what was asked, or not), ``cut`` breaks off in the middle of an answer, ``answer`` says anything at all.
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import zstandard

from tests.support.fake_log import Asked, FakeTopic, Problem
from tests.support.fake_queues import FakeQueues
from tidelog.types.record import Record

DECODERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gzip": gzip.decompress, "zstd": zstandard.decompress}
Fault = Callable[["Exchange"], object]


@dataclass
class Exchange:
    """A request under way, for faults."""

    gateway: FakeGateway
    handler: BaseHTTPRequestHandler
    asked: Asked

    def answer(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name, value)
        self.handler.send_header("Content-Length", str(len(body) if length is None else length))
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def carry_out(self) -> None:
        try:
            status, headers, body = self.gateway.carry_out(self.asked)
        except Problem as problem:
            status, body = problem.status, json.dumps(problem.body).encode()
            headers = {"Content-Type": "application/problem+json", **problem.headers}
        headers["X-Request-Id"] = self.asked.headers.get("x-request-id", "made")
        if self.asked.headers.get("accept-encoding") == "zstd" and len(body) > 1024:
            body, headers["Content-Encoding"] = zstandard.compress(body), "zstd"
        self.answer(status, body, headers)

    def hang_up(self) -> None:
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)


class FakeGateway(FakeQueues):
    """The server. Safe from any thread as far as tests need it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Asked] = []
        self.tokens: set[str] | None = None
        """The tokens that are taken; None: there is no authentication."""
        self._faults: list[tuple[re.Pattern[str], Fault]] = []
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_one(self) -> None:
                parts = urlsplit(self.path)
                # What is given more than once, in lines.
                query = {name: "\n".join(values) for name, values in parse_qs(parts.query).items()}
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = DECODERS[headers.get("content-encoding", "")](body)
                asked = Asked(self.command, parts.path, query, headers, body)
                exchange = Exchange(gateway, self, asked)
                gateway.fault_for(asked)(exchange)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_one

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that go away are part of the tests

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # What tests say and ask

    def create(self, name: str, partition_count: int = 1, **config: Any) -> FakeTopic:
        self.topics[name] = FakeTopic(partition_count, {key.replace("_", "."): value for key, value in config.items()})
        return self.topics[name]

    def fill(self, name: str, count: int, partition_count: int = 1) -> FakeTopic:
        """A topic with so many records in each partition; their values are their offsets."""
        topic = self.create(name, partition_count)
        for number in range(partition_count):
            topic.records[number] = [Record(name, number, at, at, b"k", b"%d" % at) for at in range(count)]
        return topic

    def values(self, topic: str) -> list[list[bytes | None]]:
        return [[record.value for record in records] for records in self.topics[topic].records]

    def count(self, pattern: str) -> int:
        return sum(1 for asked in self.asked if re.search(pattern, f"{asked.method} {asked.path}"))

    def misbehave(self, pattern: str, *faults: Fault) -> None:
        self._faults += [(re.compile(pattern), fault) for fault in faults]

    def fault_for(self, asked: Asked) -> Fault:
        with self.changed:
            self.asked.append(asked)
            if (
                self.tokens is not None
                and asked.headers.get("authorization", "").removeprefix("Bearer ") not in self.tokens
            ):
                return self.refuse(401, "UNAUTHENTICATED")
            for index, (pattern, fault) in enumerate(self._faults):
                if pattern.search(f"{asked.method} {asked.path}"):
                    del self._faults[index]
                    return fault
        return Exchange.carry_out

    @staticmethod
    def refuse(status: int, code: str, *, retry_after: int | None = None, **fields: Any) -> Fault:
        def fault(exchange: Exchange) -> None:
            problem = Problem(status, code, **fields)
            headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
            exchange.answer(status, json.dumps(problem.body).encode(), {"X-Request-Id": "refused", **headers})

        return fault

    @staticmethod
    def lose(*, done: bool) -> Fault:
        def fault(exchange: Exchange) -> None:
            if done:
                exchange.gateway.carry_out(exchange.asked)
            exchange.hang_up()

        return fault

    @staticmethod
    def cut() -> Fault:
        def fault(exchange: Exchange) -> None:
            _, headers, body = exchange.gateway.carry_out(exchange.asked)
            exchange.answer(200, body[: len(body) // 2], headers, length=len(body))
            exchange.hang_up()

        return fault

    @staticmethod
    def answer(status: int, body: bytes, **headers: str) -> Fault:
        return lambda exchange: exchange.answer(
            status, body, {name.replace("_", "-"): value for name, value in headers.items()}
        )

    def will_answer(self, pattern: str, value: Any = None, status: int = 200) -> None:
        """Answer one such request with this value in JSON; None: with nothing."""
        body = b"" if value is None else json.dumps(value).encode()
        self.misbehave(pattern, self.answer(status, body, Content_Type="application/json"))

    @staticmethod
    def stall(seconds: float) -> Fault:
        def fault(exchange: Exchange) -> None:
            time.sleep(seconds)
            exchange.carry_out()

        return fault
