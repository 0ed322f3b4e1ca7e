"""Kafka's names, held against the installed clients: each is taken, or refused by a sentence that says what to write."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest

import tidelog
from tests.support.fake_gateway import FakeGateway
from tidelog import Filter, RecordMetadata, TopicPartition
from tidelog.kafka_names import ADMIN, ALWAYS, CONNECTION, CONSUMER, INSTEAD, METHODS, PRODUCER

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of Python, about how it reads its schemas
    kafka: Any = importlib.import_module("kafka")

CLIENTS: list[tuple[type, Any, Any]] = [
    (tidelog.Producer, kafka.KafkaProducer, confluent_kafka.Producer),
    (tidelog.Consumer, kafka.KafkaConsumer, confluent_kafka.Consumer),
    (tidelog.Admin, kafka.KafkaAdminClient, confluent_kafka.admin.AdminClient),
]
BROKERS = re.compile(
    r"replica|reassign|scram|feature|log_dir|quorum|leader|broker|config_resources|usable_produce|bootstrap$|produce_batch"
)
"""What only brokers have, or is for the client itself: Python's own AttributeError is enough."""
DOCUMENT = (Path(__file__).parents[3] / "docs" / "sdk.md").read_text()


def methods_of(client: Any) -> list[str]:
    return [name for name, found in inspect.getmembers(client) if not name.startswith("_") and callable(found)]


@pytest.mark.parametrize(("ours", "python", "confluent"), CLIENTS, ids=["producer", "consumer", "admin"])
def test_each_method_is_there_or_says_what_to_write(ours: type, python: Any, confluent: Any) -> None:
    """Of kafka-python 3 and confluent-kafka 2. What is there under the same name is listed in docs/sdk.md, or means the same."""
    missing = [
        name
        for name in {*methods_of(python), *methods_of(confluent)}
        if not hasattr(ours, name) and name not in METHODS and not BROKERS.search(name)
    ]
    assert missing == []


def test_every_translation_is_of_a_name_that_they_have() -> None:
    """A sentence for a name that no client has would never be read."""
    theirs = {name for _, python, confluent in CLIENTS for name in (*methods_of(python), *methods_of(confluent))}
    assert METHODS.keys() <= theirs
    configs = {name for _, python, _ in CLIENTS for name in python.DEFAULT_CONFIG}
    old = {"buffer_memory"}  # of kafka-python 2, and of Java's client
    assert {*PRODUCER, *CONSUMER, *ADMIN, *CONNECTION, *ALWAYS, *INSTEAD} <= configs | old


@pytest.mark.parametrize("name", sorted({*PRODUCER, *CONSUMER, *CONNECTION, *ALWAYS, *INSTEAD}))
def test_the_document_has_each_argument(name: str) -> None:
    """docs/sdk.md, "Coming from Kafka's clients"."""
    assert f"`{name}`" in DOCUMENT or f"`{name}=" in DOCUMENT


@pytest.mark.parametrize("method", ["send", "flush", "close", "partitions_for"])
def test_positions_of_arguments_are_theirs(method: str) -> None:
    """A call by position means the same."""
    theirs = list(inspect.signature(getattr(kafka.KafkaProducer, method)).parameters)
    ours = list(inspect.signature(getattr(tidelog.Producer, method)).parameters)
    common = ours[: len(theirs)]
    assert common == theirs[: len(common)]


def test_a_name_that_means_the_same_is_taken(gateway: FakeGateway) -> None:
    """The renamed arguments arrive; what always holds is dropped."""
    gateway.create("t", 2)
    named: dict[str, Any] = {
        "batch_size": 1000, "buffer_memory": 5000, "compression_type": "gzip", "acks": "all",
        "max_in_flight_requests_per_connection": 2,
    }  # fmt: skip
    with tidelog.Producer(gateway.url, **named) as producer:
        assert producer._buffer.batch_bytes_max == 2500, "of the buffer's 5000 bytes a table takes half at most"
        stored: list[RecordMetadata] = []
        future: Any = producer.send("t", b"v", b"k", [("h", b"1")], 1, 1_700_000_000_000)
        assert future.add_callback(stored.append).add_errback(stored.append) is future
        assert future.get(timeout=10) == RecordMetadata("t", 1, 0, 1_700_000_000_000)
        assert future.get().timestamp == 1_700_000_000_000
        producer.flush()
        assert stored == [future.get()]
        assert producer.partitions_for("t") == {0, 1}
    consumer_settings: dict[str, Any] = {"group_id": "g", "group_instance_id": "i", "isolation_level": "read_committed"}
    with tidelog.Consumer("t", bootstrap_servers=gateway.url, **consumer_settings) as consumer:
        assert consumer.group_metadata().group == "g"
        assert repr(consumer) == f"<Consumer t group='g' at {gateway.url}>"


def test_a_failed_record_calls_the_errback(gateway: FakeGateway) -> None:
    """And not the callback."""
    called: list[object] = []
    with tidelog.Producer(gateway.url, on_delivery=lambda *_: None) as producer:
        future: Any = producer.send("nope", b"v")
        future.add_callback(called.append, 1).add_errback(lambda what, error: called.append((what, error.code)), "it")
        assert future.exception(timeout=30) is not None
        producer.flush()
    assert called == [("it", "UNKNOWN_TOPIC")]


@pytest.mark.parametrize(
    ("client", "given", "said"),
    [
        (tidelog.Producer, {"acks": 1}, "always 'all'"),
        (tidelog.Producer, {"retries": 3}, "delivery_timeout_ms"),
        (tidelog.Producer, {"group_id": "g"}, "no argument 'group"),
        (tidelog.Producer, {"batch_size": 1, "batch_bytes": 1}, "the same"),
        (tidelog.Consumer, {"heartbeat_interval_ms": 1}, "session_timeout_ms"),
        (tidelog.Consumer, {"isolation_level": "read_uncommitted"}, "always 'read_committed'"),
        (tidelog.Admin, {"client_id": "x"}, "only Consumer"),
        (tidelog.Admin, {"nonsense": 1}, "documentation"),
        (tidelog.Admin, {"bootstrap.servers": "x"}, "as in bootstrap_servers"),
    ],
)
def test_a_name_that_means_something_else_is_translated(client: Any, given: dict[str, Any], said: str) -> None:
    """At once, by a TypeError."""
    with pytest.raises(TypeError, match=said):
        client(**given)


def test_a_method_that_is_not_there_is_translated(dead_url: str) -> None:
    """By an AttributeError, so that ``hasattr`` and Python's own words go on working."""
    with tidelog.Producer(dead_url) as producer, tidelog.Consumer(bootstrap_servers=dead_url) as consumer:
        with pytest.raises(AttributeError, match="instead: send"):
            producer.produce  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match=r"instead: Consumer\(\*topics"):
            consumer.subscribe  # type: ignore[attr-defined]  # noqa: B018
        assert not hasattr(consumer, "nonsense")


def test_reprs_say_what_an_object_is_for(gateway: FakeGateway) -> None:
    """Addresses and names, no tokens; a topic with thousands of partitions is one line."""
    gateway.create("t", 2)
    with (
        tidelog.Admin(gateway.url, token="tl_secret") as admin,
        tidelog.Producer(gateway.url, transactional_id="x") as producer,
    ):
        assert repr(admin) == f"<Admin {gateway.url}>"
        assert repr(producer) == f"<Producer {gateway.url} transactional_id='x'>"
        assert repr(admin.describe_topic("t")) == "<Topic 't' partition_count=2 records=0>"
    assert repr(TopicPartition("t", 0)) == "TopicPartition(topic='t', partition=0)"
    assert repr(Filter(headers={"shop": "1"}, key="k")) == "Filter(headers=['shop:1'], key=b'k')"
