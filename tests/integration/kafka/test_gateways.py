"""Several gateways of one store, as Kafka's clients see them; and one that is told to end."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.waiting import until

PRODUCE, METADATA = "produce", "metadata"
QUICK = ("--heartbeat-ms", "200", "--drain-notice-ms", "0")


def asked(topic: str) -> dict[str, Any]:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1_700_000_000_000, None, b"value", [])
    data = [{"index": 0, "records": bytes(builder.build())}]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout": 1000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def test_gateways_tell_the_same_leaders_and_each_serves_all(tmp_path: Path) -> None:
    """Topics are led by their owners; a record that comes to another gateway is taken, too, and read at both."""
    store = tmp_path / "store"
    with (
        kafka_gateway(store, tmp_path / "a", *QUICK) as a,
        kafka_gateway(store, tmp_path / "b", *QUICK) as b,
    ):
        topics = [a.topic(f"t{number}") for number in range(12)]
        until(lambda: len(_leaders(a, topics)) == len(_leaders(b, topics)) == 2)
        for topic in topics:
            leaders = {_leader(gateway, topic) for gateway in (a, b)}
            assert len(leaders) == 1, "they do not agree"
        for gateway in (a, b):
            with Wire(gateway.kafka) as wire:
                for topic in topics:
                    (told,) = wire.call(PRODUCE, 9, **asked(topic)).responses
                    assert told.partition_responses[0].error_code == KafkaError.none
        assert {len(gateway.read(topic)) for gateway in (a, b) for topic in topics} == {2}
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": f"{a.kafka},{b.kafka}"})
        for topic in topics:
            producer.produce(topic, b"led", on_delivery=lambda error, _: failures.append(error) if error else None)
        assert producer.flush(20) == 0
        assert not failures
        b.process.send_signal(signal.SIGTERM)
        b.process.wait(30)
        until(lambda: len(_leaders(a, topics)) == 1)


def test_a_gateway_that_ends_answers_what_it_took(tmp_path: Path) -> None:
    """A batch that waits for its flush is stored and acknowledged first; what comes behind is to go elsewhere."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log", "--flush-savings-max-ms", "0") as gateway:
        gateway.topic("slow", flush_ms=60_000)
        with Wire(gateway.kafka) as wire, Wire(gateway.kafka) as late:
            wire.ask(PRODUCE, 9, **asked("slow"))
            late.call("api_versions", 0)
            until(lambda: gateway.metric("tidelog_buffered_bytes") > 0)
            gateway.process.send_signal(signal.SIGTERM)
            (told,) = wire.answer(PRODUCE, 9).responses
            assert (told.partition_responses[0].error_code, told.partition_responses[0].base_offset) == (0, 0)
            assert late.is_closed()
        gateway.process.wait(30)


def _leader(gateway: KafkaGateway, topic: str) -> int:
    with Wire(gateway.kafka) as wire:
        (told,) = wire.call(METADATA, 5, topics=[{"name": topic}], allow_auto_topic_creation=False).topics
        leader: int = told.partitions[0].leader_id
        return leader


def _leaders(gateway: KafkaGateway, topics: list[str]) -> set[int]:
    listed = AdminClient({"bootstrap.servers": gateway.kafka}).list_topics(timeout=10)
    return {listed.topics[topic].partitions[0].leader for topic in topics} & set(listed.brokers)
