"""Fetch: producers' batches as they are, codecs, sessions (KIP-227), and connections beyond the bounds."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, Producer, TopicPartition
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.certificate_authority import Authority
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.waiting import until

LIMITS: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 8 << 20, "replica_id": -1, "rack_id": ""}
TIME_MS = 1_700_000_000_000


def batch_of(values: Sequence[bytes], codec: int = 0, first_ms: int = TIME_MS) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 22)
    for number, value in enumerate(values):
        builder.append(number, first_ms + number, None, value, [])
    return bytes(builder.build())


def many(mark: str, count: int = 40) -> list[bytes]:
    return [f"{mark}{number:03}".encode() for number in range(count)]


def produce(wire: Wire, topic: str, batch: bytes, partition: int = 0) -> KafkaError:
    data = [{"name": topic, "partition_data": [{"index": partition, "records": batch}]}]
    asked: dict[str, Any] = {"transactional_id": None, "acks": -1, "timeout": 1000, "topic_data": data}
    code: KafkaError = wire.call("produce", 9, **asked).responses[0].partition_responses[0].error_code
    return code


def asked(topic: str, offsets: dict[int, int], bytes_max: int = 1 << 20) -> dict[str, Any]:
    return {
        "topic": topic,
        "partitions": [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}
            for partition, offset in offsets.items()
        ],
    }


def fetched(wire: Wire, topic: str, offset: int, version: int = 12, bytes_max: int = 1 << 20) -> bytes:
    answer = wire.call(
        "fetch", version, **LIMITS, topics=[asked(topic, {0: offset}, bytes_max)], forgotten_topics_data=()
    )
    (partition,) = answer.responses[0].partitions
    assert partition.error_code is KafkaError.none
    return bytes(partition.records)


def values_of(data: bytes) -> list[tuple[int, bytes | None]]:
    records, found = MemoryRecords(data), []
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(record.offset, record.value) for record in batch]
    return found


def codec_of(batch: bytes) -> int:
    return batch[22] & 7


def test_the_least_bytes_are_those_of_batches(gateway: KafkaGateway) -> None:
    """A record of three bytes is a batch of more than ten, so ``fetch.min.bytes`` of ten is there: the consumer does not wait."""
    topic = gateway.topic("least-bytes")
    producer = Producer({"bootstrap.servers": gateway.kafka})
    producer.produce(topic, b"abc")
    assert producer.flush(30) == 0
    wants = {"fetch.min.bytes": 10, "fetch.wait.max.ms": 120_000, "socket.timeout.ms": 180_000}
    consumer = Consumer(
        {"bootstrap.servers": gateway.kafka, "group.id": "least", "auto.offset.reset": "earliest", **wants}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        record = consumer.poll(30)
        assert record is not None, "it waits for keys and values of ten bytes"
        assert record.value() == b"abc"
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", range(5))
def test_a_producer_s_batch_comes_as_it_was_sent(gateway: KafkaGateway, codec: int) -> None:
    """But for its offset and the leader's epoch; from within it, too. Clients that do not know its codec get it uncompressed."""
    topic = gateway.topic(f"as-sent-{codec}")
    first, second = batch_of(many("a"), codec), batch_of(many("b"), codec, TIME_MS + 500)
    with Wire(gateway.kafka) as wire:
        assert produce(wire, topic, first) is produce(wire, topic, second) is KafkaError.none
        data = fetched(wire, topic, 0)
        assert len(data) == len(first) + len(second)
        assert (data[16 : len(first)], data[len(first) + 16 :]) == (first[16:], second[16:])
        expected = list(enumerate([*many("a"), *many("b")]))
        assert values_of(data) == expected
        assert values_of(fetched(wire, topic, 55)) == expected[55:], "nothing before what was asked for"
        assert values_of(fetched(wire, topic, 0, bytes_max=1)) == expected[:40]
        assert values_of(fetched(wire, topic, 0, bytes_max=4 * 60)) == expected[:40], "not half a batch"
        old = fetched(wire, topic, 0, version=9)
        assert values_of(old) == expected
        assert codec_of(old) == (0 if codec == 4 else codec)


def test_a_small_batch_comes_whole(gateway: KafkaGateway) -> None:
    """As from a broker, also with a limit below its second record; a limit holds for more than that."""
    topic = gateway.topic("small-whole")
    small = [bytes([number]) * 136 for number in range(2)]
    with Wire(gateway.kafka) as wire:
        produce(wire, topic, batch_of(small))
        assert values_of(fetched(wire, topic, 0, bytes_max=180)) == list(enumerate(small))
        for _ in range(40):
            produce(wire, topic, batch_of(small))
        assert 2 < len(values_of(fetched(wire, topic, 0, bytes_max=180))) <= 4096 // 136


def test_a_batch_that_is_small_by_its_compression_comes_as_it_was_sent(gateway: KafkaGateway) -> None:
    """What its records take counts: encoded anew it would be many times as large."""
    topic = gateway.topic("zeros")
    batch = batch_of([bytes(100_000)] * 3, 1)
    assert len(batch) < 4096
    with Wire(gateway.kafka) as wire:
        assert produce(wire, topic, batch) is KafkaError.none
        assert fetched(wire, topic, 0)[16:] == batch[16:]


def test_producers_batches_and_others_are_one_log(gateway: KafkaGateway) -> None:
    """Small batches and what came by HTTP are encoded between them; each record comes once, in order."""
    topic = gateway.topic("between", compression_type="lz4")
    with Wire(gateway.kafka) as wire:
        gateway.produce(topic, "h0", "h1")
        produce(wire, topic, batch_of(many("a")))
        produce(wire, topic, batch_of([b"few"]))
        produce(wire, topic, batch_of(many("b"), 1))
        gateway.produce(topic, "h2")
        expected = list(enumerate([b"h0", b"h1", *many("a"), b"few", *many("b"), b"h2"]))
        for offset in (0, 1):
            assert values_of(fetched(wire, topic, offset)) == expected[offset:]
        data = fetched(wire, topic, 0)
        assert codec_of(data) == 3, "the topic's setting is for what the gateway encodes"
        assert values_of(fetched(wire, topic, 60))[-1] == expected[-1]


def test_bytes_that_would_say_something_else_are_not_given(gateway: KafkaGateway) -> None:
    """Without a time the gateway's counts; with LogAppendTime, too; deleted and compacted records do not come back."""
    timeless, stamped = gateway.topic("timeless"), gateway.topic("stamped", message_timestamp_type="LogAppendTime")
    deleted = gateway.topic("deleted")
    with Wire(gateway.kafka) as wire:
        for topic in (timeless, stamped):
            before = int(time.time() * 1000)
            builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 22)
            for number, value in enumerate(many("a")):
                builder.append(number, -1 if topic == timeless else TIME_MS, None, value, [])
            produce(wire, topic, bytes(builder.build()))
            batch = MemoryRecords(fetched(wire, topic, 0)).next_batch()
            assert all(before <= record.timestamp <= before + 20_000 for record in batch)
        produce(wire, deleted, batch_of(many("a")))
        gateway.http.post(f"/v1/topics/{deleted}:delete-records", json={"before": [{"partition": 0, "offset": 40}]})
        produce(wire, deleted, batch_of(many("b")))
        assert values_of(fetched(wire, deleted, 40)) == list(enumerate(many("b"), 40))


def test_times_that_the_gateway_set_are_told_as_such(gateway: KafkaGateway) -> None:
    """With the type LogAppendTime, each its own. Many that a producer set before the topic's setting changed are CreateTime."""
    stamped, changed = (
        gateway.topic("append-time", message_timestamp_type="LogAppendTime"),
        gateway.topic("changed-time"),
    )
    for number in range(3):
        gateway.produce(stamped, f"{number}-a", f"{number}-b")
    records = [{"value": str(number), "timestamp": TIME_MS + number} for number in range(500)]
    path = f"/v1/topics/{changed}/partitions/0/records"
    assert gateway.http.post(path, json={"records": records}).status_code == 200
    config = {"config": {"message.timestamp.type": "LogAppendTime"}}
    assert gateway.http.patch(f"/v1/topics/{changed}", json=config).status_code == 200
    for topic, count, kind in ((stamped, 6, TIMESTAMP_LOG_APPEND_TIME), (changed, 500, TIMESTAMP_CREATE_TIME)):
        answer = gateway.http.get(f"/v1/topics/{topic}/partitions/0/records?offset=earliest&max_records=500").json()
        expected = [(one["offset"], one["timestamp"], one["value"].encode()) for one in answer["records"]]
        assert len(expected) == count
        for start in (0, 3):
            consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": "x", "enable.auto.commit": False})
            consumer.assign([TopicPartition(topic, 0, start)])
            found = consumer.consume(count - start, 10)
            consumer.close()
            assert {one.timestamp()[0] for one in found} == {kind}
            assert [(one.offset(), one.timestamp()[1], one.value()) for one in found] == expected[start:]


@pytest.mark.parametrize(("name", "codec"), [("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4), (None, 0)])
def test_the_topic_s_codec_is_that_of_encoded_batches(gateway: KafkaGateway, name: str | None, codec: int) -> None:
    """Where a user set it; each client reads it."""
    topic = gateway.topic(f"codec-{codec}", 1, compression_type=name)
    gateway.produce(topic, *(f"value-{number}" for number in range(50)))
    expected = [(number, f"value-{number}".encode()) for number in range(50)]
    with Wire(gateway.kafka) as wire:
        data = fetched(wire, topic, 0)
        assert (codec_of(data), values_of(data)) == (codec, expected)
        assert codec_of(fetched(wire, topic, 0, version=9)) == (0 if name == "zstd" else codec)
    consumer = Consumer({"bootstrap.servers": gateway.kafka, "group.id": "x", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert [(one.offset(), one.value()) for one in consumer.consume(50, 10)] == expected
    consumer.close()


def test_a_session_names_its_partitions_once(gateway: KafkaGateway) -> None:
    """Then requests have what changes, and answers what is new; by name and by id."""
    topic = gateway.topic("sessions", 50)
    gateway.produce(topic, "old", partition=7)
    with Wire(gateway.kafka) as wire:
        (told,) = wire.call("metadata", 12, topics=[{"topic_id": None, "name": topic}], allow_auto_topic_creation=False,
                            include_topic_authorized_operations=False).topics  # fmt: skip
        for fresh, version in enumerate((7, 12, 13, 18)):
            names = {"topic": topic, "topic_id": told.topic_id}

            def ask(
                session: tuple[int, int],
                offsets: dict[int, int],
                forgotten: tuple[int, ...] = (),
                version: int = version,
                names: dict[str, Any] = names,
            ) -> Any:
                topics = [asked(topic, offsets) | names] if offsets else []
                gone = [names | {"partitions": forgotten}] if forgotten else []
                epochs = {"session_id": session[0], "session_epoch": session[1]}
                return wire.call("fetch", version, **LIMITS, **epochs, topics=topics, forgotten_topics_data=gone)

            answer = ask((0, 0), dict.fromkeys(range(7, 50), 0) | {fresh: 0})
            session = answer.session_id
            assert session > 0
            assert len(answer.responses[0].partitions) == 44
            quiet = ask((session, 1), {7: 1})
            assert (quiet.error_code, quiet.session_id, _told(quiet)) == (KafkaError.none, session, [])
            gateway.produce(topic, f"new-{version}", partition=fresh)
            assert _told(ask((session, 2), {})) == [fresh]
            assert _told(ask((session, 3), {}, (fresh,))) == [], "forgotten"
            assert ask((session, 3), {}).error_code is KafkaError.invalid_fetch_session_epoch
            assert ask((session + 1, 4), {}).error_code is KafkaError.fetch_session_id_not_found
            assert _told(ask((session, 4), {99: 0})) == [99], "an error is told each time"
            assert _told(ask((session, 5), {})) == [99]
            assert len(_told(ask((session, -1), {0: 0}))) == 1
            assert ask((session, 6), {}).error_code is KafkaError.fetch_session_id_not_found


def _told(answer: Any) -> list[int]:
    return [partition.partition_index for topic in answer.responses for partition in topic.partitions]


def test_a_waiting_session_gets_what_comes_to_one_of_a_thousand(gateway: KafkaGateway) -> None:
    """Its request and its answer have only that partition."""
    topic = gateway.topic("thousand", 1000)
    with Wire(gateway.kafka) as wire:
        limits = LIMITS | {"max_wait": 20_000}
        first = wire.call("fetch", 12, **LIMITS, session_id=0, session_epoch=0,
                          topics=[asked(topic, dict.fromkeys(range(1000), 0))], forgotten_topics_data=())  # fmt: skip
        assert len(_told(first)) == 1000
        session = {"session_id": first.session_id, "session_epoch": 1}
        wire.ask("fetch", 12, **limits, **session, topics=[], forgotten_topics_data=())
        time.sleep(0.3)
        gateway.produce(topic, "now", partition=777)
        answer = wire.answer("fetch", 12)
        assert _told(answer) == [777]
        assert values_of(bytes(answer.responses[0].partitions[0].records)) == [(0, b"now")]


def test_no_partition_of_a_session_is_left_out_for_ever(gateway: KafkaGateway) -> None:
    """What gave records goes behind the others: so all come in turn within small answers."""
    topic = gateway.topic("in-turn", 4)
    for partition in range(4):
        gateway.produce(topic, *["x" * 1000] * 20, partition=partition)
    offsets, seen = dict.fromkeys(range(4), 0), []
    with Wire(gateway.kafka) as wire:
        limits = LIMITS | {"max_bytes": 1000}
        session, epoch, changed = 0, 0, offsets
        for _ in range(8):
            answer = wire.call("fetch", 12, **limits, session_id=session, session_epoch=epoch,
                               topics=[asked(topic, changed)], forgotten_topics_data=())  # fmt: skip
            session, epoch, changed = answer.session_id, epoch + 1, {}
            for partition in answer.responses[0].partitions:
                if partition.records:
                    seen.append(partition.partition_index)
                    changed = {partition.partition_index: values_of(bytes(partition.records))[-1][0] + 1}
    assert seen == [0, 1, 2, 3, 0, 1, 2, 3]


def test_the_topic_s_limit_is_for_batches(gateway: KafkaGateway) -> None:
    """As a broker's: a batch beyond it is refused, though each of its records is small; compressed it may pass."""
    topic = gateway.topic("limit", max_message_bytes=2_000)
    values = [b"x" * 100] * 40
    with Wire(gateway.kafka) as wire:
        assert produce(wire, topic, batch_of(values)) is KafkaError.message_too_large
        assert produce(wire, topic, batch_of(values, 1)) is KafkaError.none
        assert produce(wire, topic, batch_of(values[:10])) is KafkaError.none
        assert len(values_of(fetched(wire, topic, 0))) == 50


def test_a_thousand_requests_of_a_producer_wait_side_by_side(gateway: KafkaGateway) -> None:
    """librdkafka sends one for each partition: they share a flush, and none waits for another's."""
    topic = gateway.topic("side-by-side", 300, flush_ms=3_000)
    producer = Producer({"bootstrap.servers": gateway.kafka, "linger.ms": 0})
    began = time.monotonic()
    for partition in range(300):
        producer.produce(topic, b"x", partition=partition)
    assert producer.flush(30) == 0
    assert time.monotonic() - began < 20, "32 at a time would take ten flushes"


def test_connections_beyond_the_bounds_are_closed(tmp_path: Path, authority: Authority) -> None:
    """Handshakes that are never done count; when they are over there is room again."""
    cert, key = authority.issue()
    settings = ("--tls-cert", cert, "--tls-key", key, "--kafka-connections-max", "3", "--head-ms", "2000")
    with kafka_gateway(tmp_path / "store", tmp_path / "log", *settings, trust=authority.trust()) as gateway:
        host, _, port = gateway.kafka.rpartition(":")
        silent = [socket.create_connection((host, int(port)), timeout=10) for _ in range(3)]
        until(lambda: not _is_served(gateway.kafka, authority.trust()))
        assert gateway.metric('tidelog_kafka_connections_refused_total{reason="too_many"}') >= 1
        until(lambda: _is_served(gateway.kafka, authority.trust()))
        for one in silent:
            one.close()


def test_an_address_has_its_share(tmp_path: Path) -> None:
    """Further connections of it are closed, while the listener has room."""
    with kafka_gateway(tmp_path / "store", tmp_path / "log", "--kafka-connections-per-address-max", "2") as gateway:
        with Wire(gateway.kafka) as first, Wire(gateway.kafka) as second:
            assert first.call("api_versions", 0).error_code is second.call("api_versions", 0).error_code
            assert not _is_served(gateway.kafka, None)
        until(lambda: _is_served(gateway.kafka, None))


def _is_served(address: str, trust: ssl.SSLContext | None) -> bool:
    try:
        with Wire(address, trust, seconds=5) as wire:
            return wire.call("api_versions", 0).error_code is KafkaError.none
    except Exception:  # noqa: BLE001 - refused in whatever way
        return False


pytestmark = pytest.mark.timeout(120)
