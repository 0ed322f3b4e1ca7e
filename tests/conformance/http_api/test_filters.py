"""docs/http-api.md section 6.8: readers that get only the records whose key and headers they name."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support.http_api import Api, Json

RECORDS: list[Json] = [
    {"value": "0", "key": "a", "headers": {"type": "order", "shop": "7"}},
    {"value": "1", "key": "b", "headers": [{"key": "type", "value": "refund"}]},
    {"value": "2", "key": "a", "headers": [{"key": "type", "value": None}]},
    {"value": "3"},
    {"value": "4", "key_base64": "/w==", "headers": {"type": "order", "url": "http://x:1/?a=b&c"}},
    {"value": "5", "key": "", "headers": [{"key": "type", "value": "refund"}, {"key": "type", "value": "order"}]},
    {"value": "6", "key": "b", "headers": [{"key": "type", "value": ""}, {"key": "raw", "value_base64": "/w=="}]},
    {"value": "7", "key": "c", "headers": {"type": "*"}},
]
"""At offsets 0 to 7."""
PASSING: list[tuple[dict[str, Any], list[int]]] = [
    ({"header": "type:order"}, [0, 4, 5]),
    ({"header": "type:refund"}, [1, 5]),
    ({"header": ["type:order", "type:refund"]}, [5]),
    ({"header": ["type:order", "shop:7"]}, [0]),
    ({"header": "type:*"}, [0, 1, 2, 4, 5, 6, 7]),
    ({"header": "type:"}, [6]),
    ({"header": "raw:*"}, [6]),
    ({"header": "url:http://x:1/?a=b&c"}, [4]),
    ({"header": "Type:order"}, []),
    ({"header": "none:*"}, []),
    ({"key": "a"}, [0, 2]),
    ({"key": ""}, [5]),
    ({"key_base64": "/w=="}, [4]),
    ({"key_base64": "YQ=="}, [0, 2]),
    ({"key": "a", "header": "type:order"}, [0]),
    ({"key": "b", "header": ["shop:*", "type:*"]}, []),
    ({"value_contains": "4"}, [4]),
    ({"value_contains": "44"}, []),
    ({"value_contains": "1", "key": "b"}, [1]),
    ({"value_contains": "0", "header": "type:refund"}, []),
]


@pytest.fixture(scope="module")
def filled(api: Api) -> str:
    """A topic with ``RECORDS`` to which no test adds."""
    return with_records(api)


def with_records(api: Api) -> str:
    """A new topic with ``RECORDS``, in two commits."""
    topic = api.topic()
    api.produce(topic, *RECORDS[:5])
    api.produce(topic, *RECORDS[5:])
    return topic


def offsets(records: list[Json]) -> list[int]:
    return [record["offset"] for record in records]


def as_member(query: dict[str, Any]) -> Json:
    """A query's filter as the member of a body."""
    member = {name: value for name, value in query.items() if name != "header"}
    headers = query.get("header")
    return member if headers is None else member | {"headers": [headers] if isinstance(headers, str) else headers}


@pytest.mark.parametrize(("query", "passing"), PASSING)
def test_all_conditions_hold(api: Api, filled: str, query: dict[str, Any], passing: list[int]) -> None:
    """Of the header conditions and the key all must hold; the answer says to go on past what was left out."""
    answer = api.fetch(filled, **query)
    assert offsets(answer.json()["records"]) == passing
    assert answer.json()["next_offset"] == 8
    assert answer.headers["tidelog-next-offset"] == "8"


@pytest.mark.parametrize(("query", "passing"), PASSING)
def test_a_part_of_a_fetch_of_several(api: Api, filled: str, query: dict[str, Any], passing: list[int]) -> None:
    """``filter`` holds for its part only."""
    other = api.topic()
    api.produce(other, {"value": "x"})
    part = {"topic": filled, "partition": 0, "offset": 0, "filter": as_member(query)}
    body = {"partitions": [part, {"topic": other, "partition": 0, "offset": "earliest"}]}
    found = api.http.post("/v1/fetch", json=body).json()["partitions"]
    assert [offsets(one["records"]) for one in found] == [passing, [0]]
    assert [one["next_offset"] for one in found] == [8, 1]


def test_topics_at_a_journal(api: Api) -> None:
    """Where a topic's commits go makes no difference."""
    topic = api.topic(commit_mode="shared")
    api.produce(topic, *RECORDS)
    answer = api.fetch(topic, header="type:order").json()
    assert offsets(answer["records"]) == [0, 4, 5]
    assert answer["next_offset"] == 8


def test_a_filtered_record_is_whole(api: Api, filled: str) -> None:
    """What passes is answered as without a filter."""
    whole = {record["offset"]: record for record in api.records(filled)}
    assert api.records(filled, header="type:*") == [whole[offset] for offset in (0, 1, 2, 4, 5, 6, 7)]


def test_each_type_of_answer(api: Api, filled: str) -> None:
    """NDJSON and Arrow have the same records; Arrow has its schema without any."""
    lines = api.fetch(filled, accept="application/x-ndjson", header="type:order")
    assert [json.loads(line)["offset"] for line in lines.text.splitlines()] == [0, 4, 5]
    for header, passing in (("type:order", [0, 4, 5]), ("none:*", [])):
        answer = api.fetch(filled, accept="application/vnd.apache.arrow.stream", header=header)
        table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
        assert table.column("offset").to_pylist() == passing
        assert "headers" in table.column_names
        assert answer.headers["tidelog-next-offset"] == "8"


@pytest.mark.parametrize(
    ("query", "where"),
    [
        ("header=type", "header"),
        ("header=", "header"),
        ("&".join(["header=a:1"] * 17), "header"),
        ("header=a:1&header=b", "header"),
        ("key=a&key=b", "key"),
        ("key=a&key_base64=YQ%3D%3D", "key"),
        ("key_base64=YQ", "key_base64"),
        ("headers=a:1", "headers"),
        ("value_contains=", "value_contains"),
        (f"value_contains={'x' * 1025}", "value_contains"),
        ("filter=a", "filter"),
    ],
)
def test_refused_in_a_query(api: Api, filled: str, query: str, where: str) -> None:
    """400 that names the parameter, at a fetch and at a poll."""
    fetch = api.http.get(f"/v1/topics/{filled}/partitions/0/records?offset=0&{query}")
    poll = api.http.post(f"/v1/groups/{filled}/poll?{query}", json={"topics": [filled]})
    for answer in (fetch, poll):
        assert api.refused(answer, 400, "INVALID_REQUEST")["errors"][0]["where"] == where


@pytest.mark.parametrize(
    ("member", "where"),
    [
        ({"headers": ["a:1", "b"]}, "/headers/1"),
        ({"headers": ["a:1"] * 17}, "/headers"),
        ({"headers": "a:1"}, "/headers"),
        ({"headers": None}, "/headers"),
        ({"headers": [7]}, "/headers/0"),
        ({"key": None}, "/key"),
        ({"key": 7}, "/key"),
        ({"key": "a", "key_base64": "YQ=="}, "/key"),
        ({"key_base64": "a"}, "/key_base64"),
        ({"header": ["a:1"]}, "/header"),
        ({"value_contains": None}, "/value_contains"),
        ({"value_contains": ""}, "/value_contains"),
        (None, ""),
        ("a:1", ""),
        ([], ""),
    ],
)
def test_refused_in_a_body(api: Api, filled: str, member: Any, where: str) -> None:
    """400 that points to the member."""
    body = {"partitions": [{"topic": filled, "partition": 0, "offset": 0, "filter": member}]}
    problem = api.refused(api.http.post("/v1/fetch", json=body), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == "/partitions/0/filter" + where


def test_sixteen_conditions(api: Api, filled: str) -> None:
    """So many are taken; so is an empty filter, which leaves nothing out."""
    assert offsets(api.records(filled, header=["type:order"] * 16)) == [0, 4, 5]
    body = {"partitions": [{"topic": filled, "partition": 0, "offset": 0, "filter": {}}]}
    assert len(api.http.post("/v1/fetch", json=body).json()["partitions"][0]["records"]) == 8


def test_limits_count_what_is_delivered(api: Api) -> None:
    """``max_records`` and ``max_bytes`` are of records that pass; the answer goes on before the next one that does."""
    topic = api.topic()
    api.produce(topic, *[{"value": f"{n:010d}", "headers": {"n": str(n % 10)}} for n in range(200)])
    size = 10 + len("n") + 1
    cases: list[tuple[dict[str, Any], int]] = [
        ({"max_records": 7}, 7),
        ({"max_bytes": 3 * size + 1}, 3),
        ({"max_bytes": 1}, 1),
    ]
    for limits, count in cases:
        answer = api.fetch(topic, offset=5, header="n:3", **limits).json()
        assert offsets(answer["records"]) == [13 + 10 * n for n in range(count)]
        assert 3 + 10 * count < answer["next_offset"] <= 13 + 10 * count
        again = api.fetch(topic, offset=answer["next_offset"], header="n:3", max_records=1).json()
        assert offsets(again["records"]) == [13 + 10 * count]
    body = {
        "partitions": [{"topic": topic, "partition": 0, "offset": 0, "filter": {"headers": ["n:3"]}}],
        "max_records": 4,
    }
    (part,) = api.http.post("/v1/fetch", json=body).json()["partitions"]
    assert offsets(part["records"]) == [3, 13, 23, 33]


def test_a_wait_ends_with_a_record_that_passes(api: Api) -> None:
    """Others do not end it; ``min_bytes`` are of records that pass."""
    topic = api.topic()

    def send() -> None:
        for n in range(6):
            time.sleep(0.15)
            api.produce(topic, {"value": "x" * 20, "headers": {"n": str(n // 2)}})

    sender = threading.Thread(target=send)
    sender.start()
    first = api.fetch(topic, offset=0, header="n:1", max_wait_ms=20_000).json()
    both = api.fetch(topic, offset=0, header="n:2", max_wait_ms=20_000, min_bytes=30).json()
    sender.join()
    assert offsets(first["records"]) in ([2], [2, 3]), "the second may come while the first is read"
    assert offsets(both["records"]) == [4, 5]


def test_a_wait_without_any_waits_and_moves(api: Api) -> None:
    """A long poll with nothing that passes ends when its time is over, and says to go on past what it has seen."""
    topic = api.topic()
    api.produce(topic, *[{"value": "x"}] * 5)
    sender = threading.Timer(0.2, lambda: api.produce(topic, *[{"value": "y"}] * 5))
    sender.start()
    started = time.monotonic()
    answer = api.fetch(topic, offset=0, header="n:1", max_wait_ms=1_000).json()
    sender.join()
    assert time.monotonic() - started > 0.9
    assert answer["records"] == []
    assert answer["next_offset"] == 10


def test_a_position_in_the_log_is_checked_as_ever(api: Api, filled: str) -> None:
    """Beyond the end: 416; a first timestamp is that of any record."""
    api.refused(api.fetch(filled, offset=9, header="type:*"), 416, "OFFSET_OUT_OF_RANGE")
    topic = api.topic()
    api.produce(topic, {"value": "x", "timestamp": 10}, {"value": "y", "timestamp": 20, "key": "k"})
    assert offsets(api.records(topic, timestamp=0, key="k")) == [1]
    assert api.fetch(topic, offset=2, key="k").json()["next_offset"] == 2


def events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Each block of lines up to a blank one."""
    block: dict[str, str] = {}
    for line in lines:
        if not line:
            yield block
            block = {}
        else:
            name, _, value = line.partition(":")
            block[name or "comment"] = value.strip()


def test_an_event_stream(api: Api) -> None:
    """It has the records that pass, those to come too, and with each ping a bare ``id`` of where to go on."""
    filled = with_records(api)
    url = f"/v1/topics/{filled}/partitions/0/records"
    query = {"offset": "0", "header": "type:order"}
    with api.http.stream("GET", url, params=query, headers={"accept": "text/event-stream"}, timeout=40) as answer:
        found = events(answer.iter_lines())
        seen = [next(found) for _ in range(3)]
        assert [json.loads(event["data"])["value"] for event in seen] == ["0", "4", "5"]
        api.produce(filled, {"value": "8", "headers": {"type": "other"}})
        ping = next(found)
        assert ping == {"comment": "ping", "id": "9"}
        api.produce(filled, {"value": "9"}, {"value": "10", "headers": {"type": "order"}})
        last = next(found)
        assert (json.loads(last["data"])["value"], last["id"], last["event"]) == ("10", "11", "record")


def test_a_poll_moves_past_what_is_left_out(api: Api) -> None:
    """The positions of its answer can be committed; the next poll goes on there."""
    filled = with_records(api)
    group, url = f"g-{filled}", f"/v1/groups/g-{filled}/poll"
    joined = api.http.post(url, params={"header": ["type:order"], "key": "a"}, json={"topics": [filled]}).json()
    (part,) = joined["partitions"]
    assert offsets(part["records"]) == [0]
    assert part["next_offset"] >= 8
    committed = api.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [one["offset"] for one in committed] == [0]
    position = {"topic": filled, "partition": 0, "offset": part["next_offset"]}
    member = {"member_id": joined["member_id"], "generation": joined["generation"]}
    api.produce(filled, {"value": "x", "key": "a"}, {"value": "y", "key": "a", "headers": {"type": "order"}})
    again = api.http.post(
        url, params={"header": "type:order", "key": "a"}, json={**member, "commit": [position], "positions": [position]}
    ).json()
    assert [record["value"] for record in again["partitions"][0]["records"]] == ["y"]
    committed = api.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]
    assert [one["offset"] for one in committed] == [part["next_offset"]]
    from_committed = api.http.post(url, params={"key_base64": base64.b64encode(b"a").decode()}, json=member).json()
    assert [record["value"] for record in from_committed["partitions"][0]["records"]] == ["x", "y"]


def test_an_answer_may_be_empty_and_moves(api: Api) -> None:
    """A reader far behind gets there, however much is left out: each answer moves, and is empty only after 64 MiB."""
    topic = api.topic()
    filler = "x" * 1_000_000
    for _ in range(10):
        api.produce(topic, *[{"value": filler}] * 9)
    api.produce(topic, {"value": "found", "key": "k"})
    offset, looks = 0, 0
    while True:
        answer = api.fetch(topic, offset=offset, key="k", max_wait_ms=30_000).json()
        looks += 1
        if answer["records"]:
            break
        assert answer["next_offset"] > offset
        offset = answer["next_offset"]
    assert answer["records"][0]["value"] == "found"
    assert 2 <= looks <= 30
