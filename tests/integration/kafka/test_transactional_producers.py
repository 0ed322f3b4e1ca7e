"""Transactions of Kafka's own clients: seen at the commit only, by Kafka's clients and by HTTP; aborted, fenced, with offsets."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonPartition
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway


def transactional(gateway: KafkaGateway, name: str, **more: object) -> Producer:
    """Of confluent-kafka, ready to begin."""
    producer = Producer({"bootstrap.servers": gateway.kafka, "transactional.id": name, **more})
    producer.init_transactions(30)
    return producer


def values(gateway: KafkaGateway, topic: str, partition: int = 0) -> list[str]:
    return [value for _, value in gateway.read(topic, partition)]


def group_offset(gateway: KafkaGateway, group: str, topic: str) -> int | None:
    """As HTTP tells it."""
    found = gateway.http.get(f"/v1/groups/{group}/offsets").json()
    return next((one["offset"] for one in found.get("offsets", ()) if one["topic"] == topic), None)


def test_confluent_kafka_sees_records_at_the_commit_only(gateway: KafkaGateway) -> None:
    """Several transactions of one epoch, an aborted one between them: its records never come, sequences go on."""
    gateway.topic("txn-confluent", 2)
    producer = transactional(gateway, "txn-confluent", **{"linger.ms": 1})
    told: list[int | None] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        told.append(message.offset())

    for number, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in (0, 1):
            for record in range(50):
                producer.produce(
                    "txn-confluent", f"{number}-{record}".encode(), partition=partition, on_delivery=delivered
                )
        assert producer.flush(30) == 0
        assert len(values(gateway, "txn-confluent")) == (0, 50, 50)[number]
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    expected = [f"{number}-{record}" for number in (0, 2) for record in range(50)]
    assert values(gateway, "txn-confluent", 0) == values(gateway, "txn-confluent", 1) == expected
    assert set(told) == {None}, "a record has no offset before the commit"

    consumer = Consumer(
        {
            "bootstrap.servers": gateway.kafka,
            "group.id": "readers",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition("txn-confluent", 1, 0)])
    found = [message.value() for message in consumer.consume(100, 30)]
    consumer.close()
    assert [value.decode() for value in found if value is not None] == expected


def test_confluent_kafka_is_fenced_by_its_successor(gateway: KafkaGateway) -> None:
    """What the older one has staged never comes."""
    gateway.topic("txn-fenced")
    old = transactional(gateway, "txn-fenced")
    old.begin_transaction()
    old.produce("txn-fenced", b"old")
    old.flush(30)
    new = transactional(gateway, "txn-fenced")
    with pytest.raises(KafkaException) as caught:
        old.commit_transaction(30)
    assert caught.value.args[0].fatal()
    new.begin_transaction()
    new.produce("txn-fenced", b"new")
    new.commit_transaction(30)
    assert values(gateway, "txn-fenced") == ["new"]


def test_confluent_kafka_consumes_transforms_and_produces(gateway: KafkaGateway) -> None:
    """The group's offset and the records come together, or not at all."""
    gateway.topic("txn-in")
    gateway.topic("txn-out")
    gateway.produce("txn-in", *(str(number) for number in range(20)))
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.kafka,
            "group.id": "transformers",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["txn-in"])
    producer = transactional(gateway, "txn-transformer")
    for commits in (False, True):
        messages: list[Message] = []
        while len(messages) < 20:
            messages += consumer.consume(20 - len(messages), 10)
        producer.begin_transaction()
        for message in messages:
            producer.produce("txn-out", b"x" + (message.value() or b""))
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30
        )
        if commits:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
            consumer.seek(TopicPartition("txn-in", 0, 0))
        assert group_offset(gateway, "transformers", "txn-in") == (20 if commits else None)
    consumer.close()
    assert values(gateway, "txn-out") == [f"x{number}" for number in range(20)]


def test_kafka_python(gateway: KafkaGateway) -> None:
    """Version 3: two transactions with offsets of a group, one of them aborted."""
    gateway.topic("txn-python-in")
    gateway.topic("txn-python", 2)
    gateway.produce("txn-python-in", "a", "b")
    consumer = KafkaConsumer(
        "txn-python-in",
        bootstrap_servers=gateway.kafka,
        group_id="python-transformers",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    while not consumer.poll(1000):
        pass
    producer = KafkaProducer(bootstrap_servers=gateway.kafka, transactional_id="txn-python")
    producer.init_transactions()
    offsets = {PythonPartition("txn-python-in", 0): OffsetAndMetadata(2, "", -1)}
    for commits in (False, True):
        producer.begin_transaction()
        sent = [
            producer.send("txn-python", f"{commits}-{number}".encode(), partition=number % 2) for number in range(40)
        ]
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        producer.flush()
        assert {one.get(timeout=30).offset for one in sent} == {-1}
        assert values(gateway, "txn-python") == []
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
        assert group_offset(gateway, "python-transformers", "txn-python-in") == (2 if commits else None)
    producer.close()
    consumer.close()
    assert values(gateway, "txn-python") == [f"True-{number}" for number in range(0, 40, 2)]


def test_aiokafka(gateway: KafkaGateway) -> None:
    """Transactions with offsets of a group whose client names no member; then it is fenced."""
    gateway.topic("txn-aio-in")
    gateway.topic("txn-aio")
    gateway.produce("txn-aio-in", "a", "b")

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            "txn-aio-in",
            bootstrap_servers=gateway.kafka,
            group_id="aio-transformers",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        producer = AIOKafkaProducer(bootstrap_servers=gateway.kafka, transactional_id="txn-aio")
        await consumer.start()
        await producer.start()
        await consumer.getmany(timeout_ms=10_000)
        for number in range(3):
            async with producer.transaction():
                sent = await producer.send_and_wait("txn-aio", str(number).encode())
                assert sent.offset < 0
                await producer.send_offsets_to_transaction({AioPartition("txn-aio-in", 0): number}, "aio-transformers")
                assert len(values(gateway, "txn-aio")) == number
            assert group_offset(gateway, "aio-transformers", "txn-aio-in") == number
        async with AIOKafkaProducer(bootstrap_servers=gateway.kafka, transactional_id="txn-aio"):
            with pytest.raises(ProducerFenced):
                async with producer.transaction():
                    await producer.send_and_wait("txn-aio", b"old")
        await consumer.stop()
        await producer.stop()

    asyncio.run(run())
    assert values(gateway, "txn-aio") == ["0", "1", "2"]


def test_a_rebalance_does_not_undo_a_transactions_offsets(gateway: KafkaGateway) -> None:
    """They are judged when they come.

    Until the transaction ends, a client that wants stable offsets is told to ask again.
    """
    topic, group, name = gateway.topic("txn-rebalanced"), "txn-rebalanced", "txn-rebalanced"
    place = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": None}
    asked: dict[str, Any] = {"group_id": group, "topics": [{"name": topic, "partition_indexes": (0,)}]}
    with Wire(gateway.kafka) as wire:

        def fetched(*, is_stable: bool) -> tuple[KafkaError, int]:
            answer = wire.call("offset_fetch", 8, groups=[asked], require_stable=is_stable)
            found = answer.groups[0].topics[0].partitions[0]
            return found.error_code, found.committed_offset

        begun = wire.call(
            "init_producer_id", 4, transactional_id=name, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1
        )
        producer: dict[str, Any] = {"producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}
        producer |= {"transactional_id": name}
        assert wire.call("add_offsets_to_txn", 3, **producer, group_id=group).error_code is KafkaError.none
        offsets = {"group_id": group, "topics": [{"name": topic, "partitions": [place]}]}
        answer = wire.call("txn_offset_commit", 3, **producer, **offsets, generation_id=-1, member_id="")
        assert answer.topics[0].partitions[0].error_code is KafkaError.none
        joining: dict[str, Any] = {"session_timeout": 20_000, "rebalance_timeout": 20_000, "protocol_type": "consumer"}
        joining |= {"group_id": group, "member_id": "", "protocols": [{"name": "range", "metadata": b""}]}
        assert wire.call("join_group", 3, **joining).error_code is KafkaError.none
        assert fetched(is_stable=True) == (KafkaError.unstable_offset_commit, -1)
        assert fetched(is_stable=False) == (KafkaError.none, -1)
        assert wire.call("end_txn", 3, **producer, committed=True).error_code is KafkaError.none
        assert fetched(is_stable=True) == fetched(is_stable=False) == (KafkaError.none, 5)


def test_offsets_in_a_transaction_are_of_partitions_that_are_there(gateway: KafkaGateway) -> None:
    """A partition below 0 is unknown as one above the last, and metadata have the bound of OffsetCommit: as by a broker."""
    topic, group = gateway.topic("there", 2), "there"
    with Wire(gateway.kafka) as wire:
        init = {"transactional_id": "there", "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        begun = wire.call("init_producer_id", 4, **init)
        producer = {
            "transactional_id": "there", "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch,
        }  # fmt: skip
        assert wire.call("add_offsets_to_txn", 3, **producer, group_id=group).error_code is KafkaError.none

        def sent(*partitions: int, metadata: str = "") -> list[KafkaError]:
            places = [
                {"partition_index": one, "committed_offset": 5, "committed_metadata": metadata} for one in partitions
            ]
            places += [{"partition_index": 1, "committed_offset": 7, "committed_metadata": ""}]
            offsets = {"group_id": group, "topics": [{"name": topic, "partitions": places}]}
            answer = wire.call("txn_offset_commit", 3, **producer, **offsets, generation_id=-1, member_id="")
            return [one.error_code for one in answer.topics[0].partitions]

        unknown = KafkaError.unknown_topic_or_partition
        assert sent(2) == sent(-1) == sent(-(2**31)) == [unknown, unknown]
        assert sent(0, metadata="x" * 4_097) == [KafkaError.offset_metadata_too_large, KafkaError.none]
        assert wire.call("end_txn", 3, **producer, committed=True).error_code is KafkaError.none
    told = gateway.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [(one["partition"], one["offset"]) for one in told] == [(1, 7)]


@pytest.mark.parametrize("version", range(4))
def test_partitions_join_a_transaction_together_or_not_at_all(gateway: KafkaGateway, version: int) -> None:
    """Where one is unknown it is told so, the others that nothing was tried, and no transaction is begun: as by a broker."""
    topic, name = gateway.topic(f"joins-{version}", 2), f"joins-{version}"
    with Wire(gateway.kafka) as wire:
        init = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        begun = wire.call("init_producer_id", 4, **init)
        producer = {"transactional_id": name, "producer_id": begun.producer_id, "producer_epoch": begun.producer_epoch}

        def joined(*topics: tuple[str, tuple[int, ...]]) -> dict[tuple[str, int], KafkaError]:
            asked = {f"v3_and_below_{key}": value for key, value in producer.items()}
            asked |= {"v3_and_below_topics": [{"name": each, "partitions": some} for each, some in topics]}
            answer = wire.call("add_partitions_to_txn", version, **asked)
            return {
                (of_topic.name, one.partition_index): one.partition_error_code
                for of_topic in answer.results_by_topic_v3_and_below
                for one in of_topic.results_by_partition
            }

        def state() -> str:
            told = wire.call("list_transactions", 0, state_filters=(), producer_id_filters=(begun.producer_id,))
            (one,) = told.transaction_states
            return str(one.transaction_state)

        unknown, untried = KafkaError.unknown_topic_or_partition, KafkaError.operation_not_attempted
        assert joined((topic, (0, 7)), ("no-such-topic", (0,))) == {
            (topic, 0): untried,
            (topic, 7): unknown,
            ("no-such-topic", 0): unknown,
        }
        assert state() == "Empty"
        assert joined((topic, (0, 1))) == dict.fromkeys([(topic, 0), (topic, 1)], KafkaError.none)
        assert state() == "Ongoing"


def test_an_epoch_beyond_the_newest_is_fenced_and_an_unknown_producer_is_not(gateway: KafkaGateway) -> None:
    """As by a broker: an epoch of the transactional id's own producer that never began is ``PRODUCER_FENCED``, which ends a
    client; another producer id is ``INVALID_PRODUCER_ID_MAPPING``."""
    name = "beyond"
    with Wire(gateway.kafka) as wire:
        init = {"transactional_id": name, "transaction_timeout": 60_000, "producer_id": -1, "producer_epoch": -1}
        begun = wire.call("init_producer_id", 4, **init)

        def told(producer_id: int, epoch: int, version: int) -> tuple[KafkaError, KafkaError]:
            producer = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": epoch}
            added = wire.call("add_offsets_to_txn", version, **producer, group_id="beyond")
            ended = wire.call("end_txn", version, **producer, committed=True)
            return added.error_code, ended.error_code

        fenced, old = KafkaError.producer_fenced, KafkaError.invalid_producer_epoch
        assert told(begun.producer_id, begun.producer_epoch + 1, 2) == (fenced, fenced)
        assert told(begun.producer_id, begun.producer_epoch + 1, 1) == (old, old)
        mapping = KafkaError.invalid_producer_id_mapping
        assert told(begun.producer_id + 7, begun.producer_epoch, 2) == (mapping, mapping)
