"""What is no request of Kafka's ends its connection, and nothing else: as a broker does."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.schema.errors import ErrorCode as KafkaError

from tests.support.access import bootstrap_file
from tests.support.kafka_frames import KEYS, Wire, framed
from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.waiting import until

PRODUCE, FETCH, METADATA, API_VERSIONS = "produce", "fetch", "metadata", "api_versions"


def _with_length(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def batch_of(value: bytes) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    builder.append(0, 1_700_000_000_000, None, value, [])
    return bytes(builder.build())


def produced(topic: str, *batches: bytes, acks: int = -1) -> dict[str, Any]:
    data = [{"index": 0, "records": batch} for batch in batches]
    return {
        "transactional_id": None,
        "acks": acks,
        "timeout": 1000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"\0\x03\0\x0d\0\0\0\x01",
        b"\x7f\xff\0\0\0\0\0\x01\xff\xff",
        b"\0\x03\x7f\xff\0\0\0\x01\xff\xff",
        b"\0\x03\0\x04\0\0\0\x01\xff\xff\x7f\xff\xff\xff",
        b"\0\x03\0\x0d\0\0\0\x01\xff\xff\0\xff\xff\xff\xff\x0f",
    ],
    ids=[
        "empty",
        "a byte",
        "half a header",
        "no such key",
        "no such version",
        "a lying count",
        "a lying compact count",
    ],
)
def test_what_is_no_request_closes_the_connection(gateway: KafkaGateway, frame: bytes) -> None:
    """The gateway goes on: the next connection is served."""
    with Wire(gateway.kafka) as wire:
        wire.send(_with_length(frame.ljust(6, b"\0")))
        assert wire.is_closed()
    with Wire(gateway.kafka) as wire:
        assert wire.call(API_VERSIONS, 0).error_code == KafkaError.none


@pytest.mark.parametrize("size", [-1, 2**31 - 1, 20 * 1024 * 1024])
def test_a_frame_beyond_the_bound_is_not_received(gateway: KafkaGateway, size: int) -> None:
    """Its length is enough: no memory is taken for it."""
    with Wire(gateway.kafka) as wire:
        wire.send(struct.pack(">ihh", size, KEYS[PRODUCE], 9))
        assert wire.is_closed()


def test_an_unknown_version_of_api_versions_is_answered(gateway: KafkaGateway) -> None:
    """By version 0, which says what is served (KIP-511): so any client finds a version to speak."""
    with Wire(gateway.kafka) as wire:
        wire.send(_with_length(struct.pack(">hhih", KEYS[API_VERSIONS], 99, 7, -1) + b"\0"))
        frame = wire.frame()
        correlation_id, error, count = struct.unpack_from(">ihi", frame)
        assert (correlation_id, error) == (7, KafkaError.unsupported_version)
        listed = {struct.unpack_from(">hhh", frame, 10 + 6 * index) for index in range(count)}
        assert (KEYS[PRODUCE], 0, 13) in listed
        for version in range(5):
            answer = wire.call(API_VERSIONS, version, client_software_name="x", client_software_version="1")
            assert {(each.api_key, each.min_version, each.max_version) for each in answer.api_keys} == listed


def test_requests_begin_at_once_and_are_answered_in_order(gateway: KafkaGateway) -> None:
    """Many batches are under way on one connection, and keep their order in the log."""
    gateway.topic("order", 1, flush_ms=50)
    with Wire(gateway.kafka) as wire:
        for number in range(60):
            wire.send(framed(PRODUCE, 9, number, **produced("order", batch_of(b"%d" % number))))
        for number in range(60):
            assert struct.unpack_from(">i", wire.frame()) == (number,)
    assert [value for _, value in gateway.read("order")] == [str(number) for number in range(60)]


def test_two_thousand_batches_of_a_connection_wait_side_by_side(tmp_path: Path) -> None:
    """One librdkafka producer of many topics sends each alone: a window of fewer would be its records for each flush."""
    frame = framed(PRODUCE, 9, 1, **produced("window", batch_of(b"x" * 1000)))
    # Half of its connections' requests begin a flush: of fewer connections these would not wait.
    settings = ("--connections-max", "8000", "--flush-savings-max-ms", "0")
    with kafka_gateway("memory://window", tmp_path / "log", *settings) as gateway:
        gateway.topic("window", 1, flush_ms=60_000)
        ends = time.monotonic() + 30
        with Wire(gateway.kafka) as wire:
            wire.send(frame * 2_000)
            while (waiting := gateway.metric("tidelog_buffered_bytes")) < 2_000 * 1_000:
                assert time.monotonic() < ends, f"{waiting} bytes are under way"
                time.sleep(0.1)


def test_each_partition_stands_or_falls_alone(gateway: KafkaGateway) -> None:
    """Codes as a broker's: a wrong checksum, a batch of an old magic, two batches, no batch; the good one stands."""
    gateway.topic("alone", 1)
    good = batch_of(b"good")
    with Wire(gateway.kafka) as wire:
        for version in range(3, 13):
            broken = good[:-1] + bytes([good[-1] ^ 1])
            old = good[:16] + b"\x01" + good[17:]
            asked = produced("alone", good, broken, old, good + good, b"")
            (topic,) = wire.call(PRODUCE, version, **asked).responses
            assert [each.error_code for each in topic.partition_responses] == [
                KafkaError.none,
                KafkaError.corrupt_message,
                KafkaError.unsupported_for_message_format,
                KafkaError.invalid_record,
                KafkaError.invalid_record,
            ]
            assert topic.partition_responses[0].base_offset == version - 3
        missing = produced("alone", good) | {
            "topic_data": [{"name": "alone", "partition_data": [{"index": 7, "records": good}]}]
        }
        (topic,) = wire.call(PRODUCE, 9, **missing).responses
        assert topic.partition_responses[0].error_code == KafkaError.unknown_topic_or_partition
        (topic,) = wire.call(PRODUCE, 9, **produced("alone", good, acks=2)).responses
        assert topic.partition_responses[0].error_code == KafkaError.invalid_required_acks
        wire.ask(PRODUCE, 9, **produced("alone", good + good, acks=0))
        assert wire.is_closed()


def test_every_version_of_fetch_gives_the_records(gateway: KafkaGateway) -> None:
    """By name or id; beyond the end it is OFFSET_OUT_OF_RANGE; a partition's limit cuts it off."""
    gateway.topic("versions", 1)
    gateway.produce("versions", "a" * 5000, "b" * 5000)
    with Wire(gateway.kafka) as wire:
        (told,) = wire.call(METADATA, 12, topics=[{"topic_id": None, "name": "versions"}], allow_auto_topic_creation=False,
                           include_topic_authorized_operations=False).topics  # fmt: skip
        for version in range(4, 19):
            for offset, bytes_max, expected in ((0, 1 << 20, 2), (0, 1000, 1), (1, 1 << 20, 1), (2, 1 << 20, 0)):
                found = _fetched(wire, version, told.topic_id, offset, bytes_max)
                assert found.error_code == KafkaError.none
                assert (found.high_watermark, found.last_stable_offset) == (2, 2)
                count = struct.unpack_from(">i", found.records, 57)[0] if found.records else 0
                assert count == expected, (version, offset)
            assert _fetched(wire, version, told.topic_id, 3, 1 << 20).error_code == KafkaError.offset_out_of_range


def _fetched(wire: Wire, version: int, topic_id: Any, offset: int, bytes_max: int) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": bytes_max}
    topics = [{"topic": "versions", "topic_id": topic_id, "partitions": [partition]}]
    limits: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1, "rack_id": ""}
    (topic,) = wire.call(FETCH, version, topics=topics, forgotten_topics_data=(), **limits).responses
    return topic.partitions[0]


def test_a_client_that_goes_away_leaves_nothing_behind(gateway: KafkaGateway) -> None:
    """Its long poll ends with it."""
    gateway.topic("left", 1)
    with Wire(gateway.kafka) as wire:
        (told,) = wire.call(METADATA, 12, topics=[{"topic_id": None, "name": "left"}], allow_auto_topic_creation=False,
                           include_topic_authorized_operations=False).topics  # fmt: skip
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        topics = [{"topic_id": told.topic_id, "partitions": [partition]}]
        limits: dict[str, Any] = {"max_wait": 60_000, "min_bytes": 1, "max_bytes": 1000, "rack_id": ""}
        wire.ask(FETCH, 13, topics=topics, forgotten_topics_data=(), replica_id=-1, **limits)
        until(lambda: gateway.metric("tidelog_waiting_polls") == 1)
    until(lambda: gateway.metric("tidelog_waiting_polls") == 0)


def test_with_auth_nothing_is_served_before_a_proof(tmp_path: Path) -> None:
    """But what says how to prove it."""
    path, _ = bootstrap_file(tmp_path)
    with (
        kafka_gateway(
            "memory://secured", tmp_path / "log", "--auth", "on", "--bootstrap-token-file", str(path)
        ) as secured,
        Wire(secured.kafka) as wire,
    ):
        assert wire.call(API_VERSIONS, 0).error_code == KafkaError.none
        wire.ask(METADATA, 4, topics=None, allow_auto_topic_creation=False)
        assert wire.is_closed()


def test_slow_bytes_hold_up_no_other(gateway: KafkaGateway) -> None:
    """A frame that comes byte by byte is one connection's matter."""
    with Wire(gateway.kafka) as slow, Wire(gateway.kafka) as quick:
        data = framed(API_VERSIONS, 0, 1)
        for at in range(len(data)):
            slow.socket.sendall(data[at : at + 1])
            assert quick.call(API_VERSIONS, 0).error_code == KafkaError.none
        assert struct.unpack_from(">i", slow.frame()) == (1,)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../other", "a\0b", "x" * 250, "é"])
def test_records_for_a_name_that_no_topic_can_have_are_refused(gateway: KafkaGateway, name: str) -> None:
    """Such a name would be another object's of the store: it is judged before anything is looked for."""
    with Wire(gateway.kafka) as wire:
        (topic,) = wire.call(PRODUCE, 9, **produced(name, batch_of(b"x"))).responses
        assert topic.partition_responses[0].error_code == KafkaError.invalid_topic_exception
        asked = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        (listed,) = wire.call("list_offsets", 7, replica_id=-1, isolation_level=0, topics=asked).topics
        assert listed.partitions[0].error_code == KafkaError.unknown_topic_or_partition


def test_the_id_of_a_deleted_topic_is_no_other_topic_s(gateway: KafkaGateway) -> None:
    """A topic that was re-created under the name shares nothing with it: by the old id it is neither written nor read."""
    gateway.topic("reborn")
    with Wire(gateway.kafka) as wire:
        old = _id_of(wire, "reborn")
        assert gateway.http.delete("/v1/topics/reborn").status_code == 204
        gateway.topic("reborn")
        gateway.produce("reborn", "new")
        for topic_id, error in ((old, KafkaError.unknown_topic_id), (_id_of(wire, "reborn"), KafkaError.none)):
            asked = produced("reborn", batch_of(b"x"))
            asked["topic_data"][0]["topic_id"] = topic_id
            (topic,) = wire.call(PRODUCE, 13, **asked).responses
            assert topic.partition_responses[0].error_code == error
            partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
            topics = [{"topic_id": topic_id, "partitions": [partition]}]
            limits: dict[str, Any] = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1000, "rack_id": ""}
            answer = wire.call(FETCH, 13, topics=topics, forgotten_topics_data=(), replica_id=-1, **limits)
            assert answer.responses[0].partitions[0].error_code == error
    assert [value for _, value in gateway.read("reborn")] == ["new", "x"]


def _id_of(wire: Wire, topic: str) -> Any:
    (told,) = wire.call(METADATA, 12, topics=[{"topic_id": None, "name": topic}], allow_auto_topic_creation=False,
                       include_topic_authorized_operations=False).topics  # fmt: skip
    return told.topic_id
