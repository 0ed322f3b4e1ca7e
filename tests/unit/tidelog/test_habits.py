"""Habits from other log clients: what means the same works, what would mean something else is refused with what to write."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import tidelog.aio
from tests.support.fake_gateway import FakeGateway
from tidelog import Admin, Consumer, OffsetAndMetadata, Producer, Record, TopicPartition, read_topic
from tidelog.errors import StaleGeneration, UnknownTopic

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(gateway: FakeGateway, count: int, partition_count: int = 2) -> None:
    topic = gateway.create("t", partition_count)
    for number in range(partition_count):
        topic.records[number] = [Record("t", number, at, 1_000 * at, b"k", b"%d" % at) for at in range(count)]


def test_seconds_are_not_taken_for_milliseconds(gateway: FakeGateway) -> None:
    """``poll(1.0)`` is a second of confluent-kafka's: it would be one millisecond here. With its name any number is taken."""
    fill(gateway, 3)
    with Consumer("t", bootstrap_servers=gateway.url) as consumer:
        for poll in (consumer.poll, consumer.poll_arrow):
            with pytest.raises(TypeError, match=re.escape("Write timeout_ms=1000 for 1 s")):
                poll(1.0)
        assert len(consumer.poll(timeout_ms=2_000.0)) == 3
        assert len(consumer.poll(2_000)) == 3

    async def asynchronously() -> None:
        async with tidelog.aio.Consumer("t", bootstrap_servers=gateway.url) as reader:
            with pytest.raises(TypeError, match="timeout_ms=500"):
                await reader.poll(0.5)

    asyncio.run(asynchronously())


def test_milliseconds_are_not_taken_for_seconds(dead_url: str) -> None:
    """``flush`` and ``close`` of a producer count seconds, as Kafka's clients do, beside settings that end with ``_ms``."""
    with Producer(dead_url) as producer:
        for call in (producer.flush, producer.close):
            named: dict[str, Any] = {"timeout_ms": 5_000}
            with pytest.raises(TypeError, match="in seconds"):
                call(**named)


def test_what_committed_returns_is_no_offset(gateway: FakeGateway) -> None:
    """kafka-python's ``committed(partition)`` is a number; here it is a mapping, and the places that take numbers say so."""
    fill(gateway, 3)
    with Consumer(group="g", bootstrap_servers=gateway.url) as consumer:
        consumer.assign([P0])
        consumer.commit({P0: 2})
        found: Any = consumer.committed(P0)
        said = re.escape("committed(partition)[partition]")
        with pytest.raises(TypeError, match=said):
            consumer.seek(P0, found)
        with pytest.raises(TypeError, match=said):
            consumer.commit({P0: found})
        with pytest.raises(TypeError, match="an offset is a number, not the str"):
            consumer.seek(P0, "earliest")  # type: ignore[arg-type]
        consumer.seek(P0, found[P0])
        assert [record.offset for record in consumer.poll(timeout_ms=2_000)] == [2]


def test_each_partition_has_metadata_of_its_own(gateway: FakeGateway) -> None:
    """As Kafka's clients give it; a tuple of theirs is taken, too. What has none gets that of the call."""
    fill(gateway, 3)
    with Consumer(group="g", bootstrap_servers=gateway.url) as consumer:
        theirs: Any = (2, "by hand", -1)
        consumer.commit({P0: OffsetAndMetadata(1, "a"), P1: 2}, metadata="all")
        consumer.commit({P0: theirs})
    bodies = [json.loads(asked.body) for asked in gateway.asked if asked.method == "PUT"]
    assert [[(one["partition"], one["offset"], one["metadata"]) for one in body["offsets"]] for body in bodies] == [
        [(0, 1, "a"), (1, 2, "all")],
        [(0, 2, "by hand")],
    ]


def test_commits_in_the_background(gateway: FakeGateway) -> None:
    """The callback gets the offsets, and the error or None; commits are made in order; ``close`` waits for the last."""
    fill(gateway, 3)
    told: list[tuple[Mapping[TopicPartition, object], object]] = []
    mine = threading.current_thread()
    with Consumer(group="g", bootstrap_servers=gateway.url, enable_auto_commit=False) as consumer:
        consumer.assign([P0])
        for offset in (1, 2):
            consumer.commit_async({P0: offset}, lambda *found: told.append(found))
        consumer.commit_async({P0: 2})
        consumer.commit({P0: 3})
        gateway.misbehave("PUT /v1/groups/g/offsets", gateway.refuse(409, "STALE_GENERATION"))
        consumer.commit_async({P0: 4}, lambda *found: told.append((*found, threading.current_thread() is mine)))
    assert told[:2] == [({P0: 1}, None), ({P0: 2}, None)]
    offsets, error, in_my_thread = told[2]  # type: ignore[misc]
    assert (offsets, in_my_thread) == ({P0: 4}, False)
    assert isinstance(error, StaleGeneration)
    assert gateway.groups["g"].offsets == {("t", 0): 3}


def test_the_high_watermark_of_the_last_answer(gateway: FakeGateway) -> None:
    """Without a request; nothing is known before the first answer."""
    fill(gateway, 3)
    with Consumer(bootstrap_servers=gateway.url) as consumer:
        consumer.assign([P0])
        assert consumer.highwater(P0) is None
        consumer.poll(timeout_ms=2_000)
        assert consumer.highwater(P0) == 3
        with pytest.raises(ValueError, match="not assigned"):
            consumer.highwater(P1)


def test_several_topics_at_once(gateway: FakeGateway) -> None:
    """One after the other; the error says which came before it; one name, or a Kafka client's topic, is no list of names."""
    with Admin(gateway.url) as admin:
        made = admin.create_topics(["a", "b"], 2, {"retention.ms": 1000})
        assert [(topic.name, topic.partition_count) for topic in made] == [("a", 2), ("b", 2)]
        assert [topic.name for topic in admin.describe_topics(["b", "a"])] == ["b", "a"]
        assert admin.describe_configs(["a"])["a"]["retention.ms"] == 1000
        with pytest.raises(UnknownTopic) as caught:
            admin.delete_topics(["a", "nope", "b"])
        assert "number 2 of 3; done before it: a." in caught.value.__notes__[0]
        assert [topic.name for topic in admin.list_topics()] == ["b"]
        admin.delete_topics(["a", "b"], missing_ok=True)
        wrong: Any = [TopicPartition("a", 0)]
        for given, said in (("ab", r"as a list: \['ab'\]"), (wrong, "is given by its name")):
            with pytest.raises(TypeError, match=said):
                admin.create_topics(given)


@pytest.mark.parametrize("way", ["record", "table"])
def test_a_topic_is_made_on_first_use_where_gateways_allow_it(gateway: FakeGateway, way: str) -> None:
    """With so many partitions as they say, by the first record or table; else sending fails, and nothing is made."""

    def sent() -> int:
        with Producer(gateway.url, on_delivery=lambda *_: None) as producer:
            if way == "record":
                return producer.send("fresh", b"v").result(timeout=30).offset
            return producer.send_table("fresh", pa.table({"value": ["v"]})).result(timeout=30).partitions[0].base_offset

    with pytest.raises(UnknownTopic):
        sent()
    assert "fresh" not in gateway.topics
    gateway.auto_create_topics = 3
    assert sent() == 0
    assert len(gateway.topics["fresh"].records) == 3
    asked = [(one.method, one.path) for one in gateway.asked]
    sent()
    assert [one for one in gateway.asked[len(asked) :] if one.method == "POST" and one.path == "/v1/topics"] == []


def test_a_whole_topic_by_one_call(gateway: FakeGateway) -> None:
    """Every record before the end as it is at the call, once; by partition, time, span, or so many before the end."""
    fill(gateway, 5)

    def offsets(**where: Any) -> list[tuple[int, int]]:
        table = pa.concat_tables(
            list(read_topic("t", gateway.url, **where)) or [pa.table({"partition": [], "offset": []})]
        )
        return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))

    everything = [(number, offset) for number in (0, 1) for offset in range(5)]
    assert offsets() == everything
    assert offsets(start=-2) == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert offsets(start=1, end=2) == [(0, 1), (1, 1)]
    assert offsets(start={0: 4}, end={1: 1}) == [(0, 4), (1, 0)]
    assert offsets(partitions=[1], end=-4) == [(1, 0)]
    assert offsets(start=datetime.fromtimestamp(3, UTC), partitions=[0]) == [(0, 3), (0, 4)]
    assert offsets(end=datetime.fromtimestamp(1, UTC)) == [(0, 0), (1, 0)]
    assert offsets(start=timedelta(hours=1)) == []
    assert offsets(start="latest") == []
    reading = read_topic("t", gateway.url)
    gateway.topics["t"].records[0].append(Record("t", 0, 5, 5_000, b"k", b"later"))
    assert sum(table.num_rows for table in reading) == 10
    with pytest.raises(UnknownTopic):
        read_topic("nope", gateway.url)
    with pytest.raises(ValueError, match="has no time zone"):
        read_topic("t", gateway.url, start=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the mistake
    with pytest.raises(ValueError, match="'first' is not"):
        read_topic("t", gateway.url, start="first")  # type: ignore[arg-type]
