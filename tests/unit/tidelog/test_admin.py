"""Unit tests of ``tidelog.admin``, over the in-process gateway."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tidelog import Admin, PartitionOffsets
from tidelog.admin import END
from tidelog.errors import (
    InvalidTopicName,
    OffsetOutOfRange,
    OutcomeUnknown,
    TopicAlreadyExists,
    UnexpectedAnswer,
    UnknownTopic,
)


@pytest.fixture
def admin(gateway: FakeGateway) -> Any:
    with Admin(gateway.url) as made:
        yield made


def test_a_topic_from_creation_to_deletion(gateway: FakeGateway, admin: Admin) -> None:
    """Each call does what the contract says and returns what the gateway answered."""
    made = admin.create_topic("t", 2, {"retention.ms": 1000})
    assert (made.name, made.partition_count, made.config["retention.ms"]) == ("t", 2, 1000)
    assert [partition.high_watermark for partition in made.partitions] == [0, 0]
    assert admin.describe_topic("t") == made
    altered = admin.alter_topic("t", partition_count=3, config={"retention.ms": None})
    assert (altered.partition_count, altered.config["retention.ms"]) == (3, 604800000)
    admin.delete_topic("t")
    with pytest.raises(UnknownTopic):
        admin.describe_topic("t")
    with pytest.raises(UnknownTopic):
        admin.delete_topic("t")
    admin.delete_topic("t", missing_ok=True)
    assert admin.cluster().limits["request_bytes_max"] == gateway.request_bytes_max
    assert admin.cluster().gateways[0].url == gateway.url


def test_an_existing_topic(gateway: FakeGateway, admin: Admin) -> None:
    """``exist_ok`` is for the same topic; one with other settings is never passed off as it."""
    admin.create_topic("t", 2)
    with pytest.raises(TopicAlreadyExists):
        admin.create_topic("t", 2)
    assert admin.create_topic("t", 2, exist_ok=True).partition_count == 2
    for exist_ok in (True, False):
        with pytest.raises(TopicAlreadyExists):
            admin.create_topic("t", 3, exist_ok=exist_ok)
    with pytest.raises(InvalidTopicName) as caught:
        admin.create_topic("a/b")
    assert caught.value.status == 400


def test_creating_is_repeated_and_deleting_is_not(gateway: FakeGateway, admin: Admin) -> None:
    """The gateway recognises a creation, so a lost answer is asked for again; a second deletion could meet a new topic."""
    gateway.misbehave("POST /v1/topics$", gateway.lose(done=True))
    assert admin.create_topic("t").name == "t"
    assert gateway.count("POST /v1/topics$") == 2
    gateway.misbehave("PATCH", gateway.lose(done=True))
    assert admin.alter_topic("t", partition_count=2).partition_count == 2
    gateway.misbehave("DELETE", gateway.lose(done=False))
    with pytest.raises(OutcomeUnknown):
        admin.delete_topic("t")
    assert gateway.count("DELETE") == 1
    assert "t" in gateway.topics


def test_lists_are_read_to_their_last_page(gateway: FakeGateway, admin: Admin) -> None:
    """However the gateway cuts them (the fake: two a page)."""
    for name in ("a1", "a2", "a3", "b1", "b2"):
        gateway.create(name)
    assert [topic.name for topic in admin.list_topics()] == ["a1", "a2", "a3", "b1", "b2"]
    assert [topic.name for topic in admin.list_topics("b")] == ["b1", "b2"]
    assert admin.list_topics("c") == []


def test_offsets_and_deletion_of_records(gateway: FakeGateway, admin: Admin) -> None:
    """Bounds, times, and what a deletion leaves; only a deletion up to named offsets is repeated by itself."""
    topic = gateway.create("t", 2)
    from tidelog import Record

    topic.records[1] = [Record("t", 1, offset, offset * 10, None, b"x") for offset in range(10)]
    assert admin.offsets("t")[1] == PartitionOffsets(log_start_offset=0, high_watermark=10)
    assert admin.offsets("t", [1], timestamp_ms=35)[1].offset == 4
    assert admin.offsets("t", [1], timestamp_ms=1_000)[1].offset is None
    gateway.misbehave("delete-records", gateway.lose(done=True))
    assert admin.delete_records("t", {1: 4}) == {1: 4}
    gateway.misbehave("delete-records", gateway.lose(done=True))
    with pytest.raises(OutcomeUnknown):
        admin.delete_records("t", {1: END})
    assert admin.delete_records("t", {0: END, 1: END}) == {0: 0, 1: 10}
    with pytest.raises(OffsetOutOfRange):
        admin.delete_records("t", {1: 11})


def test_an_answer_of_another_shape_is_an_error(gateway: FakeGateway, admin: Admin) -> None:
    """Not a ``KeyError`` somewhere later."""
    gateway.create("t")
    for body in (b"", b"[]", b'{"name": 3}', b"<html>"):
        gateway.misbehave("GET", gateway.answer(200, body))
        with pytest.raises(UnexpectedAnswer):
            admin.describe_topic("t")
