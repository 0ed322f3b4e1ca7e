"""The driver's commit through gateways: what the beginning tells decides what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from log_format import limits
from spark_pipeline.sink import commit_by_gateway
from spark_pipeline.sink.batch_name import BatchName, BatchRefused
from spark_pipeline.sink.carry import CarriedTask, carry, decode_stream
from spark_pipeline.sink.commit_by_gateway import commit_carried, requests_of
from spark_pipeline.sink.gateway_calls import GatewayRefused
from spark_pipeline.sink.options import SinkOptions

OPTIONS = SinkOptions(gateways=("http://gateway",))


class Gateway:
    """What a gateway was asked, and what it answers."""

    def __init__(self, last_number: int | None) -> None:
        self.last_number = last_number
        self.begun: Mapping[str, Any] = {}
        self.sent: list[tuple[str, str, list[bytes | None]]] = []
        self.ended: list[str] = []
        self.refused: str | None = None

    def post_json(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        assert path == "/v1/transactions"
        self.begun = body
        return {"transaction_id": "t", "producer_id": "p", "epoch": 3, "last_number": self.last_number}

    def post(
        self, path: str, body: bytes | None = None, _type: str = "", headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        if body is None:
            self.ended.append(path)
            return {}
        if self.refused is not None:
            raise GatewayRefused("no", self.refused)
        assert headers is not None
        assert (headers["Tidelog-Transaction"], headers["Tidelog-Producer-Epoch"]) == ("t", "3")
        values = decode_stream(body).column("value").to_pylist()
        self.sent.append((path, headers["Tidelog-Producer-Sequence"], values))
        return {"staged": len(values)}

    def close(self) -> None:
        """Nothing is open."""


def task(number: int | None, rows: int = 3) -> CarriedTask:
    batch = None if number is None else BatchName("q", number)
    columns = {"topic": ["a"] * rows + ["b c"], "value": [b"%d" % n for n in range(rows)] + [b"x"]}
    return carry([pa.record_batch(columns)], OPTIONS, batch)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(last_number: int | None) -> Gateway:
        gateway = Gateway(last_number)
        monkeypatch.setattr(commit_by_gateway, "GatewayCalls", lambda _urls, _clock: gateway)
        return gateway

    return make


@pytest.mark.parametrize("last_number", [None, 0, 6])
def test_a_new_batch_is_sent_and_committed(answering: Any, last_number: int | None) -> None:
    """Every task's records, by topic, each request with its sequence; then the commit, which is the last call."""
    gateway = answering(last_number)
    commit_carried([task(7), task(7, 1)], OPTIONS)
    assert (gateway.begun["transactional_id"], gateway.begun["number"]) == ("spark-q", 7)
    assert gateway.sent == [
        ("/v1/topics/a/records", "0", [b"0", b"1", b"2", b"0"]),
        ("/v1/topics/b%20c/records", "0", [b"x", b"x"]),
    ]
    assert gateway.ended == ["/v1/transactions/t:commit"]


def test_a_batch_that_is_in_the_log_is_not_sent(answering: Any) -> None:
    """It was committed before: the transaction that asked is aborted, and the batch is done."""
    gateway = answering(7)
    commit_carried([task(7)], OPTIONS)
    assert (gateway.sent, gateway.ended) == ([], ["/v1/transactions/t:abort"])


def test_an_old_batch_is_refused(answering: Any) -> None:
    """A later one is in the log: this is an old copy of a checkpoint."""
    gateway = answering(8)
    with pytest.raises(BatchRefused, match="Batch 7 of q is older than batch 8"):
        commit_carried([task(7)], OPTIONS)
    assert (gateway.sent, gateway.ended) == ([], ["/v1/transactions/t:abort"])


def test_what_is_refused_is_aborted(answering: Any) -> None:
    """And told."""
    gateway = answering(None)
    gateway.refused = "UNKNOWN_TOPIC"
    with pytest.raises(GatewayRefused):
        commit_carried([task(0)], OPTIONS)
    assert gateway.ended == ["/v1/transactions/t:abort"]


def test_a_job_without_a_name_has_no_number(answering: Any) -> None:
    """Each is its own transactional id: nothing is fenced by it."""
    gateway = answering(None)
    commit_carried([task(None)], OPTIONS)
    first = dict(gateway.begun)
    commit_carried([task(None)], OPTIONS)
    assert "number" not in first
    assert first["transactional_id"] != gateway.begun["transactional_id"]


def test_an_empty_batch_asks_nobody(answering: Any) -> None:
    """It has nothing to commit."""
    gateway = answering(None)
    commit_carried([carry([], OPTIONS, BatchName("q", 1))], OPTIONS)
    assert (gateway.begun, gateway.ended) == ({}, [])


def test_requests_are_cut_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """All records, in order, none of the requests above the bound unless a record alone is."""
    monkeypatch.setattr(commit_by_gateway, "REQUEST_BYTES", 200)
    values = [b"x" * size for size in (10, 500, 100, 60, 1, 1, 1)]
    (part,) = carry([pa.record_batch({"value": values})], SinkOptions(gateways=("g",), topic="t"), None).parts
    requests = [request.column("value").to_pylist() for request in requests_of(decode_stream(part.stream))]
    assert [[len(value) for value in request] for request in requests] == [[10], [500], [100], [60, 1, 1, 1]]


def test_what_no_transaction_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the executor, before it travels, and in sum on the driver."""
    monkeypatch.setattr(limits, "TRANSACTION_BYTES_MAX", 100)
    with pytest.raises(BatchRefused, match="maxOffsetsPerTrigger"):
        carry([pa.record_batch({"topic": ["a"], "value": [b"x" * 200]})], OPTIONS, None)
    monkeypatch.setattr(limits, "TRANSACTION_BYTES_MAX", 10_000)
    tasks = [task(1)] * 2
    monkeypatch.setattr(limits, "TRANSACTION_BYTES_MAX", tasks[0].parts[0].stream.__sizeof__() // 20)
    with pytest.raises(BatchRefused, match="through gateways"):
        commit_carried(tasks, OPTIONS)
