"""docs/http-api.md section 6: fetch."""

from __future__ import annotations

import io
import json
import threading
import time
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.http_api import Api


def filled(api: Api, count: int = 10, **config: Any) -> str:
    """A topic with so many records in one partition: values of 10 bytes, timestamps 1000, 1010, …"""
    topic: str = api.topic(**config)
    api.produce(topic, *[{"value": f"{n:010d}", "timestamp": 1000 + n * 10} for n in range(count)])
    return topic


def test_the_answer(api: Api) -> None:
    """Records from the offset on, where to go on, the log's ends; the positions are also headers."""
    topic = filled(api)
    answer = api.fetch(topic, offset=4, max_records=3)
    assert answer.headers["content-type"].split(";")[0] == "application/json"
    body = answer.json()
    assert (body["topic"], body["partition"]) == (topic, 0)
    assert [record["offset"] for record in body["records"]] == [4, 5, 6]
    assert set(body["records"][0]) == {"partition", "offset", "timestamp", "key", "value", "headers"}
    assert (body["next_offset"], body["high_watermark"], body["log_start_offset"]) == (7, 10, 0)
    assert answer.headers["tidelog-next-offset"] == "7"
    assert answer.headers["tidelog-high-watermark"] == "10"
    assert answer.headers["tidelog-log-start-offset"] == "0"


def test_exactly_one_of_offset_and_timestamp(api: Api) -> None:
    """Neither or both: 400."""
    path = f"/v1/topics/{filled(api)}/partitions/0/records"
    for query in ("", "?offset=1&timestamp=1", "?max_records=1"):
        api.refused(api.http.get(path + query), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "query",
    [
        "offset=abc", "offset=-1", "offset=", "offset=1.0", "offset=99999999999999999999", "offset=Earliest",
        "timestamp=-1", "timestamp=253402300800000", "timestamp=now",
        "offset=0&max_records=0", "offset=0&max_records=100001", "offset=0&max_bytes=0", "offset=0&max_bytes=67108865",
        "offset=0&min_bytes=-1", "offset=0&max_wait_ms=-1", "offset=0&max_wait_ms=60001", "offset=0&max_records=x",
    ],
)  # fmt: skip
def test_parameters_out_of_their_ranges(api: Api, query: str) -> None:
    """400 naming the parameter."""
    problem = api.refused(
        api.http.get(f"/v1/topics/{filled(api)}/partitions/0/records?{query}"), 400, "INVALID_REQUEST"
    )
    assert problem["errors"][0]["where"] in query


def test_beyond_the_end(api: Api) -> None:
    """The high watermark is in range and empty; beyond it: 416 with the log's ends."""
    topic = filled(api)
    at_end = api.fetch(topic, offset=10).json()
    assert (at_end["records"], at_end["next_offset"]) == ([], 10)
    problem = api.refused(api.fetch(topic, offset=11), 416, "OFFSET_OUT_OF_RANGE")
    assert (problem["log_start_offset"], problem["high_watermark"]) == (0, 10)
    assert api.fetch(topic, offset="latest").json()["next_offset"] == 10
    assert api.fetch(topic, offset="earliest").json()["next_offset"] == 10


def test_by_timestamp(api: Api) -> None:
    """The first record, in offset order, whose timestamp is at least T; none: the end."""
    topic = filled(api)
    for timestamp, offset in ((0, 0), (1000, 0), (1001, 1), (1050, 5), (1090, 9), (1091, None)):
        body = api.fetch(topic, timestamp=timestamp).json()
        assert (body["records"][0]["offset"] if body["records"] else None) == offset
        offsets = api.http.get(f"/v1/topics/{topic}/partitions/0/offsets", params={"timestamp": timestamp}).json()
        assert offsets == {"log_start_offset": 0, "high_watermark": 10, "offset": offset}
    assert api.http.get(f"/v1/topics/{topic}/partitions/0/offsets").json() == {
        "log_start_offset": 0,
        "high_watermark": 10,
    }


def test_limits(api: Api) -> None:
    """At most ``max_records`` and ``max_bytes``, but one record whatever ``max_bytes`` says."""
    topic = filled(api, 30)
    cases: tuple[tuple[dict[str, Any], int], ...] = (
        ({"max_records": 7}, 7),
        ({"max_bytes": 35}, 3),
        ({"max_bytes": 30}, 3),
        ({"max_bytes": 1}, 1),
    )
    for limits, count in cases:
        body = api.fetch(topic, offset=5, **limits).json()
        assert len(body["records"]) == count
        assert body["next_offset"] == 5 + count
    many = filled(api, 600)
    assert len(api.records(many)) == 500


def test_waiting(api: Api) -> None:
    """With nothing to read it waits up to ``max_wait_ms``, waking as soon as ``min_bytes`` are committed."""
    topic = filled(api)
    started = time.monotonic()
    assert api.records(topic, offset=10, max_wait_ms=300) == []
    assert 0.25 < time.monotonic() - started < 15

    for count in (1, 2):
        sender = threading.Timer(0.3, lambda: api.produce(topic, {"value": "0123456789"}))
        started = time.monotonic()
        sender.start()
        assert len(api.records(topic, offset=10, max_wait_ms=20_000, min_bytes=10 * count)) == count
        assert 0.25 < time.monotonic() - started < 15
        sender.join()
    started = time.monotonic()
    assert len(api.records(topic, offset=10, max_wait_ms=300, min_bytes=1000)) == 2
    assert len(api.records(topic, offset=12, max_wait_ms=60_000, min_bytes=0)) == 0
    assert time.monotonic() - started < 15


def test_forms(api: Api) -> None:
    """JSON for ``*/*``; NDJSON; an Arrow stream with the table's columns, the schema even without rows; else 406."""
    topic = filled(api, 3)
    api.produce(topic, {"value_base64": "/w==", "key": "k", "headers": {"h": "v"}})
    for accept in ("*/*", "application/json", "application/*;q=0.5", "text/html, */*;q=0.1"):
        assert api.fetch(topic, accept=accept).headers["content-type"].split(";")[0] == "application/json"
    in_two = [("accept", "text/html"), ("accept", "application/x-ndjson")]
    answer = api.http.get(f"/v1/topics/{topic}/partitions/0/records?offset=0", headers=in_two)
    assert answer.headers["content-type"].split(";")[0] == "application/x-ndjson"
    lines = api.fetch(topic, accept="application/x-ndjson")
    assert lines.headers["content-type"].split(";")[0] == "application/x-ndjson"
    assert [json.loads(line) for line in lines.text.splitlines()] == api.records(topic)
    assert lines.headers["tidelog-next-offset"] == "4"
    for query, count in (({"offset": 0}, 4), ({"offset": "latest"}, 0)):
        answer = api.fetch(topic, accept="application/vnd.apache.arrow.stream", **query)
        table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
        assert table.num_rows == count
        assert table.schema.names == ["partition", "offset", "timestamp", "key", "value", "headers"]
        assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
        assert answer.headers["tidelog-high-watermark"] == "4"
    rows = pa.ipc.open_stream(
        io.BytesIO(api.fetch(topic, accept="application/vnd.apache.arrow.stream").content)
    ).read_all()
    assert rows.column("value").to_pylist() == [b"0000000000", b"0000000001", b"0000000002", b"\xff"]
    assert rows.column("headers").to_pylist()[3] == [{"key": "h", "value": b"v"}]
    api.refused(api.fetch(topic, accept="application/xml"), 406, "NOT_ACCEPTABLE")
    # What was fetched as Arrow can be produced as it is.
    copy = api.topic()
    assert (
        api.produce_body(
            copy,
            "application/vnd.apache.arrow.stream",
            api.fetch(topic, accept="application/vnd.apache.arrow.stream").content,
        ).status_code
        == 200
    )
    assert api.records(copy) == api.records(topic)


def read_events(lines: Any, count: int) -> list[dict[str, str]]:
    """The next events of a stream; comments are under ``comment``."""
    events: list[dict[str, str]] = []
    current: dict[str, str] = {}
    for line in lines:
        if line == "":
            if "event" in current:
                events.append(current)
            current = {}
            if len(events) == count:
                return events
        else:
            name, _, value = line.partition(": ")
            current[name or "comment"] = value
    return events


def test_event_streams_follow(api: Api) -> None:
    """Event ``record``, its JSON, the next offset as id; new records as they come; ``Last-Event-ID`` wins; then ``end``."""
    topic = filled(api, 3)
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0"
    with httpx.Client(base_url=api.url, headers=api.headers, timeout=10, trust_env=False) as client:
        with client.stream("GET", path, headers={"accept": "text/event-stream", "accept-encoding": "gzip"}) as stream:
            assert stream.headers["content-type"].split(";")[0] == "text/event-stream"
            assert "content-encoding" not in stream.headers
            positions = ("next-offset", "high-watermark", "log-start-offset")
            assert [stream.headers[f"tidelog-{name}"] for name in positions] == ["0", "3", "0"]
            lines = stream.iter_lines()
            events = read_events(lines, 3)
            assert [event["event"] for event in events] == ["record"] * 3
            assert [event["id"] for event in events] == ["1", "2", "3"]
            assert [json.loads(event["data"]) for event in events] == api.records(topic)
            api.produce(topic, {"value": "live"})
            (event,) = read_events(lines, 1)
            assert (event["id"], json.loads(event["data"])["value"]) == ("4", "live")
        headers = {"accept": "text/event-stream", "last-event-id": "2"}
        with client.stream("GET", path, headers=headers) as stream:
            lines = stream.iter_lines()
            assert [event["id"] for event in read_events(lines, 2)] == ["3", "4"]
            api.http.delete(f"/v1/topics/{topic}")
            (event,) = read_events(lines, 1)
            assert event["event"] == "end"
            assert event["data"]
        for wrong in ("x", "-1"):
            answer = client.get(path, headers=headers | {"last-event-id": wrong})
            assert answer.status_code in {400, 404}
        api.refused(
            client.get("/v1/topics/none-such/partitions/0/records?offset=0", headers=headers), 404, "UNKNOWN_TOPIC"
        )


def test_event_streams_out_of_range_are_problems(api: Api) -> None:
    """As any fetch: 416 beyond the end, 410 below the log start, before a stream begins, also by ``Last-Event-ID``."""
    topic = filled(api, 3)
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0"
    deleted = api.http.post(f"/v1/topics/{topic}:delete-records", json={"before": [{"partition": 0, "offset": 2}]})
    assert deleted.status_code == 200
    for offset, status in ((9, 416), (1, 410)):
        problem = api.refused(
            api.fetch(topic, accept="text/event-stream", offset=offset), status, "OFFSET_OUT_OF_RANGE"
        )
        assert (problem["log_start_offset"], problem["high_watermark"]) == (2, 3)
        headers = {"accept": "text/event-stream", "last-event-id": str(offset)}
        api.refused(api.http.get(path, headers=headers), status, "OFFSET_OUT_OF_RANGE")
    headers["last-event-id"] = "x"
    problem = api.refused(api.http.get(path, headers=headers), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == "Last-Event-ID"
    assert problem["errors"][0]["what"].startswith("must be an integer from 0")


def test_several_partitions(api: Api) -> None:
    """Limits are totals; ``earliest`` and ``latest`` are taken; answers in request order; a failing one answers at once."""
    topic = api.topic(3)
    for partition in range(3):
        api.produce(topic, *[{"value": "0123456789"}] * 4, partition=partition)
    wanted = [
        {"topic": topic, "partition": 2, "offset": "earliest"},
        {"topic": topic, "partition": 0, "offset": 1},
        {"topic": topic, "partition": 1, "offset": "latest"},
    ]
    whole = api.http.post("/v1/fetch", json={"partitions": wanted}).json()["partitions"]
    assert [(part["topic"], part["partition"], len(part["records"])) for part in whole] == [
        (topic, 2, 4),
        (topic, 0, 3),
        (topic, 1, 0),
    ]
    assert whole[0] == api.fetch(topic, 2).json()
    limited = api.http.post("/v1/fetch", json={"partitions": wanted, "max_records": 5}).json()["partitions"]
    assert [len(part["records"]) for part in limited] == [4, 1, 0]
    limited = api.http.post("/v1/fetch", json={"partitions": wanted, "max_bytes": 1}).json()["partitions"]
    assert sum(len(part["records"]) for part in limited) == 1
    started = time.monotonic()
    failing = [
        wanted[2],
        {"topic": "none-such", "partition": 0, "offset": 0},
        {"topic": topic, "partition": 0, "offset": 99},
    ]
    answer = api.http.post("/v1/fetch", json={"partitions": failing, "max_wait_ms": 20_000})
    assert answer.status_code == 200
    assert time.monotonic() - started < 15
    first, second, third = answer.json()["partitions"]
    assert first["records"] == []
    assert (second["topic"], second["partition"], second["error"]["error_code"]) == ("none-such", 0, "UNKNOWN_TOPIC")
    assert (third["error"]["status"], third["error"]["high_watermark"]) == (416, 4)
    assert {"type", "title", "detail", "retryable", "may_have_happened"} <= second["error"].keys()


def test_several_partitions_wait_together(api: Api) -> None:
    """A commit to any of them wakes the poll."""
    topic = api.topic(2)
    wanted = [{"topic": topic, "partition": partition, "offset": 0} for partition in (0, 1)]
    sender = threading.Timer(0.2, lambda: api.produce(topic, {"value": "x"}, partition=1))
    sender.start()
    started = time.monotonic()
    answer = api.http.post("/v1/fetch", json={"partitions": wanted, "max_wait_ms": 20_000})
    assert time.monotonic() - started < 15
    assert [len(part["records"]) for part in answer.json()["partitions"]] == [0, 1]
    sender.join()


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": None},
        {"partitions": [{}]},
        {"partitions": [{"topic": "t", "partition": 0}]},
        {"partitions": [{"topic": "t", "partition": -1, "offset": 0}]},
        {"partitions": [{"topic": "t", "partition": 0, "offset": "first"}]},
        {"partitions": [{"topic": "t", "partition": 0, "offset": -1}]},
        {"max_records": 0},
        {"max_bytes": 1 << 40},
        {"min_bytes": -1},
        {"max_wait_ms": 60_001},
        {"max_wait_ms": "5"},
    ],
)
def test_malformed_fetches_of_several(api: Api, change: dict[str, Any]) -> None:
    """400 naming the member."""
    problem = api.refused(api.http.post("/v1/fetch", json={"partitions": []} | change), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"].startswith("/")


def test_a_long_poll_of_a_deleted_topic_ends(api: Api) -> None:
    """404 at once instead of at the end of its time."""
    topic = filled(api)
    deleter = threading.Timer(0.2, lambda: api.http.delete(f"/v1/topics/{topic}"))
    deleter.start()
    started = time.monotonic()
    api.refused(api.fetch(topic, offset=10, max_wait_ms=20_000), 404, "UNKNOWN_TOPIC")
    assert time.monotonic() - started < 15
    deleter.join()
