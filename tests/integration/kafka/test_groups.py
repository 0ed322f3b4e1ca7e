"""Groups of unmodified clients: members share partitions, commit, crash, resume; HTTP and the CLI see the same groups."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.support.gateway_process import SERVE
from tests.support.kafka_frames import Wire
from tests.support.kafka_gateway import KafkaGateway

PARTITIONS = 4
WAIT_SECONDS = 30


@pytest.fixture
def topic(gateway: KafkaGateway) -> str:
    """Four partitions with three records each."""
    name = gateway.topic(f"t{secrets.token_hex(4)}", PARTITIONS)
    for partition in range(PARTITIONS):
        gateway.produce(name, *(f"{partition}-{number}" for number in range(3)), partition=partition)
    return name


def _until(found: Callable[[], bool], *steps: Callable[[], Any]) -> None:
    """Do the steps again and again until it is so."""
    deadline_s = time.monotonic() + WAIT_SECONDS
    while not found():
        assert time.monotonic() < deadline_s, "it does not come to that"
        for step in steps:
            step()


@contextlib.contextmanager
def _consumer(gateway: KafkaGateway, group: str, protocol: str, **more: Any) -> Iterator[Consumer]:
    """confluent-kafka's."""
    config = {
        "bootstrap.servers": gateway.kafka,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if protocol == "classic":
        config |= {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
    consumer = Consumer(config | more)
    try:
        yield consumer
    finally:
        consumer.close()


def _described(gateway: KafkaGateway, group: str) -> dict[str, Any]:
    described: dict[str, Any] = gateway.http.get(f"/v1/groups/{group}").json()
    return described


def _offsets(gateway: KafkaGateway, group: str) -> dict[int, int]:
    rows = gateway.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    return {row["partition"]: row["offset"] for row in rows}


def _values(consumer: Consumer, count: int) -> set[str]:
    found: set[str] = set()

    def read() -> None:
        message = consumer.poll(0.1)
        if message is not None and not message.error():
            found.add((message.value() or b"").decode())

    _until(lambda: len(found) >= count, read)
    return found


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_shares_commits_and_resumes(gateway: KafkaGateway, topic: str, protocol: str) -> None:
    """One member has all partitions; a second takes half; what was committed is where the next begins."""
    group = f"g-{secrets.token_hex(4)}"
    with _consumer(gateway, group, protocol) as first:
        first.subscribe([topic])
        assert len(_values(first, 12)) == 12
        first.commit(asynchronous=False)
        assert _offsets(gateway, group) == dict.fromkeys(range(PARTITIONS), 3)
        with _consumer(gateway, group, protocol) as second:
            second.subscribe([topic])

            def is_even() -> bool:
                return len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2

            _until(is_even, lambda: first.poll(0.1), lambda: second.poll(0.1))
            shown = _described(gateway, group)
            assert shown["state"] == "Stable"
            parts = [{one["partition"] for one in member["assignment"]} for member in shown["members"]]
            assert sorted(map(len, parts)) == [2, 2]
            assert set.union(*parts) == set(range(PARTITIONS))
            admin = AdminClient({"bootstrap.servers": gateway.kafka})
            described = admin.describe_consumer_groups([group])[group].result()
            assert described.state is ConsumerGroupState.STABLE
            assert {one.partition for member in described.members for one in member.assignment.topic_partitions} == set(
                range(PARTITIONS)
            )
            listed = {one.group_id: one.type for one in admin.list_consumer_groups().result().valid}
            assert listed[group] is getattr(ConsumerGroupType, protocol.upper())
        _until(lambda: len(first.assignment()) == PARTITIONS, lambda: first.poll(0.1))
        for partition in range(PARTITIONS):
            gateway.produce(topic, f"{partition}-new", partition=partition)
        assert _values(first, 4) == {f"{partition}-new" for partition in range(PARTITIONS)}
    assert _described(gateway, group)["state"] == "Empty"
    with _consumer(gateway, group, protocol) as third:
        third.subscribe([topic])
        assert _values(third, 4) == {f"{partition}-new" for partition in range(PARTITIONS)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_kafka_and_http_are_the_same(gateway: KafkaGateway, topic: str, protocol: str) -> None:
    """HTTP sets them back, and a consumer reads from there; it commits, and HTTP's lag follows."""
    group = f"g-{secrets.token_hex(4)}"
    offsets = [{"topic": topic, "partition": 0, "offset": 2, "metadata": "by http"}]
    assert gateway.http.put(f"/v1/groups/{group}/offsets", json={"offsets": offsets}).status_code == 200
    admin = AdminClient({"bootstrap.servers": gateway.kafka})
    asked = ConsumerGroupTopicPartitions(group)
    (seen,) = admin.list_consumer_group_offsets([asked])[group].result().topic_partitions
    # The client has been seen to give characters behind the text; on the wire there are none.
    assert (seen.topic, seen.partition, seen.offset, seen.metadata[:7]) == (topic, 0, 2, "by http")
    with Wire(gateway.kafka) as wire:
        places = [{"name": topic, "partition_indexes": (0,)}]
        told = wire.call("offset_fetch", 7, group_id=group, topics=places, require_stable=False)
    assert [one.metadata for of_topic in told.topics for one in of_topic.partitions] == ["by http"]
    with _consumer(gateway, group, protocol) as consumer:
        consumer.subscribe([topic])
        assert _values(consumer, 10) == {"0-2", *(f"{partition}-{n}" for partition in (1, 2, 3) for n in range(3))}
        consumer.commit(offsets=[Position(topic, 1, 1)], asynchronous=False)
        refused = gateway.http.post(f"/v1/groups/{group}/offsets:reset", json={"topics": [topic], "to": "earliest"})
        assert refused.json()["error_code"] == "GROUP_NOT_EMPTY"
        joining = gateway.http.post(f"/v1/groups/{group}/members", json={"topics": [topic], "assignor": "sticky"})
        member = joining.json()["member_id"]
        assert gateway.http.delete(f"/v1/groups/{group}/members/{member}").status_code == 204
    assert _offsets(gateway, group) == {0: 2, 1: 1}
    lag = gateway.http.get(f"/v1/groups/{group}/lag").json()
    assert lag["total"] == 3
    reset = gateway.http.post(f"/v1/groups/{group}/offsets:reset", json={"topics": [topic], "to": "earliest"})
    assert reset.status_code == 200
    with _consumer(gateway, group, protocol) as consumer:
        consumer.subscribe([topic])
        assert len(_values(consumer, 12)) == 12


def test_the_command_line_shows_groups_of_kafka(gateway: KafkaGateway, topic: str) -> None:
    """As any other."""
    group = f"g-{secrets.token_hex(4)}"
    with _consumer(gateway, group, "classic") as consumer:
        consumer.subscribe([topic])
        _values(consumer, 12)
        for command, expected in ((["group", "list"], group), (["group", "describe", group], topic)):
            shown = subprocess.run(
                [*SERVE[:-1], *command, "--url", gateway.url], capture_output=True, text=True, check=False
            )
            assert shown.returncode == 0, shown.stderr
            assert expected in shown.stdout


@contextlib.contextmanager
def _polled(*consumers: KafkaConsumer) -> Iterator[None]:
    """Each by a thread of its own: a leader of kafka-python 3 whose group forms between two polls joins again."""
    ended = threading.Event()

    def poll(consumer: KafkaConsumer) -> None:
        while not ended.is_set():
            consumer.poll(timeout_ms=500)

    with ThreadPoolExecutor(len(consumers)) as threads:
        polls = [threads.submit(poll, consumer) for consumer in consumers]
        try:
            yield
        finally:
            ended.set()
    for one in polls:
        one.result()


def test_kafka_python_shares_commits_and_resumes(gateway: KafkaGateway, topic: str) -> None:
    """Two consumers; the first closes, and the second goes on where it had committed."""
    group = f"g-{secrets.token_hex(4)}"

    def consumer() -> KafkaConsumer:
        return KafkaConsumer(
            topic,
            bootstrap_servers=gateway.kafka,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )

    first = consumer()
    found: list[bytes] = []

    def read() -> None:
        for records in first.poll(timeout_ms=100).values():
            found.extend(record.value for record in records)

    _until(lambda: len(found) >= 12, read)
    positions = {TopicPartition(topic, 0): OffsetAndMetadata(2, "mine", -1)}
    first.commit(positions)
    assert first.committed(TopicPartition(topic, 0)) == 2
    second = consumer()
    with _polled(first, second):
        _until(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2, lambda: time.sleep(0.05))
    first.close()
    _until(lambda: len(second.assignment()) == PARTITIONS, lambda: second.poll(timeout_ms=100))
    second.commit()
    second.close()
    assert _described(gateway, group)["state"] == "Empty"
    assert _offsets(gateway, group)[0] in (2, 3)


def test_aiokafka_shares_commits_and_resumes(gateway: KafkaGateway, topic: str) -> None:
    """As the others."""
    asyncio.run(_aiokafka(gateway, topic))


async def _reached(found: Callable[[], bool]) -> None:
    for _ in range(10 * WAIT_SECONDS):
        if found():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("it does not come to that")


async def _aiokafka(gateway: KafkaGateway, topic: str) -> None:
    group = f"g-{secrets.token_hex(4)}"

    def consumer() -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            topic,
            bootstrap_servers=gateway.kafka,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=500,
        )

    first, second = consumer(), consumer()
    await first.start()
    try:
        found = [await asyncio.wait_for(first.getone(), WAIT_SECONDS) for _ in range(12)]
        assert len({(one.partition, one.offset) for one in found}) == 12
        await first.commit()
        await second.start()
        await _reached(lambda: len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2)
        await first.stop()
        await _reached(lambda: len(second.assignment()) == PARTITIONS)
    finally:
        await second.stop()
        await first.stop()
    assert _offsets(gateway, group) == dict.fromkeys(range(PARTITIONS), 3)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_crashes_is_replaced(gateway: KafkaGateway, topic: str, protocol: str) -> None:
    """The other gets its partitions after its session; what it had committed counts."""
    group = f"g-{secrets.token_hex(4)}"
    crashing = (
        "import sys, os, confluent_kafka as c\n"
        "consumer = c.Consumer({'bootstrap.servers': sys.argv[1], 'group.id': sys.argv[2], 'group.protocol': sys.argv[4],"
        " 'auto.offset.reset': 'earliest', **({'session.timeout.ms': 6000} if sys.argv[4] == 'classic' else {})})\n"
        "consumer.subscribe([sys.argv[3]])\n"
        "count = 0\n"
        "while count < 12:\n"
        "    message = consumer.poll(0.1)\n"
        "    count += message is not None and not message.error()\n"
        "consumer.commit(asynchronous=False)\n"
        "os._exit(3)\n"
    )
    command = [sys.executable, "-c", crashing, gateway.kafka, group, topic, protocol]
    assert subprocess.run(command, timeout=60, check=False).returncode == 3
    if protocol == "consumer":
        # Its session takes 45 s: here an operator takes it out.
        (member,) = _described(gateway, group)["members"]
        left = gateway.http.delete(f"/v1/groups/{group}/members/{member['member_id'].replace('/', '%2F')}")
        assert left.status_code == 204
    with _consumer(gateway, group, protocol) as consumer:
        consumer.subscribe([topic])
        for partition in range(PARTITIONS):
            gateway.produce(topic, f"{partition}-new", partition=partition)
        assert _values(consumer, 4) == {f"{partition}-new" for partition in range(PARTITIONS)}
