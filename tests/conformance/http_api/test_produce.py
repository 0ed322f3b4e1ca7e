"""docs/http-api.md section 4, produce; the ``Tidelog-*`` request headers are in ``test_idempotence``."""

from __future__ import annotations

import concurrent.futures
import json
import time
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_api import Api


def stream_of(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


ARROW = "application/vnd.apache.arrow.stream"


def test_the_answer_says_where_the_records_are(api: Api) -> None:
    """Consecutive offsets for one partition, in request order; partitions each once; no duplicate."""
    topic = api.topic(3)
    records = [{"value": str(number), "partition": number % 2 * 2} for number in range(10)]
    answer = api.produce(topic, *records)
    assert answer.status_code == 200
    assert answer.json() == {
        "topic": topic,
        "partitions": [
            {"partition": 0, "base_offset": 0, "last_offset": 4, "count": 5},
            {"partition": 2, "base_offset": 0, "last_offset": 4, "count": 5},
        ],
        "duplicate": False,
    }
    assert [record["value"] for record in api.records(topic, 2)] == ["1", "3", "5", "7", "9"]
    assert [record["offset"] for record in api.records(topic, 2)] == [0, 1, 2, 3, 4]


def test_the_answer_says_how_many_partitions_there_are(api: Api) -> None:
    """A producer that chooses partitions by key learns of new ones by its first append behind the growth."""
    topic = api.topic()
    assert api.produce(topic, {"value": "a"}).headers["Tidelog-Partition-Count"] == "1"
    assert api.http.patch(f"/v1/topics/{topic}", json={"partition_count": 4}).status_code == 200
    answer = api.http.post(f"/v1/topics/{topic}/records", json={"records": [{"value": "b"}]})
    assert answer.headers["Tidelog-Partition-Count"] == "4"
    for query, records in (("", []), ("?acks=0", [{"value": "c"}])):
        # As the gateway that answers knows it: nothing is committed before this answer.
        answer = api.http.post(f"/v1/topics/{topic}/records{query}", json={"records": records})
        assert answer.headers["Tidelog-Partition-Count"] in {"1", "4"}


def test_no_records_is_no_error(api: Api) -> None:
    """200 with no partitions; of a topic that must exist all the same."""
    topic = api.topic()
    empty = pa.table({"value": pa.array([], pa.binary())})
    for content_type, body in (
        ("application/json", b'{"records":[]}'),
        ("application/x-ndjson", b""),
        ("application/x-ndjson", b"\n \n"),
        (ARROW, stream_of(empty)),
    ):
        answer = api.produce_body(topic, content_type, body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == {"topic": topic, "partitions": [], "duplicate": False}
    api.refused(api.produce_body("none-at-all", "application/json", b'{"records":[]}'), 404, "UNKNOWN_TOPIC")


def test_ndjson(api: Api) -> None:
    """One record a line; blank lines are ignored; the last line needs no end."""
    topic = api.topic()
    body = '{"value":"a"}\n\n{"value":"b","key":"k"}\r\n   \n{"value":{"c":1}}'
    assert api.produce_body(topic, "application/x-ndjson", body).status_code == 200
    assert [record["value"] for record in api.records(topic)] == ["a", "b", '{"c":1}']


def test_one_bad_line_in_the_middle(api: Api) -> None:
    """400 naming line and column; nothing of the request is appended."""
    topic = api.topic()
    lines = [json.dumps({"value": str(number)}) for number in range(2000)]
    lines[1233] = '{"value": tru}'
    answer = api.produce_body(topic, "application/x-ndjson", "\n".join(lines))
    assert answer.status_code == 400
    problem = answer.json()
    assert problem["error_code"] in {"INVALID_RECORD", "INVALID_REQUEST"}
    assert problem["errors"][0]["where"] == "line 1234"
    assert "column" in problem["errors"][0]["what"]
    lines[1233] = '{"valeu":"x"}'
    problem = api.refused(api.produce_body(topic, "application/x-ndjson", "\n".join(lines)), 400, "INVALID_RECORD")
    assert problem["errors"][0]["where"] == "line 1234"
    assert api.records(topic) == []


@pytest.mark.parametrize("content_type", ["application/octet-stream", "text/plain", "text/plain; charset=latin-1"])
def test_raw_bodies_are_one_value_each(api: Api, content_type: str) -> None:
    """Byte for byte; key, partition and timestamp come as query parameters; an empty body is an empty value."""
    topic = api.topic(2)
    assert api.produce_body(topic, content_type, b"\xff\x00x", key="k", partition=1, timestamp=5).status_code == 200
    assert api.produce_body(topic, content_type, b"", key_base64="/w==", partition=1).status_code == 200
    assert api.produce_body(topic, content_type, b"x", partition=1).status_code == 200
    first, second, third = api.records(topic, 1)
    assert (first["value_base64"], first["key"], first["timestamp"]) == ("/wB4", "k", 5)
    assert (second["value"], second["key_base64"]) == ("", "/w==")
    assert (third["value"], third["key"]) == ("x", None)
    for query in ({"key": "a", "key_base64": "eA=="}, {"key_base64": "e"}, {"partition": "2"}, {"timestamp": "-1"}):
        assert api.produce_body(topic, content_type, b"x", **query).status_code == 400, query


def test_arrow_streams(api: Api) -> None:
    """``value`` and what may go with it; null timestamps and partitions are as absent; what is ignored is ignored."""
    topic = api.topic(2)
    headers = pa.array(
        [[{"key": "h", "value": b"\xff"}], [], None],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    table = pa.table(
        {
            "value": pa.array([b"a", None, b"\xff"], pa.binary()),
            "key": pa.array(["k", None, "m"], pa.string()),
            "headers": headers,
            "timestamp": pa.array([1000, None, 3000], pa.timestamp("us")),
            "partition": pa.array([1, 1, 1], pa.int16()),
            "offset": pa.array([7, 8, 9]),
            "topic": ["x"] * 3,
            "timestampType": [0] * 3,
        }
    )
    before = int(time.time() * 1000)
    assert api.produce_body(topic, ARROW, stream_of(table)).status_code == 200
    first, second, third = api.records(topic, 1)
    assert (first["value"], first["key"], first["timestamp"], first["headers"]) == (
        "a",
        "k",
        1,
        [{"key": "h", "value_base64": "/w=="}],
    )
    assert (second["value"], second["key"], second["headers"]) == (None, None, [])
    assert second["timestamp"] >= before
    assert (third["value_base64"], third["timestamp"], third["headers"]) == ("/w==", 3, [])


@pytest.mark.parametrize(
    "value",
    [
        pa.array([b"a", b"b"], pa.large_binary()),
        pa.array(["a", "b"], pa.large_string()),
        pa.array([b"a", b"b"], pa.binary_view()),
        pa.array(["a", "b"], pa.string_view()),
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array([b"a", b"b"], pa.binary()).dictionary_encode(),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_arrow_variants(api: Api, value: pa.Array, compression: str | None) -> None:
    """Large, view and dictionary variants of binary and string, also in compressed streams."""
    topic = api.topic()
    body = stream_of(pa.table({"value": value, "timestamp": pa.array([5, 6], pa.int64())}), compression=compression)
    assert api.produce_body(topic, ARROW, body).status_code == 200
    assert [(record["value"], record["timestamp"]) for record in api.records(topic)] == [("a", 5), ("b", 6)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_timestamps_of_any_unit(api: Api, unit: str) -> None:
    """The same moment, whatever the unit."""
    topic = api.topic()
    moment = pa.array([1_700_000_000_000], pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, "UTC"))
    assert api.produce_body(topic, ARROW, stream_of(pa.table({"value": ["x"], "timestamp": moment}))).status_code == 200
    assert api.records(topic)[0]["timestamp"] == 1_700_000_000_000


def test_wrong_arrow_schemas_and_cut_streams(api: Api) -> None:
    """400, and nothing is appended: unknown or missing columns, wrong types, a stream cut anywhere, no stream at all."""
    topic = api.topic()
    good = stream_of(pa.table({"value": [b"x" * 100] * 100}))
    for table in (
        pa.table({"value": [1, 2]}),
        pa.table({"key": ["x"]}),
        pa.table({"value": ["x"], "valeu": ["x"]}),
        pa.table({"value": ["x"], "timestamp": [1.5]}),
        pa.table({"value": ["x"], "partition": ["0"]}),
        pa.table({"value": ["x"], "headers": ["h"]}),
    ):
        api.refused(api.produce_body(topic, ARROW, stream_of(table)), 400, "INVALID_REQUEST")
    for table in (pa.table({"value": ["x"], "partition": [5]}), pa.table({"value": ["x"], "timestamp": [-1]})):
        problem = api.refused(api.produce_body(topic, ARROW, stream_of(table)), 400, "INVALID_RECORD")
        assert problem["errors"][0]["where"].startswith("/records/0/")
    for body in (b"", b"not arrow", good[: len(good) // 2], good[:50], good[:-20], b"\xff" * 1000):
        assert api.produce_body(topic, ARROW, body).status_code == 400, body[:20]
    assert api.records(topic) == []


def test_records_above_max_message_bytes(api: Api) -> None:
    """413 ``RECORD_TOO_LARGE`` with ``limit_bytes``: key, value and headers of one record count; nothing is appended."""
    topic = api.topic(max_message_bytes=100)
    assert api.produce(topic, {"value": "x" * 90, "key": "k" * 5, "headers": {"a": "b" * 4}}).status_code == 200
    for record in (
        {"value": "x" * 101},
        {"value": "x" * 90, "key": "k" * 11},
        {"value": "", "headers": {"a": "b" * 100}},
    ):
        problem = api.refused(api.produce(topic, {"value": "small"}, record), 413, "RECORD_TOO_LARGE")
        assert problem["limit_bytes"] == 100
    assert len(api.records(topic)) == 1


def test_acks(api: Api) -> None:
    """``all`` is the default; ``0`` validates, then answers 202 without offsets; anything else is 400."""
    topic = api.topic()
    answer = api.produce(topic, {"value": "x"}, acks="0")
    assert answer.status_code == 202
    assert "base_offset" not in answer.text
    api.refused(api.produce(topic, {"valeu": "x"}, acks="0"), 400, "INVALID_RECORD")
    api.refused(api.produce(topic, {"value": "x"}, partition=3, acks="0"), 404, "UNKNOWN_PARTITION")
    assert api.produce(topic, {"value": "y"}, acks="all").status_code == 200
    for acks in ("1", "-1", "", "ALL"):
        api.refused(api.produce(topic, {"value": "x"}, acks=acks), 400, "INVALID_REQUEST")
    # Sorted: with several gateways the first may wait for its flush at another one.
    assert sorted(record["value"] for record in api.records(topic)) == ["x", "y"]


def test_unknown_types_and_topics(api: Api) -> None:
    """415 and 404."""
    topic = api.topic()
    for content_type in (
        "application/xml",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "x",
    ):
        api.refused(api.produce_body(topic, content_type, b"{}"), 415, "UNSUPPORTED_MEDIA_TYPE")
    api.refused(api.produce("no-such-topic", {"value": "x"}), 404, "UNKNOWN_TOPIC")
    api.refused(api.produce("no-such-topic", {"value": "x"}, partition=0), 404, "UNKNOWN_TOPIC")


def test_many_at_once_lose_and_repeat_nothing(api: Api) -> None:
    """Requests side by side: offsets are dense, each request's records lie together and in order (G2)."""
    topic = api.topic(flush_ms=5)

    def send(request: int) -> int:
        answer = api.produce(topic, *[{"value": f"{request}-{number}"} for number in range(10)])
        assert answer.status_code == 200, answer.text
        base: int = answer.json()["partitions"][0]["base_offset"]
        return base

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bases = list(pool.map(send, range(100)))
    records = api.records(topic, max_records=2000)
    assert [record["offset"] for record in records] == list(range(1000))
    for request, base in enumerate(bases):
        values = [record["value"] for record in records[base : base + 10]]
        assert values == [f"{request}-{number}" for number in range(10)]


def test_large_batches(api: Api) -> None:
    """A body near the limit, as JSON and as Arrow, byte for byte."""
    topic = api.topic()
    values = [f"{number:06d}" + "x" * 1000 for number in range(12_000)]
    assert api.produce(topic, *[{"value": value} for value in values]).status_code == 200
    assert api.produce_body(topic, ARROW, stream_of(pa.table({"value": values}))).status_code == 200
    found: list[str] = []
    offset = 0
    while len(found) < 24_000:
        page = api.fetch(topic, offset=offset, max_records=100_000, max_bytes=8 << 20).json()
        found += [record["value"] for record in page["records"]]
        offset = page["next_offset"]
    assert found == values * 2
