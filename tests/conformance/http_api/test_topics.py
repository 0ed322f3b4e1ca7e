"""docs/http-api.md section 3: topics."""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import pytest

from tests.support.http_api import Api

DEFAULTS = {
    "retention.ms": 604800000,
    "retention.bytes": -1,
    "cleanup.policy": "delete",
    "delete.retention.ms": 86400000,
    "commit.mode": "auto",
    "drain.ms": 240000,
    "delay.max.ms": 2592000000,
    "min.compaction.lag.ms": 0,
    "max.message.bytes": 1048576,
    "flush.ms": 250,
    "flush.bytes": 8388608,
    "compression.type": "zstd",
    "message.timestamp.type": "CreateTime",
}


def fresh_name() -> str:
    return f"test-{secrets.token_hex(6)}"


def test_a_topic_is_made_with_defaults(api: Api) -> None:
    """201 and the topic: one partition, every setting with its default, where its table is."""
    name = fresh_name()
    before = int(time.time() * 1000) - 60_000
    answer = api.http.post("/v1/topics", json={"name": name})
    assert answer.status_code == 201
    topic = answer.json()
    assert topic["name"] == name
    assert topic["partition_count"] == 1
    assert topic["partitions"] == [{"partition": 0, "log_start_offset": 0, "high_watermark": 0, "size_bytes": 0}]
    assert topic["config"] == DEFAULTS
    assert name in topic["table_uri"]
    assert topic["table_version"] >= 0
    assert topic["created_at"] >= before
    assert api.http.get(f"/v1/topics/{name}").json() == topic


def test_making_it_again(api: Api) -> None:
    """200 with the same partition count and the same effective config, however written; 409 when it differs."""
    name = fresh_name()
    given = {"name": name, "partition_count": 2, "config": {"flush.ms": 10}}
    assert api.http.post("/v1/topics", json=given).status_code == 201
    same = {"name": name, "partition_count": 2, "config": {"flush.ms": "10", "retention.ms": 604800000}}
    assert api.http.post("/v1/topics", json=same).status_code == 200
    others: list[dict[str, Any]] = [{"partition_count": 3}, {"config": {"flush.ms": 11}}, {"config": {}}]
    for other in others:
        api.refused(api.http.post("/v1/topics", json=given | other), 409, "TOPIC_ALREADY_EXISTS")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"retention": 1}, "retention"),
        ({"retention.ms": -2}, "retention.ms"),
        ({"retention.ms": "soon"}, "retention.ms"),
        ({"retention.ms": 1.5}, "retention.ms"),
        ({"retention.ms": True}, "retention.ms"),
        ({"cleanup.policy": "shred"}, "cleanup.policy"),
        ({"compression.type": "brotli"}, "compression.type"),
        ({"message.timestamp.type": "Now"}, "message.timestamp.type"),
        ({"flush.bytes": 0}, "flush.bytes"),
        ({"flush.ms": -1}, "flush.ms"),
        ({"max.message.bytes": 1 << 40}, "max.message.bytes"),
        ({"flush.ms": []}, "flush.ms"),
    ],
)
def test_settings_that_can_not_be(api: Api, config: dict[str, Any], name: str) -> None:
    """400 ``INVALID_CONFIG`` naming the setting, at making and at altering; nothing happened."""
    problem = api.refused(
        api.http.post("/v1/topics", json={"name": fresh_name(), "config": config}), 400, "INVALID_CONFIG"
    )
    assert problem["errors"][0]["where"] == f"/config/{name}"
    topic = api.topic()
    before = api.http.get(f"/v1/topics/{topic}").json()
    api.refused(
        api.http.patch(f"/v1/topics/{topic}", json={"config": config, "partition_count": 5}), 400, "INVALID_CONFIG"
    )
    assert api.http.get(f"/v1/topics/{topic}").json() == before


def test_numbers_come_back_as_numbers(api: Api) -> None:
    """A string that parses is accepted; ``compact,delete`` is one policy."""
    config = {
        "retention.ms": "-1",
        "flush.bytes": " 77 ",
        "cleanup.policy": "compact,delete",
        "compression.type": "lz4",
    }
    found = api.http.post("/v1/topics", json={"name": fresh_name(), "config": config}).json()["config"]
    assert (found["retention.ms"], found["flush.bytes"]) == (-1, 77)
    assert (found["cleanup.policy"], found["compression.type"]) == ("compact,delete", "lz4")


@pytest.mark.parametrize("count", [0, -1, 10_001, "3", 1.5, None, True])
def test_partition_counts_that_can_not_be(api: Api, count: Any) -> None:
    """400; up to 10,000 are allowed."""
    answer = api.http.post("/v1/topics", json={"name": fresh_name(), "partition_count": count})
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == "/partition_count"


def test_ten_thousand_partitions(api: Api) -> None:
    """The most there may be, written to and read."""
    name = fresh_name()
    answer = api.http.post("/v1/topics", json={"name": name, "partition_count": 10_000, "config": {"flush.ms": 0}})
    assert answer.status_code == 201
    assert len(answer.json()["partitions"]) == 10_000
    assert api.produce(name, {"value": "x"}, partition=9_999).status_code == 200
    assert api.records(name, 9_999)[0]["partition"] == 9_999
    assert api.http.delete(f"/v1/topics/{name}").status_code == 204


def test_lists_are_sorted_and_paged(api: Api) -> None:
    """By name; ``next`` is there when there is more, and ``after`` goes on there; every topic comes once."""
    prefix = f"list-{secrets.token_hex(4)}-"
    names = [f"{prefix}{letter}" for letter in "Zbac_.0"]
    for name in names:
        assert api.http.post("/v1/topics", json={"name": name}).status_code == 201
    whole = api.http.get("/v1/topics", params={"prefix": prefix}).json()
    assert [topic["name"] for topic in whole["topics"]] == sorted(names)
    assert "next" not in whole
    assert whole["topics"][0] == api.http.get(f"/v1/topics/{min(names)}").json()
    found: list[str] = []
    query: dict[str, Any] = {"prefix": prefix, "limit": 3}
    for expected in (3, 3, 1):
        page = api.http.get("/v1/topics", params=query).json()
        assert len(page["topics"]) == expected
        found += [topic["name"] for topic in page["topics"]]
        query["after"] = page.get("next")
    assert query["after"] is None
    assert found == sorted(names)
    assert api.http.get("/v1/topics", params={"prefix": prefix, "limit": 7}).json().get("next") is None
    for limit in ("0", "-1", "x", "1e9"):
        api.refused(api.http.get("/v1/topics", params={"limit": limit}), 400, "INVALID_REQUEST")


def test_altering(api: Api) -> None:
    """Partitions only upwards, the same is no change; settings by name, null gives the default; what is there stays."""
    topic = api.topic(2, retention_ms=5)
    api.produce(topic, {"value": "x"}, partition=1)
    changed = api.http.patch(f"/v1/topics/{topic}", json={"partition_count": 4, "config": {"flush.ms": 7}}).json()
    assert changed["partition_count"] == 4
    assert [part["high_watermark"] for part in changed["partitions"]] == [0, 1, 0, 0]
    assert (changed["config"]["flush.ms"], changed["config"]["retention.ms"]) == (7, 5)
    assert api.produce(topic, {"value": "y"}, partition=3).status_code == 200
    same = api.http.patch(f"/v1/topics/{topic}", json={"partition_count": 4})
    assert same.status_code == 200
    reset = api.http.patch(f"/v1/topics/{topic}", json={"config": {"retention.ms": None}}).json()
    assert reset["config"]["retention.ms"] == DEFAULTS["retention.ms"]
    api.refused(api.http.patch(f"/v1/topics/{topic}", json={"partition_count": 3}), 400, "INVALID_REQUEST")
    api.refused(api.http.patch(f"/v1/topics/{fresh_name()}", json={}), 404, "UNKNOWN_TOPIC")
    assert [record["value"] for record in api.records(topic, 1)] == ["x"]


def test_deleting_and_making_anew(api: Api) -> None:
    """204, then 404; the new one starts empty at offset 0 and shares nothing with the old one."""
    topic = api.topic(2)
    api.produce(topic, {"value": "old"}, {"value": "old"}, partition=1)
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    api.refused(api.http.delete(f"/v1/topics/{topic}"), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.get(f"/v1/topics/{topic}"), 404, "UNKNOWN_TOPIC")
    api.refused(api.fetch(topic, 1), 404, "UNKNOWN_TOPIC")
    api.refused(api.produce(topic, {"value": "x"}), 404, "UNKNOWN_TOPIC")
    assert topic not in [
        found["name"] for found in api.http.get("/v1/topics", params={"prefix": topic}).json()["topics"]
    ]
    made = api.http.post("/v1/topics", json={"name": topic, "partition_count": 3, "config": {"flush.ms": 0}})
    assert made.status_code == 201
    assert [part["high_watermark"] for part in made.json()["partitions"]] == [0, 0, 0]
    assert made.json()["config"]["retention.ms"] == DEFAULTS["retention.ms"]
    answer = api.produce(topic, {"value": "new"}, partition=1).json()
    assert answer["partitions"] == [{"partition": 1, "base_offset": 0, "last_offset": 0, "count": 1}]
    assert [record["value"] for record in api.records(topic, 1)] == ["new"]


def test_sizes_are_of_what_is_stored(api: Api) -> None:
    """``size_bytes`` is compressed, by partition, and grows with what is written."""
    topic = api.topic(2)
    api.produce(topic, *[{"value": "x" * 1000}] * 500, partition=0)
    sizes = [part["size_bytes"] for part in api.http.get(f"/v1/topics/{topic}").json()["partitions"]]
    assert 0 < sizes[0] < 250_000
    assert sizes[1] == 0


def test_deleting_records(api: Api) -> None:
    """Log starts move up only; -1 is the high watermark; what is below is 410; all or nothing."""
    topic = api.topic(3)
    for partition in range(3):
        api.produce(topic, *[{"value": str(number)} for number in range(10)], partition=partition)
    path = f"/v1/topics/{topic}:delete-records"
    answer = api.http.post(path, json={"before": [{"partition": 1, "offset": 4}, {"partition": 2, "offset": -1}]})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {
        "partitions": [{"partition": 1, "log_start_offset": 4}, {"partition": 2, "log_start_offset": 10}]
    }
    assert [record["value"] for record in api.records(topic, 1)] == ["4", "5", "6", "7", "8", "9"]
    assert api.records(topic, 2) == []
    problem = api.refused(api.fetch(topic, 1, offset=3), 410, "OFFSET_OUT_OF_RANGE")
    assert (problem["log_start_offset"], problem["high_watermark"]) == (4, 10)
    again = api.http.post(path, json={"before": [{"partition": 1, "offset": 2}]})
    assert again.json() == {"partitions": [{"partition": 1, "log_start_offset": 4}]}
    beyond = api.http.post(path, json={"before": [{"partition": 0, "offset": 5}, {"partition": 1, "offset": 11}]})
    api.refused(beyond, 416, "OFFSET_OUT_OF_RANGE")
    unknown = api.http.post(path, json={"before": [{"partition": 0, "offset": 5}, {"partition": 7, "offset": 1}]})
    api.refused(unknown, 404, "UNKNOWN_PARTITION")
    assert len(api.records(topic, 0)) == 10
    for before in ([{"partition": 0, "offset": -2}], [{"partition": 0}], "x", [{"partition": 0, "offset": 1}] * 2):
        api.refused(api.http.post(path, json={"before": before}), 400, "INVALID_REQUEST")
    api.refused(api.http.post(f"/v1/topics/{fresh_name()}:delete-records", json={"before": []}), 404, "UNKNOWN_TOPIC")
    api.produce(topic, {"value": "on"}, partition=2)
    assert [record["offset"] for record in api.records(topic, 2)] == [10]


def test_a_topics_commits_are_listed(api: Api) -> None:
    """The newest first, in pages: when, by whom, and how many new records each brought; those of an older topic are no part."""
    topic = api.topic(commit_mode="own", flush_ms=0)
    for count in (1, 3):
        assert api.produce(topic, *({"value": "v"} for _ in range(count))).status_code == 200
    version = api.http.get(f"/v1/topics/{topic}").json()["table_version"]
    commits = api.http.get(f"/v1/topics/{topic}/commits").json()["commits"]
    assert [one["version"] for one in commits] == list(range(version, version - len(commits), -1))
    assert [one["records"] for one in commits[:2]] == [3, 1]
    assert {type(one["at"]) for one in commits} == {int}
    assert all(one["by"] and one["operation"] for one in commits)
    assert (commits[0]["added"], commits[0]["removed"]) == (1, 0)
    assert commits[0]["added_bytes"] > 0
    page = api.http.get(f"/v1/topics/{topic}/commits", params={"limit": 1}).json()
    assert (page["commits"], page["next"]) == (commits[:1], version)
    after = api.http.get(f"/v1/topics/{topic}/commits", params={"limit": 1, "before": version}).json()
    assert after["commits"] == commits[1:2]
    for wrong in ({"limit": 0}, {"limit": 51}, {"before": -1}, {"nope": 1}):
        assert api.http.get(f"/v1/topics/{topic}/commits", params=wrong).status_code == 400
    assert api.http.get("/v1/topics/never-there/commits").json()["error_code"] == "UNKNOWN_TOPIC"
    api.http.delete(f"/v1/topics/{topic}")
    assert api.http.post("/v1/topics", json={"name": topic}).status_code == 201
    again = api.http.get(f"/v1/topics/{topic}/commits").json()["commits"]
    assert len(again) == 1
    assert again[0]["records"] == 0


def test_a_typed_topic_names_its_columns(api: Api) -> None:
    """Each member by its path, with its type; in the list of commits how many records are not of the schema; no other topic
    has either."""
    name = fresh_name()
    subject = f"{name}-value"
    item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
    members: list[dict[str, Any]] = [
        {"name": "id", "type": "long"},
        {"name": "place", "type": {"type": "record", "name": "Place", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "items", "type": {"type": "array", "items": item}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
    ]
    schema = json.dumps({"type": "record", "name": "Order", "fields": members})
    made = api.http.post(f"/registry/subjects/{subject}/versions", json={"schema": schema})
    assert made.status_code == 200, made.text
    config = {"value.schema": subject, "data.on.error": "mark", "flush.ms": 0, "commit.mode": "own"}
    assert api.http.post("/v1/topics", json={"name": name, "config": config}).status_code == 201
    value = {"id": 1, "place": {"city": "Rome"}, "items": [{"sku": "a"}], "counts": {"a": 1}}
    assert api.produce(name, {"value": value}, {"value": {"id": "one"}}, {"value": None}).status_code == 200
    assert api.http.get(f"/v1/topics/{name}").json()["columns"] == [
        {"name": "data.id", "type": "long"},
        {"name": "data.place.city", "type": "string"},
        {"name": "data.items", "type": "array<struct<sku:string>>"},
        {"name": "data.counts", "type": "map<string,integer>"},
        {"name": "data_error", "type": "string"},
    ]
    newest, first = api.http.get(f"/v1/topics/{name}/commits").json()["commits"][:2]
    assert (newest["records"], newest["marked"]) == (3, 1)
    assert "marked" not in first
    assert "columns" not in api.http.get(f"/v1/topics/{api.topic()}").json()
