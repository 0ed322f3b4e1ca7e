"""A request that lay in a frozen gateway says nothing once its client has gone on: no later transaction ends by it."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway

NAME = "late"
NONE = KafkaError.none


class Transactional:
    """A client of version 1, as it goes on at any gateway."""

    def __init__(self, gateway: KafkaGateway) -> None:
        with Wire(gateway.kafka) as wire:
            begun = wire.call(
                "init_producer_id",
                4,
                transactional_id=NAME,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
        self.producer: dict[str, Any] = {
            "transactional_id": NAME,
            "producer_id": begun.producer_id,
            "producer_epoch": begun.producer_epoch,
        }
        self.sequence = 0

    def send(self, wire: Wire, topic: str, value: bytes) -> None:
        """A record, in the transaction that it begins if none is open."""
        by_version = {f"v3_and_below_{name}": given for name, given in self.producer.items()}
        topics = [{"name": topic, "partitions": (0,)}]
        wire.call("add_partitions_to_txn", 3, **by_version, v3_and_below_topics=topics)
        ids = (self.producer["producer_id"], self.producer["producer_epoch"], self.sequence)
        builder = DefaultRecordBatchBuilder(2, 0, 1, *ids, 1 << 20)
        builder.append(0, 1_700_000_000_000, None, value, [])
        data = [{"name": topic, "partition_data": [{"index": 0, "records": bytes(builder.build())}]}]
        sent = wire.call("produce", 9, transactional_id=NAME, acks=-1, timeout=1000, topic_data=data)
        assert sent.responses[0].partition_responses[0].error_code is NONE
        self.sequence += 1

    def end(self, wire: Wire, *, committed: bool) -> KafkaError:
        error: KafkaError = wire.call("end_txn", 3, **self.producer, committed=committed).error_code
        return error


def test_a_late_commit_does_not_commit_the_next_transaction(tmp_path: Path) -> None:
    """The client asks a frozen gateway, gives up, commits at another one and begins anew: that one is its to abort."""
    store = tmp_path / "store"
    with kafka_gateway(store, tmp_path / "a") as frozen, kafka_gateway(store, tmp_path / "b") as other:
        topic = other.topic("t")
        client = Transactional(other)
        with Wire(frozen.kafka) as late, Wire(other.kafka) as wire:
            late.call("api_versions", 0)
            client.send(wire, topic, b"first")
            frozen.process.send_signal(signal.SIGSTOP)
            late.ask("end_txn", 3, **client.producer, committed=True)
            late.socket.close()
            assert client.end(wire, committed=True) is NONE
            client.send(wire, topic, b"second")
            frozen.process.send_signal(signal.SIGCONT)
            with Wire(frozen.kafka) as again:  # what came later is served: so is what was there before, if it ever is
                for _ in range(20):
                    again.call("api_versions", 0)
                    again.call("list_transactions", 0, state_filters=(), producer_id_filters=())
            assert client.end(wire, committed=False) is NONE
        assert [value for _, value in other.read(topic)] == ["first"]


@pytest.mark.parametrize(
    ("name", "version", "asked"),
    [
        ("delete_topics", 5, {"topic_names": ["t"]}),
        ("delete_records", 2, {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 1}]}]}),
    ],
)
def test_a_late_deletion_spares_the_topic_made_anew(
    tmp_path: Path, name: str, version: int, asked: dict[str, Any]
) -> None:
    """The client asks a frozen gateway for a topic by name, gives up, asks another one, and makes the topic anew."""
    store = tmp_path / "store"
    with kafka_gateway(store, tmp_path / "a") as frozen, kafka_gateway(store, tmp_path / "b") as other:
        other.topic("t")
        assert frozen.produce("t", "before").status_code == 200
        with Wire(frozen.kafka) as late, Wire(other.kafka) as wire:
            late.call("api_versions", 0)
            frozen.process.send_signal(signal.SIGSTOP)
            late.ask(name, version, **asked, timeout=1000)
            late.socket.close()
            wire.call(name, version, **asked, timeout=1000)
            other.http.delete("/v1/topics/t")
            other.topic("t")
            assert other.produce("t", "new").status_code == 200
            frozen.process.send_signal(signal.SIGCONT)
            with Wire(frozen.kafka) as again:  # as above
                for _ in range(20):
                    again.call("api_versions", 0)
                    again.call("list_transactions", 0, state_filters=(), producer_id_filters=())
        assert [value for _, value in other.read("t")] == ["new"]
