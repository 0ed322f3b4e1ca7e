"""The idempotent producer against a gateway that misbehaves: nothing doubled, nothing lost, order kept, doubts told apart."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from tests.support.fake_gateway import Exchange, FakeGateway
from tidelog import Producer
from tidelog.errors import DeliveryFailed, DeliveryTimeout, OutcomeUnknown, RecordTooLarge, UnknownTopic


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_is_asked_for_again(gateway: FakeGateway, done: bool) -> None:
    """The gateway knows the number again: the record is stored once, and its place is learned."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", gateway.lose(done=done))
    with Producer(gateway.url) as producer:
        assert producer.send("t", b"x").result(timeout=10).offset == 0
        assert producer.send("t", b"y").result(timeout=10).offset == 1
    assert gateway.values("t") == [[b"x", b"y"]]


@pytest.mark.parametrize(
    "fault",
    [
        ("refuse", 500, "INTERNAL"),
        ("refuse", 504, "OUTCOME_UNKNOWN"),
        ("refuse", 503, "UNAVAILABLE"),
        ("cut",),
        ("answer", 200, b'{"topic":"t","partit'),
        ("answer", 502, b"<html>bad gateway</html>"),
    ],
)
def test_whatever_is_answered_the_outcome_is_found_out(gateway: FakeGateway, fault: tuple[Any, ...]) -> None:
    """Cut, garbled, foreign and failing answers are followed by the same number until one is clear."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", getattr(gateway, fault[0])(*fault[1:]))
    with Producer(gateway.url) as producer:
        assert producer.send("t", b"x").result(timeout=10).offset == 0
    assert gateway.values("t") == [[b"x"]]


def test_a_topic_that_takes_no_id_of_now_is_waited_for(gateway: FakeGateway) -> None:
    """A topic that was repaired within the last minute refuses ids that are issued meanwhile; the records are there in the end,
    once and in order. Where it lasts, they are refused when their time is over, and are nowhere."""
    gateway.create("t")
    gateway.misbehave("POST .*/t/records", *[gateway.refuse(404, "UNKNOWN_PRODUCER")] * 9)
    with Producer(gateway.url, linger_ms=0) as producer:
        assert producer.send("t", "0").result(timeout=30).offset == 0
        for number in (1, 2):
            producer.send("t", f"{number}")
    assert gateway.values("t") == [[b"0", b"1", b"2"]]
    gateway.misbehave("POST .*/t/records", *[gateway.refuse(404, "UNKNOWN_PRODUCER")] * 1_000)
    producer = Producer(gateway.url, delivery_timeout_ms=1_500)
    error = producer.send("t", "late").exception(timeout=10)
    assert isinstance(error, DeliveryTimeout)
    assert not error.may_have_happened
    with pytest.raises(DeliveryFailed):
        producer.close()
    assert gateway.values("t") == [[b"0", b"1", b"2"]]


def test_requests_that_change_places_keep_their_order(gateway: FakeGateway) -> None:
    """Five on their way at once, some lost, some refused for a while, some slow: the log has every record once, in order."""
    gateway.create("t")
    rng = random.Random(7)
    faults = [
        gateway.lose(done=True),
        gateway.lose(done=False),
        gateway.refuse(503, "UNAVAILABLE"),
        gateway.stall(0.2),
        gateway.refuse(504, "OUTCOME_UNKNOWN"),
    ]
    gateway.misbehave("POST .*/records", *[rng.choice(faults) for _ in range(25)])
    with Producer(gateway.url, linger_ms=0, delivery_timeout_ms=60_000) as producer:
        futures = []
        for number in range(60):
            futures.append(producer.send("t", str(number)))
            time.sleep(0.005)
        assert [future.result(timeout=60).offset for future in futures] == list(range(60))
    assert gateway.values("t") == [[str(number).encode() for number in range(60)]]


def test_a_refused_request_in_front_stops_nobody(gateway: FakeGateway) -> None:
    """The number of a refused request is a gap: those behind it are sent again under another producer id, in order, once."""
    gateway.create("t", max_message_bytes=100)
    gateway.commit_seconds = 0.05
    with Producer(gateway.url, linger_ms=0, on_delivery=lambda error, record: None) as producer:
        producer.send("t", b"warm").result(timeout=10)
        gateway.topics["t"].config["max.message.bytes"] = 10  # the producer does not know yet
        outcomes: list[int | BaseException] = []
        futures = []
        for number in range(12):
            futures.append(producer.send("t", str(number) if number % 4 else "x" * 50))
            time.sleep(0.02)
        for future in futures:
            error = future.exception(timeout=30)
            outcomes.append(error if error is not None else future.result().offset)
    assert [type(outcome) for outcome in outcomes] == [RecordTooLarge, int, int, int] * 3
    expected = [str(number).encode() for number in range(12) if number % 4]
    assert gateway.values("t") == [[b"warm", *expected]]
    assert len(gateway.producer_ids) > 1


def test_what_is_given_up_in_doubt_is_told(gateway: FakeGateway) -> None:
    """When the time for delivery is over and no answer came, the record may be in the log, and its error says so."""
    gateway.create("t")
    gateway.misbehave("POST .*/records", *[gateway.lose(done=False)] * 200)
    with Producer(gateway.url, delivery_timeout_ms=800, on_delivery=lambda error, record: None) as producer:
        error = producer.send("t", b"x").exception(timeout=10)
    assert isinstance(error, OutcomeUnknown)


def test_a_forgotten_producer_begins_anew(gateway: FakeGateway) -> None:
    """A producer id that the gateway has forgotten is replaced, as long as nothing under it is in doubt."""
    gateway.create("t")
    with Producer(gateway.url) as producer:
        producer.send("t", b"x").result(timeout=10)
        gateway.producer_ids[:] = ["others"]
        assert producer.send("t", b"y").result(timeout=10).offset == 1
    assert gateway.values("t") == [[b"x", b"y"]]


def test_a_garbled_answer_is_a_doubt_that_a_refusal_does_not_clear(gateway: FakeGateway) -> None:
    """What may be stored under a producer id is not sent again under another one when the gateway forgets the first."""
    gateway.create("t")

    def garbled(exchange: Exchange) -> None:
        gateway.carry_out(exchange.asked)
        exchange.answer(200, b'{"topic":"t","partit', {})

    gateway.misbehave("POST .*/records", garbled, gateway.refuse(404, "UNKNOWN_PRODUCER"))
    with Producer(gateway.url, on_delivery=lambda error, record: None) as producer:
        assert isinstance(producer.send("t", b"x").exception(timeout=10), OutcomeUnknown)
    assert gateway.values("t") == [[b"x"]]


def test_a_topic_made_anew_begins_anew(gateway: FakeGateway) -> None:
    """A topic that was deleted and made again expects sequence 0: the producer does not wait in vain."""
    gateway.create("t")
    with Producer(gateway.url, delivery_timeout_ms=10_000) as producer:
        producer.send("t", b"x").result(timeout=10)
        producer.send("t", b"y").result(timeout=10)
        gateway.create("t")
        assert producer.send("t", b"z").result(timeout=10).offset == 0


def test_no_gateway_in_time_means_not_stored(gateway: FakeGateway, dead_url: str) -> None:
    """Where nothing was ever sent, the error promises that nothing is in the log."""
    with Producer(dead_url, delivery_timeout_ms=400, on_delivery=lambda error, record: None) as producer:
        error = producer.send("t", b"x").exception(timeout=10)
    assert isinstance(error, DeliveryTimeout)
    assert not error.may_have_happened
    with Producer(gateway.url, on_delivery=lambda error, record: None) as producer:
        assert isinstance(producer.send("absent", b"x").exception(timeout=10), UnknownTopic)
