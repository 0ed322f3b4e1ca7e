"""docs/http-api.md section 3.8: requests to erase."""

from __future__ import annotations

import secrets
import time
from typing import Any

import pytest

from tests.support.http_api import Api


@pytest.fixture
def topic(api: Api) -> str:
    """A topic with two records."""
    name = f"test-{secrets.token_hex(6)}"
    assert api.http.post("/v1/topics", json={"name": name}).status_code == 201
    records = {"records": [{"key": "user-7", "value": "v"}, {"value": "w", "headers": {"user": "7"}}]}
    assert api.http.post(f"/v1/topics/{name}/records", json=records).status_code == 200
    return name


def test_a_request_is_recorded_and_told(api: Api, topic: str) -> None:
    """202 and what it is about, without what it names; the same by its id and in the list; two are two."""
    before = int(time.time() * 1000) - 60_000
    wanted = {"keys": ["user-7"], "keys_base64": ["/w=="], "headers": [{"key": "user", "value": "7"}], "before": 9}
    answer = api.http.post(f"/v1/topics/{topic}/erasures", json=wanted)
    assert answer.status_code == 202
    made = answer.json()
    assert made.pop("not_reached")
    assert (made.pop("dead_letters"), made.pop("clones")) == ([], [])
    assert made.pop("requested_at") >= before
    assert made | {"erasure_id": ""} == {
        "erasure_id": "",
        "status": "requested",
        "keys": 2,
        "headers": 1,
        "where": False,
        "before": 9,
        "keep": "key",
        "records": 0,
        "bytes": 0,
        "version": None,
        "rewritten_at": None,
        "files_until": None,
        "gone_at": None,
    }
    assert "user-7" not in answer.text
    shown = api.http.get(f"/v1/topics/{topic}/erasures/{made['erasure_id']}")
    assert (shown.status_code, shown.json().items() >= made.items()) == (200, True)
    second = api.http.post(f"/v1/topics/{topic}/erasures", json={"keys": ["a"]}).json()["erasure_id"]
    listed = api.http.get(f"/v1/topics/{topic}/erasures").json()["erasures"]
    assert [one["erasure_id"] for one in listed] == [made["erasure_id"], second]


def test_a_topic_with_the_longest_name_is_cloned_and_erased(api: Api, topic: str) -> None:
    """Although no topic can have the name that its dead letters would have; the clone's name is as long."""
    names = [f"{topic}-{letter}".ljust(249, letter) for letter in "ab"]
    for source, name in ((topic, names[0]), names):
        assert api.http.post(f"/v1/topics/{source}:clone", json={"name": name}, timeout=60).status_code == 201
    answer = api.http.post(f"/v1/topics/{names[0]}/erasures", json={"keys": ["user-7"]})
    assert answer.status_code == 202
    assert (answer.json()["dead_letters"], answer.json()["clones"]) == ([], names[1:])


def test_clones_of_before_are_named(api: Api, topic: str) -> None:
    """Clones and clones of clones that exist, since each needs a request of its own; no deleted ones, also if the name is taken
    again."""
    names = [f"{topic}-{number}" for number in range(3)]
    for source, name in zip([topic, names[0], topic], names, strict=True):
        while api.http.post(f"/v1/topics/{source}:clone", json={"name": name}, timeout=60).status_code == 202:
            pass
    assert api.http.delete(f"/v1/topics/{names[2]}").status_code == 204
    assert api.http.post("/v1/topics", json={"name": names[2], "partition_count": 1}).status_code == 201
    made = api.http.post(f"/v1/topics/{topic}/erasures", json={"keys": ["user-7"]}).json()
    assert made["clones"] == names[:2]
    assert api.http.post(f"/v1/topics/{names[1]}/erasures", json={"keys": ["user-7"]}).json()["clones"] == []


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, None),
        ({"before": 5}, None),
        ({"keys": ["a"] * 1_001}, "/keys"),
        ({"keys": ["a", 1]}, "/keys/1"),
        ({"keys_base64": ["?"]}, "/keys_base64/0"),
        ({"headers": [{"key": "a"}]}, "/headers/0"),
        ({"headers": [{"key": "a", "value": "b", "value_base64": "YQ=="}]}, "/headers/0"),
        ({"headers": [{"key": "a", "value_base64": "YQ"}]}, "/headers/0/value_base64"),
        ({"keys": ["a"], "before": -1}, "/before"),
        ({"where": "data.id ="}, "/where"),
        ({"where": "data.id = 1"}, None),
        ({"keys": ["a"], "what": 1}, "/what"),
    ],
)
def test_what_is_no_request(api: Api, topic: str, body: dict[str, Any], where: str | None) -> None:
    """400 that says where; nothing is recorded."""
    problem = api.refused(api.http.post(f"/v1/topics/{topic}/erasures", json=body), 400, "INVALID_REQUEST")
    assert where is None or where in [one["where"] for one in problem["errors"]]
    assert api.http.get(f"/v1/topics/{topic}/erasures").json() == {"erasures": []}


def test_unknown_ones(api: Api, topic: str) -> None:
    """404 for a topic and for a request that are not there."""
    missing = f"missing-{secrets.token_hex(6)}"
    api.refused(api.http.post(f"/v1/topics/{missing}/erasures", json={"keys": ["a"]}), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.get(f"/v1/topics/{missing}/erasures"), 404, "UNKNOWN_TOPIC")
    api.refused(api.http.get(f"/v1/topics/{topic}/erasures/e1"), 404, "UNKNOWN_ERASURE")
