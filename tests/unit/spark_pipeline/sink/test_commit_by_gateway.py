"""The driver's commit through gateways: what the beginning tells decides what is sent, and what may succeed is repeated."""

from __future__ import annotations

import dataclasses
import http.server
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from log_format import limits
from log_format.errors import ErrorCode, TidelogError
from spark_pipeline.sink.batch_name import BatchName, BatchRefused
from spark_pipeline.sink.carry import CarriedTask, carry, decode_stream
from spark_pipeline.sink.commit_by_gateway import commit_carried, split_requests
from spark_pipeline.sink.options import SinkOptions

OPTIONS = SinkOptions(gateways=("http://gateway",))
NOBODY = "http://127.0.0.1:9"


class Gateway(http.server.HTTPServer):
    """What a gateway was asked, and what it answers. ``faults`` are answered first: an empty body is no answer at all."""

    def __init__(self, last_number: int | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.last_number = last_number
        self.begun: list[dict[str, Any]] = []
        self.sent: list[tuple[str, str, list[bytes | None]]] = []
        self.ended: list[str] = []
        self.authorizations: list[str | None] = []
        self.faults: list[tuple[int, bytes]] = []
        self.refused: tuple[int, bytes] | None = None
        self.options = SinkOptions(gateways=(f"http://127.0.0.1:{self.server_port}",))

    def answer(self, path: str, headers: Any, body: bytes) -> tuple[int, bytes]:
        self.authorizations.append(headers["Authorization"])
        if self.faults:
            return self.faults.pop(0)
        if path == "/v1/transactions":
            self.begun.append(json.loads(body))
            begun = {"transaction_id": "t", "producer_id": "p", "epoch": 3, "last_number": self.last_number}
            return 201, json.dumps(begun).encode()
        if path.startswith("/v1/transactions/"):
            self.ended.append(path)
            return 200, b'{"state": "committed", "topics": []}'
        if self.refused is not None:
            return self.refused
        assert (headers["Tidelog-Transaction"], headers["Tidelog-Producer-Id"]) == ("t", "p")
        assert headers["Tidelog-Producer-Epoch"] == "3"
        values = decode_stream(body).column("value").to_pylist()
        self.sent.append((path, headers["Tidelog-Producer-Sequence"], values))
        return 202, json.dumps({"staged": len(values)}).encode()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Gateway

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.reply(*self.server.answer(self.path, self.headers, body))

    def do_GET(self) -> None:
        self.reply(200, b'{"gateways": [], "store": "s"}')

    def reply(self, status: int, body: bytes) -> None:
        if not body:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on the tests' output."""


def problem(status: int, code: str, *, retryable: bool) -> tuple[int, bytes]:
    return status, json.dumps({"error_code": code, "retryable": retryable, "detail": "because"}).encode()


def task(number: int | None, rows: int = 3) -> CarriedTask:
    batch = None if number is None else BatchName("q", number)
    columns = {"topic": ["a"] * rows + ["b c"], "value": [b"%d" % n for n in range(rows)] + [b"x"]}
    return carry([pa.record_batch(columns)], OPTIONS, batch)


@pytest.fixture
def answering() -> Iterator[Callable[[int | None], Gateway]]:
    started: list[Gateway] = []

    def make(last_number: int | None) -> Gateway:
        gateway = Gateway(last_number)
        threading.Thread(target=gateway.serve_forever, args=(0.01,), daemon=True).start()
        started.append(gateway)
        return gateway

    yield make
    for gateway in started:
        gateway.shutdown()
        gateway.server_close()


@pytest.mark.parametrize("last_number", [None, 0, 6])
def test_a_new_batch_is_sent_and_committed(answering: Any, last_number: int | None) -> None:
    """Every task's records, by topic, each request with its sequence; then the commit, which is the last call."""
    gateway = answering(last_number)
    commit_carried([task(7), task(7, 1)], gateway.options)
    (begun,) = gateway.begun
    assert (begun["transactional_id"], begun["number"]) == ("spark-q", 7)
    assert gateway.sent == [
        ("/v1/topics/a/records", "0", [b"0", b"1", b"2", b"0"]),
        ("/v1/topics/b%20c/records", "0", [b"x", b"x"]),
    ]
    assert gateway.ended == ["/v1/transactions/t:commit"]


def test_a_batch_that_is_in_the_log_is_not_sent(answering: Any) -> None:
    """It was committed before: the transaction that asked is aborted, and the batch is done."""
    gateway = answering(7)
    commit_carried([task(7)], gateway.options)
    assert (gateway.sent, gateway.ended) == ([], ["/v1/transactions/t:abort"])


def test_an_old_batch_is_refused(answering: Any) -> None:
    """A later one is in the log: this is an old copy of a checkpoint."""
    gateway = answering(8)
    with pytest.raises(BatchRefused, match="Batch 7 of q is older than batch 8"):
        commit_carried([task(7)], gateway.options)
    assert (gateway.sent, gateway.ended) == ([], ["/v1/transactions/t:abort"])


def test_what_is_refused_is_aborted(answering: Any) -> None:
    """And told at once, with the contract's code."""
    gateway = answering(None)
    gateway.refused = problem(404, "UNKNOWN_TOPIC", retryable=False)
    with pytest.raises(TidelogError, match="because") as refused:
        commit_carried([task(0)], gateway.options)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC
    assert gateway.ended == ["/v1/transactions/t:abort"]


def test_what_may_succeed_is_repeated(answering: Any) -> None:
    """No gateway there, a lost answer, a proxy's page, an unknown outcome: the same call again, until it is answered."""
    gateway = answering(None)
    gateway.faults = [
        (0, b""),
        (502, b"<html>"),
        problem(503, "DRAINING", retryable=True),
        problem(504, "OUTCOME_UNKNOWN", retryable=True),
    ]
    commit_carried([task(7)], SinkOptions(gateways=(NOBODY, *gateway.options.gateways)))
    assert (len(gateway.begun), gateway.faults) == (1, [])
    assert gateway.ended == ["/v1/transactions/t:commit"]


def test_it_ends() -> None:
    """A call ends also when no gateway answers, with the error of the last try."""
    with pytest.raises(TidelogError, match=r"127\.0\.0\.1:9"):
        commit_carried([task(7)], SinkOptions(gateways=(NOBODY,)), call_ms_max=1)


def test_a_job_without_a_name_has_no_number(answering: Any) -> None:
    """Each is its own transactional id: nothing is fenced by it."""
    gateway = answering(None)
    commit_carried([task(None)], gateway.options)
    commit_carried([task(None)], gateway.options)
    first, second = gateway.begun
    assert "number" not in first
    assert first["transactional_id"] != second["transactional_id"]


def test_an_empty_batch_asks_nobody(answering: Any) -> None:
    """It has nothing to commit."""
    gateway = answering(None)
    commit_carried([carry([], OPTIONS, BatchName("q", 1))], gateway.options)
    assert (gateway.begun, gateway.ended) == ([], [])


def test_requests_are_cut_by_size() -> None:
    """All records, in order, none of the requests above the bound unless a record alone is."""
    values = [b"x" * size for size in (10, 500, 100, 60, 1, 1, 1)]
    (part,) = carry([pa.record_batch({"value": values})], SinkOptions(gateways=("g",), topic="t"), None).parts
    requests = [request.column("value").to_pylist() for request in split_requests(decode_stream(part.stream), 200)]
    assert [[len(value) for value in request] for request in requests] == [[10], [500], [100], [60, 1, 1, 1]]


def test_what_no_transaction_takes_is_refused() -> None:
    """On the executor, before it travels, and in sum on the driver."""
    half = pa.record_batch({"topic": ["a"], "value": [bytes(limits.TRANSACTION_BYTES_MAX // 2)]})
    with pytest.raises(BatchRefused, match="maxOffsetsPerTrigger"):
        carry([half, half], OPTIONS, None)
    with pytest.raises(BatchRefused, match="through gateways"):
        commit_carried([carry([half], OPTIONS, None)] * 2, OPTIONS)


@pytest.mark.parametrize("source", ["option", "environment"])
def test_the_driver_sends_its_token(
    answering: Any, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From ``tokenFile``, or the driver's environment; what executors hand over, and get as options, has none."""
    file = tmp_path / "token"
    file.write_text("tl_abcd1234_secret\n")
    gateway = answering(None)
    options = gateway.options
    if source == "option":
        options = dataclasses.replace(options, token_file=str(file))
    else:
        monkeypatch.setenv("TIDELOG_TOKEN_FILE", str(file))
    handed = task(7)
    commit_carried([handed], options)
    assert set(gateway.authorizations) == {"Bearer tl_abcd1234_secret"}
    assert b"secret" not in pickle.dumps((handed, options))


def test_a_token_goes_to_no_plain_address_elsewhere(tmp_path: Path) -> None:
    """The batch fails before anything is sent."""
    file = tmp_path / "token"
    file.write_text("tl_abcd1234_secret\n")
    elsewhere = SinkOptions(gateways=("http://gateway.example",), token_file=str(file))
    with pytest.raises(ValueError, match="plain HTTP"):
        commit_carried([task(7)], elsewhere)
