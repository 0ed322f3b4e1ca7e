"""Topics in any order, page by page, with the sums of all of them."""

from __future__ import annotations

import secrets
import time
from typing import Any

import pytest

from tests.support.http_api import Api
from tests.support.waiting import until


def test_topics_are_sorted_summed_up_and_paged(api: Api) -> None:
    """Each order is of all topics of the filter, not of a page; the sums are of all, too."""
    mark = f"s{secrets.token_hex(6)}"
    for number, count in enumerate((3, 7, 5)):
        name = f"{mark}-{number}"
        assert api.http.post("/v1/topics", json={"name": name, "partition_count": number + 1}).status_code == 201
        api.produce(name, *[{"value": "v"}] * count, partition=number)

    def asked(**query: Any) -> dict[str, Any]:
        answer = api.http.get("/v1/topics:summary", params={"search": mark, "max_age_ms": 0, **query})
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    def numbers(**query: Any) -> list[int]:
        return [int(topic["name"].rpartition("-")[2]) for topic in asked(**query)["topics"]]

    assert asked()["total"]["records"] == 15
    sums = {"topics": 3, "looked_at": 3, "damaged": 0, "partitions": 6, "records": 15}
    assert asked(limit=0)["total"].items() >= sums.items()
    for query, order in (
        ({}, [0, 1, 2]),
        ({"order": "desc"}, [2, 1, 0]),
        ({"sort": "records"}, [0, 2, 1]),
        ({"sort": "records", "order": "desc", "limit": 1}, [1]),
        ({"sort": "records", "order": "desc", "limit": 2, "skip": 1}, [2, 0]),
        ({"sort": "partitions", "order": "desc"}, [2, 1, 0]),
    ):
        assert numbers(**query) == order, query
    (topic,) = asked(search=f"{mark}-1", activity="hour")["topics"]
    assert (topic["records"], topic["partition_count"], topic["lag"], topic["groups"]) == (7, 2, None, [])
    assert (len(topic["activity"]), sum(topic["activity"])) == (12, 7)
    assert asked(search=f"{mark}-none")["total"]["rate"] is None
    until(lambda: asked()["total"]["rate"] == 0)  # once two looks a second apart have found the same records
    api.refused(api.http.get("/v1/topics:summary", params={"sort": "colour"}), 400, "INVALID_REQUEST")
    api.refused(api.http.get("/v1/topics:summary", params={"skip": -1}), 400, "INVALID_REQUEST")


def test_topics_are_filtered_by_their_readers(api: Api) -> None:
    """Lag is of all groups together, and topics without come last in its order; a group's topics are found, and the others."""
    mark, group = f"s{secrets.token_hex(6)}", f"g{secrets.token_hex(6)}"
    names = [f"{mark}-{number}" for number in range(3)]
    for name in names:
        api.http.post("/v1/topics", json={"name": name})
        api.produce(name, *[{"value": "v"}] * 4, partition=0)
    offsets = [{"topic": name, "partition": 0, "offset": offset} for name, offset in zip(names, (3, 1), strict=False)]
    assert api.http.put(f"/v1/groups/{group}/offsets", json={"offsets": offsets}).status_code == 200

    def found(**query: Any) -> list[str]:
        page = api.http.get("/v1/topics:summary", params={"search": mark, "max_age_ms": 0, **query}).json()
        assert page["total"]["topics"] == len(page["topics"])
        return [topic["name"] for topic in page["topics"]]

    until(lambda: found(sort="lag", order="desc") == [names[1], names[0], names[2]])
    until(lambda: found(sort="lag") == [names[0], names[1], names[2]])  # readers are known as of five seconds ago
    until(lambda: found(read="none") == [names[2]])
    until(lambda: found(read="by", group=group) == names[:2])
    until(lambda: found(read="not", group=group) == [names[2]])
    query: dict[str, Any] = {"search": names[1], "max_age_ms": 0}
    read = {"lag": 3, "group_count": 1, "groups": [{"group": group, "member_count": 0, "lag": 3}]}
    until(lambda: api.http.get("/v1/topics:summary", params=query).json()["topics"][0].items() >= read.items())


@pytest.mark.parametrize("mode", ["own", "shared"])
def test_records_of_old_timestamps_are_not_of_the_last_hour(api: Api, mode: str) -> None:
    """An activity is by the timestamps of records: between two segments they are spread, and older ones are left out. A journal's
    records count as the table's own."""
    name, now_ms = api.topic(1, **{"commit.mode": mode}), int(time.time() * 1000)
    for hours in (30, 5, 2):
        api.produce(name, *[{"value": "v", "timestamp": now_ms - hours * 3_600_000}] * 6, partition=0)

    def activity(span: str) -> Any:
        query: dict[str, Any] = {"search": name, "activity": span, "max_age_ms": 0}
        return api.http.get("/v1/topics:summary", params=query).json()["topics"][0]["activity"]

    steps = activity("day")
    assert len(steps) == 24
    assert sum(steps[:19]) in {4, 5}, "six records of 25 hours, of which 19 are shown"
    assert sum(steps[19:22]) == 6
    assert steps[22:] == [0, 0]
    assert activity("hour") == [0] * 12


def test_a_group_is_found_behind_a_hundred_others(api: Api) -> None:
    """The filter by a group, and the lag of all groups together, count those that are not listed, too."""
    name = f"s{secrets.token_hex(6)}"
    assert api.http.post("/v1/topics", json={"name": name}).status_code == 201
    api.produce(name, {"value": "v"}, {"value": "v"}, partition=0)
    for number in range(101):
        offsets = [{"topic": name, "partition": 0, "offset": 2 if number == 100 else 0 if number else 1}]
        assert api.http.put(f"/v1/groups/{name}-{number}/offsets", json={"offsets": offsets}).status_code == 200

    def found(**query: Any) -> list[dict[str, Any]]:
        answer = api.http.get("/v1/topics:summary", params={"search": name, "max_age_ms": 0, **query})
        topics: list[dict[str, Any]] = answer.json()["topics"]
        return topics

    until(lambda: (found()[0]["group_count"], found()[0]["lag"]) == (101, 199))
    until(lambda: [one["name"] for one in found(read="by", group=f"{name}-100")] == [name])
    until(lambda: found(read="not", group=f"{name}-100") == [])
    assert found(read="by", group=f"{name}-none") == []
