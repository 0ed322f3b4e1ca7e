"""Programs written for Kafka's clients, over a gateway: what they call, and what they get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_process import GatewayProcess, running_gateway
from tidelog.compat import confluent_kafka as confluent
from tidelog.compat.confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from tidelog.compat.confluent_kafka.admin import NewTopic as ConfluentTopic
from tidelog.compat.kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from tidelog.compat.kafka import admin as python_admin
from tidelog.compat.kafka.errors import (
    IllegalStateError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    directory: Path = tmp_path_factory.mktemp("compat")
    with running_gateway(directory / "store", directory / "gateway.log") as started:
        yield started


@pytest.fixture
def address(gateway: GatewayProcess) -> str:
    """As Kafka's clients are given one: host and port."""
    return gateway.url.removeprefix("http://")


def test_a_program_for_kafka_python(address: str) -> None:
    """Topics, serializers, futures and their callbacks, a group, positions, offsets, seeking: in one run."""
    admin = KafkaAdminClient(bootstrap_servers=address, client_id="setup")
    new = python_admin.NewTopic(
        "bills", num_partitions=2, replication_factor=3, topic_configs={"retention.ms": "86400000"}
    )
    admin.create_topics([new])
    with pytest.raises(TopicAlreadyExistsError) as refused:
        admin.create_topics([new])
    assert isinstance(refused.value, KafkaError)
    assert refused.value.errno == 36
    assert "bills" in admin.list_topics()

    stored: list[Any] = []
    producer = KafkaProducer(
        bootstrap_servers=address, client_id="p", acks="all", retries=5, linger_ms=10, batch_size=65536, compression_type="gzip",
        key_serializer=str.encode, value_serializer=lambda value: json.dumps(value).encode(),
    )  # fmt: skip
    for number in range(6):
        sent = producer.send("bills", {"n": number}, key=f"user-{number % 2}", headers=[("source", b"test")])
        sent.add_callback(stored.append).add_errback(stored.append)
    metadata = producer.send("bills", value={"n": 99}, key="user-9", partition=1).get(timeout=10)
    assert (metadata.topic, metadata.partition, metadata.topic_partition) == ("bills", 1, TopicPartition("bills", 1))
    producer.flush()
    assert sorted((each.topic, each.offset >= 0) for each in stored) == [("bills", True)] * 6
    failed = producer.send("nope", {}, key="k")
    producer.flush()
    assert failed.failed()
    assert isinstance(failed.exception, UnknownTopicOrPartitionError)
    with pytest.raises(UnknownTopicOrPartitionError):
        failed.get()
    assert producer.partitions_for("bills") == {0, 1}
    producer.close(timeout=5)

    _read_as_a_member(address, admin)
    _administer(admin)


def _read_as_a_member(address: str, admin: KafkaAdminClient) -> None:
    """The second half of the program: what was sent is read in a group."""
    consumer = KafkaConsumer(
        "bills", bootstrap_servers=[address], group_id="b", client_id="c", auto_offset_reset="earliest", enable_auto_commit=False,
        max_poll_records=100, max_poll_interval_ms=300_000, session_timeout_ms=30_000, consumer_timeout_ms=3_000,
        value_deserializer=json.loads,
    )  # fmt: skip
    records = list(consumer)
    assert sorted(each.value["n"] for each in records) == [0, 1, 2, 3, 4, 5, 99]
    assert {each.key for each in records} == {b"user-0", b"user-1", b"user-9"}
    assert records[0].headers == [("source", b"test")]
    consumer.commit()
    place = TopicPartition("bills", 1)
    end = consumer.end_offsets([place])[place]
    assert consumer.committed(place) == consumer.position(place) == end == consumer.highwater(place)
    assert consumer.committed(place, metadata=True) == OffsetAndMetadata(end)
    consumer.seek_to_beginning(place)
    again = consumer.poll(timeout_ms=5_000, max_records=1)
    assert {each: [record.offset for record in found] for each, found in again.items()} == {place: [0]}
    topic, partition = place
    assert consumer.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, partition)}
    assert (consumer.subscription(), consumer.partitions_for_topic("bills")) == ({"bills"}, {0, 1})
    assert consumer.partitions_for_topic("nope") is None
    consumer.commit({place: OffsetAndMetadata(1, "by hand")})
    assert admin.list_group_offsets("b")["b"][place] == OffsetAndMetadata(1, "by hand")
    with pytest.raises(IllegalStateError):
        consumer.assign([place])
    consumer.close()


def _administer(admin: KafkaAdminClient) -> None:
    """Settings, partitions, records, groups."""
    place = TopicPartition("bills", 1)
    resource = python_admin.ConfigResource("topic", "bills", {"flush.ms": "0"})
    admin.alter_configs([resource])
    assert admin.describe_configs([python_admin.ConfigResource("topic", "bills")])["bills"]["flush.ms"] == "0"
    admin.create_partitions({"bills": python_admin.NewPartitions(3)})
    assert len(admin.describe_topics(["bills"])[0]["partitions"]) == 3
    assert admin.delete_records({place: 1})[place]["low_watermark"] == 1
    assert [each["group_id"] for each in admin.list_groups()] == ["b"]
    admin.delete_groups(["b"])
    admin.delete_topics(["bills"])
    assert "bills" not in admin.list_topics()
    admin.close()


def test_transactions_of_kafka_python(address: str) -> None:
    """Records and a group's offsets in one, and nothing of an aborted one; no group is needed to read by hand."""
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics({"ledger": {"num_partitions": 1}})
    producer = KafkaProducer(bootstrap_servers=address, transactional_id="ledger-1")
    producer.init_transactions()
    place = TopicPartition("ledger", 0)
    for commit in (False, True):
        producer.begin_transaction()
        producer.send("ledger", b"kept" if commit else b"dropped")
        producer.send_offsets_to_transaction({place: OffsetAndMetadata(7)}, "books")
        (producer.commit_transaction if commit else producer.abort_transaction)()
    producer.close()
    with KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=1_000) as consumer:
        consumer.assign([place])
        assert [each.value for each in consumer] == [b"kept"]
        assert consumer.offsets_for_times({place: 0})[place] is not None
    assert admin.list_group_offsets(["books"])["books"][place].offset == 7
    admin.close()


def test_a_program_for_confluent_kafka(address: str) -> None:
    """Topics by futures, callbacks in the caller's thread, a group with a callback, a transaction for each message."""
    conf = {"bootstrap.servers": address, "client.id": "test"}
    admin = AdminClient(conf)
    new = [ConfluentTopic("in", 3, 1), ConfluentTopic("out", 3, 1)]
    assert [future.result() for future in admin.create_topics(new).values()] == [None, None]
    with pytest.raises(confluent.KafkaException) as refused:
        admin.create_topics(new)["in"].result()
    assert refused.value.args[0].code() == confluent.KafkaError.TOPIC_ALREADY_EXISTS
    assert admin.list_topics(timeout=10).topics.keys() >= {"in", "out"}

    delivered: list[tuple[Any, confluent.Message]] = []
    producer = confluent.Producer({**conf, "linger.ms": 5, "compression.type": "zstd", "enable.idempotence": True})
    for number in range(6):
        producer.produce(
            "in", value=f"order {number}".encode(), key=f"user-{number % 3}", headers={"n": str(number)},
            on_delivery=lambda error, message: delivered.append((error, message)),
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(10) == len(producer) == 0
    assert [error for error, _ in delivered] == [None] * 6
    assert {message.key() for _, message in delivered} == {b"user-0", b"user-1", b"user-2"}
    assert sorted(message.headers() or [] for _, message in delivered) == [[("n", b"%d" % n)] for n in range(6)]
    producer.produce("nope", b"v", callback=lambda error, message: delivered.append((error, message)))
    assert producer.flush(30) == 0
    assert delivered[-1][0] == confluent.KafkaError.UNKNOWN_TOPIC_OR_PART

    assigned: list[list[int]] = []
    read = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = confluent.Consumer({**conf, **read, "group.id": "copier"})
    consumer.subscribe(["in"], on_assign=lambda _, places: assigned.append(sorted(each.partition for each in places)))
    copier = confluent.Producer({**conf, "transactional.id": "copier-1"})
    copier.init_transactions()
    for _ in range(6):
        message = consumer.poll(10.0)
        assert message is not None
        assert message.error() is None
        copier.begin_transaction()
        copier.produce("out", value=message.value().upper(), key=message.key())
        copier.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata())
        copier.commit_transaction()
    assert assigned == [[0, 1, 2]]
    assert consumer.poll(0.2) is None
    places = [confluent.TopicPartition("in", number) for number in range(3)]
    marks = [consumer.get_watermark_offsets(place, timeout=5) for place in places]
    assert sum(high for _, high in marks) == 6
    assert [each.offset for each in consumer.committed(places)] == [high for _, high in marks]
    busiest = max(places, key=lambda place: marks[place.partition][1])
    consumer.seek(confluent.TopicPartition("in", busiest.partition, confluent.OFFSET_BEGINNING))
    assert [each.offset() for each in consumer.consume(num_messages=2, timeout=5)] == [0, 1]
    committed = consumer.commit(asynchronous=False)
    assert committed is not None
    assert {each.partition: each.offset for each in committed}[busiest.partition] == 2
    consumer.close()

    reader = confluent.Consumer({**conf, "group.id": "reader", "auto.offset.reset": "earliest"})
    reader.subscribe(["^ou"])
    assert sorted(each.value() for each in reader.consume(6, timeout=20)) == [b"ORDER %d" % n for n in range(6)]
    reader.close()


def test_settings_and_groups_of_confluent_kafka(address: str) -> None:
    """Settings whole and one by one, partitions, records, groups; offsets that a program stores itself."""
    conf = {"bootstrap.servers": address}
    admin = AdminClient(conf)
    admin.create_topics([ConfluentTopic("set", 1, config={"flush.ms": "0"})])["set"].result()
    resource = ConfigResource(ConfigResource.Type.TOPIC, "set")
    assert admin.describe_configs([resource])[resource].result()["flush.ms"].value == "0"
    resource.add_incremental_config(ConfigEntry("retention.ms", "1000", incremental_operation=AlterConfigOpType.SET))
    admin.incremental_alter_configs([resource])[resource].result()
    found = admin.describe_configs([resource])[resource].result()
    assert (found["retention.ms"].value, found["flush.ms"].value) == ("1000", "0")
    whole = ConfigResource("topic", "set", set_config={"retention.ms": "-1"})
    admin.alter_configs([whole])[whole].result()
    found = admin.describe_configs([resource])[resource].result()
    assert (found["retention.ms"].value, found["flush.ms"].value) == ("-1", "250")
    admin.create_partitions([NewPartitions("set", 2)])["set"].result()
    assert len(admin.list_topics("set").topics["set"].partitions) == 2
    assert admin.list_topics("nope").topics["nope"].error == confluent.KafkaError.UNKNOWN_TOPIC_OR_PART

    producer = confluent.Producer(conf)
    for number in range(4):
        producer.produce("set", b"%d" % number, partition=0)
    assert producer.flush() == 0
    stored = {"enable.auto.offset.store": False, "group.id": "storer", "auto.offset.reset": "earliest"}
    consumer = confluent.Consumer({**conf, **stored})
    consumer.subscribe(["set"])
    first, second = consumer.consume(2, timeout=20)
    assert (first.offset(), second.offset()) == (0, 1)
    consumer.store_offsets(first)
    consumer.close()
    place = confluent.TopicPartition("set", 0)
    with confluent.Consumer({**conf, **stored}) as other:
        assert other.committed([place])[0].offset == 1
        other.assign([confluent.TopicPartition("set", 0, 2)])
        message = other.poll(20)
        assert message is not None
        assert message.offset() == 2
        other.commit(message)
        assert other.committed([place])[0].offset == 3
    assert admin.delete_records([confluent.TopicPartition("set", 0, 3)])[place].result().low_watermark == 3
    assert "storer" in [each.group_id for each in admin.list_consumer_groups().result().valid]
    admin.delete_consumer_groups(["storer"])["storer"].result()
    admin.delete_topics(["set"])["set"].result()
