"""docs/http-api.md section 2: a record in JSON."""

from __future__ import annotations

import base64
import io
import json
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_api import Api


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("sent", "fetched"),
    [
        ({"value": "x"}, {"value": "x"}),
        ({"value": ""}, {"value": ""}),
        ({"value": None, "key": "k"}, {"value": None, "key": "k"}),
        ({"value": 'é\u0000\u2028\U0001f600"\\\n'}, {"value": 'é\u0000\u2028\U0001f600"\\\n'}),
        ({"value_base64": as_base64(b"text")}, {"value": "text"}),
        ({"value_base64": as_base64(b"\xff\xfe")}, {"value_base64": as_base64(b"\xff\xfe")}),
        ({"value_base64": ""}, {"value": ""}),
        ({"value": "x", "key": ""}, {"value": "x", "key": ""}),
        ({"value": "x", "key": None}, {"value": "x", "key": None}),
        ({"value": "x", "key_base64": as_base64(b"\x80")}, {"value": "x", "key_base64": as_base64(b"\x80")}),
        ({"value": {"b": 1, "a": [1.50, None, "é"]}}, {"value": '{"b":1,"a":[1.50,null,"é"]}'}),
        ({"value": [1, 2]}, {"value": "[1,2]"}),
        ({"value": 12}, {"value": "12"}),
        ({"value": True}, {"value": "true"}),
        ({"value": {}}, {"value": "{}"}),
    ],
)
def test_bytes_are_exact_in_both_directions(api: Api, sent: dict[str, Any], fetched: dict[str, Any]) -> None:
    """What was sent comes back: text as text, other bytes as base64 with the plain member absent, JSON as compact JSON."""
    topic = api.topic()
    body = json.dumps({"records": [sent]}).replace("1.5,", "1.50,")
    answer = api.produce_body(topic, "application/json", body)
    assert answer.status_code == 200, answer.text
    (record,) = api.records(topic)
    expected = {"key": None, **fetched} if "key_base64" not in fetched else fetched
    assert {name: record[name] for name in record if name.startswith(("key", "value"))} == expected
    assert record["headers"] == []
    assert (record["partition"], record["offset"]) == (0, 0)


def test_json_values_keep_their_order_and_numbers_text(api: Api) -> None:
    """Compact JSON: members in the order and numbers in the text that were sent, no white space, non-ASCII unescaped."""
    topic = api.topic()
    value = '{ "z" : 1.10, "a":1E5 ,"m":-0,"n":12345678901234567890123, "s":"\\u00e9\\u0041", "d":{"b":[ ],"a":{ }}}'
    assert api.produce_body(topic, "application/json", f'{{"records":[{{"value":{value}}}]}}').status_code == 200
    assert api.records(topic)[0]["value"] == (
        '{"z":1.10,"a":1E5,"m":-0,"n":12345678901234567890123,"s":"éA","d":{"b":[],"a":{}}}'
    )


def test_headers_keep_order_and_duplicates(api: Api) -> None:
    """A list comes back as it was; an object of strings becomes a list; values may be null or bytes."""
    topic = api.topic()
    listed = [{"key": "b", "value": "1"}, {"key": "a", "value": None}, {"key": "b", "value_base64": "/w=="}]
    api.produce(topic, {"value": "x", "headers": listed}, {"value": "y", "headers": {"b": "1", "a": "2"}})
    first, second = api.records(topic)
    assert first["headers"] == listed
    assert second["headers"] == [{"key": "b", "value": "1"}, {"key": "a", "value": "2"}]


def test_a_fetched_record_can_be_produced_again(api: Api) -> None:
    """As it is, offset included: everything but the place is the same."""
    topic, copy = api.topic(), api.topic()
    api.produce(
        topic,
        {"value": "x", "key": "k", "timestamp": 123, "headers": [{"key": "h", "value": None}]},
        {"value_base64": "/w==", "key_base64": "/g=="},
        {"value": None},
    )
    records = api.records(topic)
    assert api.produce(copy, *records).status_code == 200
    assert api.records(copy) == records


@pytest.mark.parametrize(
    ("record", "member"),
    [
        ({}, ""),
        ({"key": "k"}, ""),
        ({"value": "x", "value_base64": "eA=="}, ""),
        ({"value_base64": "eA"}, "value_base64"),
        ({"value_base64": "e-=="}, "value_base64"),
        ({"value_base64": "eA==\n"}, "value_base64"),
        ({"value_base64": None}, "value_base64"),
        ({"value": "x", "key": 5}, "key"),
        ({"value": "x", "key": {}}, "key"),
        ({"value": "x", "key": "k", "key_base64": "eA=="}, "key"),
        ({"value": "x", "headers": "h"}, "headers"),
        ({"value": "x", "headers": [{"value": "v"}]}, "headers"),
        ({"value": "x", "headers": [{"key": None, "value": "v"}]}, "headers"),
        ({"value": "x", "headers": [{"key": "h", "value": 5}]}, "headers"),
        ({"value": "x", "headers": {"h": 5}}, "headers"),
        ({"value": "x", "timestamp": -1}, "timestamp"),
        ({"value": "x", "timestamp": 253402300800000}, "timestamp"),
        ({"value": "x", "timestamp": "now"}, "timestamp"),
        ({"value": "x", "timestamp": 1.5}, "timestamp"),
        ({"value": "x", "expires_at": -1}, "expires_at"),
        ({"value": "x", "expires_at": 253402300800000}, "expires_at"),
        ({"value": "x", "expires_at": "1"}, "expires_at"),
        ({"value": "x", "partition": -1}, "partition"),
        ({"value": "x", "partition": 1}, "partition"),
        ({"value": "x", "partition": "0"}, "partition"),
        (5, ""),
        (None, ""),
    ],
)
def test_records_that_can_not_be_stored(api: Api, record: Any, member: str) -> None:
    """400 ``INVALID_RECORD`` naming the place; nothing of the request is appended."""
    topic = api.topic()
    body = {"records": [{"value": "good"}, record]}
    problem = api.refused(api.http.post(f"/v1/topics/{topic}/records", json=body), 400, "INVALID_RECORD")
    assert problem["errors"][0]["where"].startswith(f"/records/1/{member}".rstrip("/"))
    assert api.records(topic) == []


def test_expiry_is_stored_as_a_header(api: Api) -> None:
    """The member ``expires_at`` becomes the last header, in decimal ms; JSON, NDJSON and Arrow; null is none."""
    topic = api.topic()
    time_ms = 253402300799999
    api.produce(
        topic,
        {"value": "0", "expires_at": time_ms},
        {"value": "1", "headers": {"a": "b"}, "expires_at": 0},
        {"value": "2", "expires_at": None},
    )
    api.produce_body(topic, "application/x-ndjson", '{"value":"3","expires_at":7}')
    sink = io.BytesIO()
    table = pa.table({"value": [b"4", b"5"], "expires_at": pa.array([9, None], pa.int64())})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    api.produce_body(topic, "application/vnd.apache.arrow.stream", sink.getvalue())
    found = [[(one["key"], one["value"]) for one in record["headers"]] for record in api.records(topic)]
    assert found == [
        [("expires_at", str(time_ms))],
        [("a", "b"), ("expires_at", "0")],
        [],
        [("expires_at", "7")],
        [("expires_at", "9")],
        [],
    ]


def test_at_most_twenty_places_are_named(api: Api) -> None:
    """A batch with many faults is answered with the first twenty."""
    problem = api.refused(api.produce(api.topic(), *[{"valu": "x"}] * 100), 400, "INVALID_RECORD")
    assert len(problem["errors"]) == 20


def test_timestamps(api: Api) -> None:
    """The client's, or the gateway's clock at arrival when absent or null; always the clock's with ``LogAppendTime``."""
    topic, appended = api.topic(), api.topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    records: list[dict[str, Any]] = [{"value": "a", "timestamp": 0}, {"value": "b"}, {"value": "c", "timestamp": None}]
    records.append({"value": "d", "timestamp": 253402300799999})
    for name in (topic, appended):
        assert api.produce(name, *records).status_code == 200
    after = int(time.time() * 1000)
    times = [record["timestamp"] for record in api.records(topic)]
    assert (times[0], times[3]) == (0, 253402300799999)
    assert all(before <= time_ms <= after for time_ms in times[1:3])
    assert all(before <= record["timestamp"] <= after for record in api.records(appended))


def test_keys_go_where_kafka_sends_them(api: Api) -> None:
    """murmur2 of the key bytes, made positive, modulo the partition count: values from Kafka's own default partitioner."""
    topic = api.topic(100)
    # org.apache.kafka.common.utils.Utils.murmur2 of these, from Kafka's UtilsTest, made positive.
    hashes = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536}
    hashes |= {"a-little-bit-longer-string": -1486304829, "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971}
    hashes["abc"] = 479470107
    for key, murmur2 in hashes.items():
        answer = api.produce(topic, {"key": key, "value": "x"}).json()
        assert [part["partition"] for part in answer["partitions"]] == [(murmur2 & 0x7FFFFFFF) % 100], key
    assert api.produce(topic, {"key_base64": as_base64(b"abc"), "value": "x"}).json()["partitions"][0]["partition"] == (
        479470107 % 100
    )


def test_the_route_wins_over_the_record_and_the_record_over_the_key(api: Api) -> None:
    """The order in which a partition is chosen."""
    topic = api.topic(4)
    answer = api.produce(topic, {"value": "x", "partition": 3, "key": "k"}, partition=2)
    assert answer.json()["partitions"][0]["partition"] == 2
    assert api.produce(topic, {"value": "x", "partition": 3, "key": "k"}).json()["partitions"][0]["partition"] == 3


def test_without_key_and_partition_requests_take_turns(api: Api) -> None:
    """Sticky round-robin, request by request: all of a request to one partition, the next one to the next. Of several gateways
    that serve the requests each takes turns by itself."""
    gateway_count = len(api.http.get("/v1/cluster").json()["gateways"])
    topic = api.topic(3)
    chosen = []
    for _ in range(6):
        partitions = api.produce(topic, {"value": "x"}, {"value": "y"}).json()["partitions"]
        assert len(partitions) == 1
        chosen.append(partitions[0]["partition"])
    counts = [chosen.count(partition) for partition in range(3)]
    assert max(counts) - min(counts) <= (0 if gateway_count == 1 else gateway_count)
    assert gateway_count > 1 or chosen[:3] == chosen[3:]
