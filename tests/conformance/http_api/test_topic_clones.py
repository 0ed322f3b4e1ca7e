"""docs/http-api/topics.md: clones of topics."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.support.http_api import Api


def fresh_name() -> str:
    return f"test-{secrets.token_hex(6)}"


def made_topic(api: Api, **config: Any) -> str:
    """A topic of two partitions with some records; the oldest of partition 0 are deleted."""
    name = fresh_name()
    assert api.http.post("/v1/topics", json={"name": name, "partition_count": 2, "config": config}).status_code == 201
    for number in range(3):
        records = [
            {"partition": 0, "key": f"k{number}", "value": number, "headers": [{"key": "h", "value": "x"}]},
            {"partition": 1, "value": f"other {number}"},
        ]
        assert api.http.post(f"/v1/topics/{name}/records", json={"records": records}).status_code == 200
    before = {"before": [{"partition": 0, "offset": 1}]}
    assert api.http.post(f"/v1/topics/{name}:delete-records", json=before).status_code == 200
    return name


def read(api: Api, topic: str) -> list[Any]:
    """The records of each partition, from its log start on."""
    found = []
    for partition in range(2):
        where = f"/v1/topics/{topic}/partitions/{partition}"
        start = api.http.get(f"{where}/offsets").json()["log_start_offset"]
        found.append(api.http.get(f"{where}/records", params={"offset": start}).json()["records"])
    return found


def cloned(api: Api, topic: str, **body: Any) -> Any:
    """The last answer to the request, which is asked again while files are copied."""
    while True:
        answer = api.http.post(f"/v1/topics/{topic}:clone", json=body, timeout=60)
        if answer.status_code != 202:
            return answer


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_a_clone_has_what_was_acknowledged(api: Api, mode: str) -> None:
    """The same records at the same offsets with keys, headers and times, wherever the topic's commits go; then each goes on
    alone."""
    source, name = made_topic(api, **{"commit.mode": mode}), fresh_name()
    answer = cloned(api, source, name=name)
    assert answer.status_code == 201
    clone = answer.json()
    assert clone["name"] == name
    assert clone["source"] == source
    assert clone["copied_files"] == clone["files"] > 0
    assert clone["source_version"] >= 0
    described = api.http.get(f"/v1/topics/{name}").json()
    assert described["topic_id"] == clone["topic_id"] != api.http.get(f"/v1/topics/{source}").json()["topic_id"]
    records = read(api, source)
    assert [len(of_one) for of_one in records] == [2, 3]
    assert read(api, name) == records
    for topic in (source, name):
        more = {"records": [{"partition": 0, "value": topic}]}
        assert api.http.post(f"/v1/topics/{topic}/records", json=more).status_code == 200
    newest = [read(api, topic)[0][-1] for topic in (source, name)]
    assert [(record["offset"], record["value"]) for record in newest] == [(3, source), (3, name)]
    assert api.http.delete(f"/v1/topics/{source}").status_code == 204
    assert read(api, name)[1] == records[1]


def test_settings_go_along_and_may_differ(api: Api) -> None:
    """Those of the source, but for those given; null gives the default."""
    source, name = made_topic(api, **{"flush.ms": 10, "retention.ms": 1234567890}), fresh_name()
    config = {"flush.ms": None, "max.message.bytes": 5000}
    assert cloned(api, source, name=name, config=config).status_code == 201
    found = api.http.get(f"/v1/topics/{name}").json()["config"]
    assert (found["flush.ms"], found["max.message.bytes"], found["retention.ms"]) == (250, 5000, 1234567890)


def test_what_can_not_be_cloned(api: Api) -> None:
    """A topic that is missing, into one that exists or can't, with settings that are none: nothing is made."""
    source, taken, name = made_topic(api), made_topic(api), fresh_name()
    records = read(api, taken)
    for answer, status, code in (
        (cloned(api, fresh_name(), name=name), 404, "UNKNOWN_TOPIC"),
        (cloned(api, source, name=taken), 409, "TOPIC_ALREADY_EXISTS"),
        (cloned(api, source, name=source), 409, "TOPIC_ALREADY_EXISTS"),
        *(
            (cloned(api, source, name=bad), 400, "INVALID_TOPIC_NAME")
            for bad in ("a/b", "", "..", "../x", "\x00", "\x1b[31m", "a" * 5_000)
        ),
        (cloned(api, source, name=name, config={"no": 1}), 400, "INVALID_CONFIG"),
        (cloned(api, source), 400, "INVALID_REQUEST"),
        (cloned(api, source, name=name, version=10**9), 400, "INVALID_REQUEST"),
        (cloned(api, source, name=name, version=0, timestamp=0), 400, "INVALID_REQUEST"),
        (cloned(api, source, name=name, pin="none"), 404, "UNKNOWN_PIN"),
    ):
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)
        assert answer.json()["may_have_happened"] is False
    assert api.http.get(f"/v1/topics/{name}").status_code == 404
    assert read(api, taken) == records


def test_a_repeated_request_gets_the_clone_that_was_made(api: Api) -> None:
    """The answer to the first may have been lost, also that of another gateway; another request gets 409. Once the clone is
    deleted, the same request makes another."""
    source, name = made_topic(api), fresh_name()
    first = cloned(api, source, name=name).json()
    again = cloned(api, source, name=name)
    assert (again.status_code, again.json()) == (201, first)
    for other in ({"config": {"flush.ms": 77}}, {"version": first["source_version"]}):
        assert cloned(api, source, name=name, **other).json()["error_code"] == "TOPIC_ALREADY_EXISTS"
    api.http.delete(f"/v1/topics/{name}")
    assert cloned(api, source, name=name).json()["topic_id"] != first["topic_id"]


def test_an_older_version_is_cloned(api: Api) -> None:
    """By its number: what came later is not in the clone."""
    source, name = made_topic(api, **{"commit.mode": "own"}), fresh_name()
    version, records = api.http.get(f"/v1/topics/{source}").json()["table_version"], read(api, source)
    more = {"records": [{"partition": 1, "value": "later"}]}
    assert api.http.post(f"/v1/topics/{source}/records", json=more).status_code == 200
    clone = cloned(api, source, name=name, version=version).json()
    assert clone["source_version"] == version
    assert read(api, name) == records != read(api, source)


def test_the_clones_of_a_topic_and_their_bytes(api: Api) -> None:
    """By name, while they exist: what the source has, too, what it removed, and what was written for the clone."""
    source = made_topic(api, **{"commit.mode": "own", "flush.ms": 10})
    clones = f"/v1/topics/{source}/clones"
    assert api.http.get(clones).json() == {"clones": []}
    made = [cloned(api, source, name=name).json() for name in sorted([fresh_name(), fresh_name()])]
    expected = [
        {
            "name": one["name"],
            "topic_id": one["topic_id"],
            "size_bytes": one["size_bytes"],
            "also_in_source_bytes": one["size_bytes"],
            "only_in_clone_bytes": 0,
            "own_bytes": 0,
        }
        for one in made
    ]
    assert api.http.get(clones).json() == {"clones": expected}
    more = {"records": [{"partition": 0, "value": "own"}]}
    assert api.http.post(f"/v1/topics/{made[0]['name']}/records", json=more).status_code == 200
    assert api.http.delete(f"/v1/topics/{made[1]['name']}").status_code == 204
    (found,) = api.http.get(clones).json()["clones"]
    assert found["own_bytes"] > 0
    assert found == expected[0] | {"own_bytes": found["own_bytes"], "size_bytes": found["size_bytes"]}
    assert found["size_bytes"] == expected[0]["size_bytes"] + found["own_bytes"]
    api.refused(api.http.get(f"/v1/topics/{fresh_name()}/clones"), 404, "UNKNOWN_TOPIC")
