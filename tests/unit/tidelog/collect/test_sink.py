"""The agent's requests against gateways that refuse, lose answers and forget."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from log_format.errors import ErrorCode
from tests.support.fake_gateway import FakeGateway
from tidelog.bodies.encode import encode_table
from tidelog.collect.sink import GatewaySink, ProducerLost, RecordsTooLarge, Stored
from tidelog.errors import ClientClosed, UnknownTopic

PRODUCE = r"POST .*/records"
BODY = encode_table(pa.table({"value": [b"1", b"2"]}))
PATIENCE_S = 60


@pytest.fixture
def sink(gateway: FakeGateway) -> Iterator[GatewaySink]:
    """One on a topic that exists."""
    gateway.create("logs", 3)
    made = GatewaySink(gateway.url, "logs", _Silent())
    yield made
    made.stop(abort=True)


class _Silent:
    def report(self, *_: Any, **__: Any) -> None:
        pass


def _store(sink: GatewaySink, sequence: int = 0, *, in_doubt: bool = False) -> Stored:
    return sink.store(BODY, sink.open_producer(), sequence, in_doubt=in_doubt)


@pytest.mark.parametrize("done", [False, True])
def test_a_lost_answer_is_asked_for_again(gateway: FakeGateway, sink: GatewaySink, done: bool) -> None:
    """Whether the request had happened or not, it is in the topic once, and that is known."""
    gateway.misbehave(PRODUCE, gateway.lose(done=done))
    assert _store(sink) == Stored(record_count=2, duplicate=done)
    assert sum(map(len, gateway.values("logs"))) == 2


@pytest.mark.parametrize(
    ("status", "code"), [(503, "OVERLOADED"), (429, "THROTTLED"), (504, "OUTCOME_UNKNOWN"), (500, "INTERNAL")]
)
def test_what_may_pass_is_waited_for(gateway: FakeGateway, sink: GatewaySink, status: int, code: str) -> None:
    """The agent slows down as the gateway asks, and gives nothing up."""
    gateway.misbehave(PRODUCE, gateway.refuse(status, code, retry_after=1))
    assert _store(sink) == Stored(record_count=2, duplicate=False)
    assert gateway.count(PRODUCE) == 2


@pytest.mark.parametrize("lost_before", [False, True])
@pytest.mark.parametrize("code", ["UNKNOWN_PRODUCER", "FENCED_PRODUCER", "SEQUENCE_OUT_OF_ORDER"])
def test_a_lost_producer_says_whether_the_request_is_in_doubt(
    gateway: FakeGateway, sink: GatewaySink, lost_before: bool, code: str
) -> None:
    """Only when an earlier try may have been stored the records may be in the topic twice."""
    if lost_before:
        gateway.misbehave(PRODUCE, gateway.lose(done=True))
    gateway.misbehave(PRODUCE, gateway.refuse(409, code))
    with pytest.raises(ProducerLost) as raised:
        _store(sink)
    assert raised.value.in_doubt is lost_before


@pytest.mark.parametrize("code", ["RECORD_TOO_LARGE", "REQUEST_TOO_LARGE"])
def test_what_is_too_large_can_be_cut(gateway: FakeGateway, sink: GatewaySink, code: str) -> None:
    """It is told apart from what only an operator can mend."""
    gateway.misbehave(PRODUCE, gateway.refuse(413, code, limit_bytes=10))
    with pytest.raises(RecordsTooLarge):
        _store(sink)


def test_what_only_an_operator_can_mend_is_raised(gateway: FakeGateway) -> None:
    """A topic that does not exist is not waited for."""
    sink = GatewaySink(gateway.url, "nothing", _Silent())
    with pytest.raises(UnknownTopic) as raised:
        sink.topic_form()
    assert raised.value.code is ErrorCode.UNKNOWN_TOPIC
    sink.stop(abort=True)


def test_a_stop_ends_the_waiting_for_a_gateway(dead_url: str) -> None:
    """Hours without a gateway are waited out, but not against the operator."""
    sink = GatewaySink(dead_url, "logs", _Silent())
    ended: list[type[BaseException]] = []

    def wait() -> None:
        try:
            sink.topic_form()
        except ClientClosed as error:
            ended.append(type(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.1)
    sink.stop(abort=True)
    waiting.join(PATIENCE_S)
    assert ended == [ClientClosed]
