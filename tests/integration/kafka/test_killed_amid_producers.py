"""A gateway is killed while Kafka's own clients produce, and started again: no record is lost, none is there twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

KILLS = 3


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[KafkaGateway]:
    """A gateway on a directory, with the same address after each start."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log") as gateway:
        yield gateway


def kill_now_and_then(gateway: KafkaGateway, done: threading.Event) -> None:
    for _ in range(KILLS):
        if done.wait(1.5):
            return
        gateway.kill()
        gateway.start()


def test_idempotent_producer(mortal: KafkaGateway) -> None:
    """Five requests in flight: those whose answer was lost are sent again."""
    mortal.topic("t", 2)
    producer = Producer(
        {
            "bootstrap.servers": mortal.kafka,
            "enable.idempotence": True,
            "linger.ms": 5,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    done = threading.Event()
    killing = threading.Thread(target=kill_now_and_then, args=(mortal, done))
    killing.start()
    sent = 0
    while killing.is_alive():
        producer.produce("t", str(sent).encode(), partition=sent % 2, on_delivery=delivered)
        producer.poll(0.001)
        sent += 1
    killing.join()
    assert producer.flush(60) == 0
    assert failed == []
    for partition in (0, 1):
        assert [int(value) for _, value in mortal.read("t", partition)] == list(range(partition, sent, 2))


def test_transactional_producer(mortal: KafkaGateway) -> None:
    """What was committed is there once and whole, what was aborted is not; the client goes on by itself, or anew."""
    mortal.topic("t", 2)
    done = threading.Event()
    killing = threading.Thread(target=kill_now_and_then, args=(mortal, done))
    killing.start()
    outcomes: dict[int, bool | None] = {}
    """By transaction: committed, aborted, or None where its client died before it knew."""
    producer, number = fresh(mortal), 0
    while killing.is_alive() or number < 10:
        outcomes[number] = None
        try:
            producer.begin_transaction()
            for record in range(10):
                producer.produce("t", f"{number} {record}".encode(), partition=record % 2)
            producer.commit_transaction(60)
            outcomes[number] = True
        except KafkaException as caught:
            error = caught.args[0]
            if error.txn_requires_abort():
                producer.abort_transaction(60)
                outcomes[number] = False
            else:
                producer = fresh(mortal)
        number += 1
    killing.join()
    for partition in (0, 1):
        found: dict[int, list[int]] = {}
        for _, value in mortal.read("t", partition):
            transaction, record = map(int, value.split())
            found.setdefault(transaction, []).append(record)
        assert list(found) == sorted(found)
        assert all(records == list(range(partition, 10, 2)) for records in found.values())
        assert all(outcome is None or outcome == (one in found) for one, outcome in outcomes.items())
    assert sum(outcome is True for outcome in outcomes.values()) > KILLS


def fresh(gateway: KafkaGateway) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": gateway.kafka,
            "transactional.id": "mortal",
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            producer.init_transactions(10)
        except KafkaException as caught:
            if not caught.args[0].retriable() or time.monotonic() > deadline:
                raise
        else:
            return producer
