"""A gateway at a glance: its last hour, which groups read which topics, and topics found by a part of their name."""

from __future__ import annotations

import secrets

from tests.support.http_api import Api
from tests.support.waiting import until


def fresh_name() -> str:
    return f"n{secrets.token_hex(6)}"


def test_the_last_hour(api: Api) -> None:
    """Each number has a value for each point."""
    hour = api.http.get("/v1/activity").json()
    count = len(hour["points"]["at"])
    assert all(len(values) == count for values in hour["points"].values())
    assert hour["points"]["at"] == sorted(hour["points"]["at"])
    assert hour["gateway"]
    assert hour["interval_ms"] > 0
    api.refused(api.http.get("/v1/activity?x=1"), 400, "INVALID_REQUEST")


def test_topics_are_found_by_a_part_of_their_name(api: Api) -> None:
    """In any case, together with the prefix, page by page."""
    mark = fresh_name()
    names = sorted(f"{start}.{mark}.{end}" for start in ("a", "b") for end in ("Orders", "orders-2", "bills"))
    for name in names:
        api.http.post("/v1/topics", json={"name": name})

    def found(**query: str) -> list[str]:
        listed: list[str] = []
        after = ""
        while True:
            page = api.http.get("/v1/topics", params={**query, "after": after, "limit": 1}).json()
            listed += [topic["name"] for topic in page["topics"]]
            if "next" not in page:
                return listed
            after = page["next"]

    assert found(search=mark) == names
    assert found(search=f"{mark}.ORDERS") == [name for name in names if "rders" in name]
    assert found(search=f"{mark}.o", prefix="b.") == [
        name for name in names if name.startswith("b") and "rders" in name
    ]
    assert found(search=fresh_name()) == []
    api.refused(api.http.get("/v1/topics", params={"search": "x" * 250}), 400, "INVALID_REQUEST")


def test_topics_with_the_groups_that_read_them(api: Api) -> None:
    """Those with commits or members, the furthest behind first; topics without are left out; a new topic has no old readers.

    A partition without a committed offset counts from the log start where a member subscribes, in the list as in the group's own
    lag.
    """
    topic, other, unread = (api.topic(2) for _ in range(3))
    ahead, behind, waiting = (fresh_name() for _ in range(3))
    for partition, of in ((0, topic), (1, topic), (1, other)):
        api.produce(of, *[{"value": str(number)} for number in range(10)], partition=partition)
    for group, offsets in ((ahead, (9, 15)), (behind, (2,))):
        body = [{"topic": topic, "partition": number, "offset": offset} for number, offset in enumerate(offsets)]
        assert api.http.put(f"/v1/groups/{group}/offsets", json={"offsets": body}).status_code == 200
    assert api.http.post(f"/v1/groups/{waiting}/members", json={"topics": [other]}).status_code == 201

    def readers(name: str) -> list[dict[str, object]] | None:
        page = api.http.get("/v1/lag", params={"prefix": name}).json()
        assert "next" not in page
        named = {one["topic"]: one for one in page["topics"]}
        if name not in named:
            return None
        assert named[name]["group_count"] == len(named[name]["groups"])
        groups: list[dict[str, object]] = named[name]["groups"]
        return groups

    of_topic = [
        {"group": behind, "member_count": 0, "lag": 8},
        {"group": ahead, "member_count": 0, "lag": 1},
    ]
    until(lambda: readers(topic) == of_topic)  # a gateway shows what another one committed within a moment
    until(lambda: readers(other) == [{"group": waiting, "member_count": 1, "lag": 10}])
    for group, lag in ((ahead, 1), (behind, 8), (waiting, 10)):
        assert api.http.get(f"/v1/groups/{group}/lag?include=unread").json()["unread"] == lag
    assert readers(unread) is None
    first = api.http.get("/v1/lag", params={"limit": 1}).json()
    assert len(first["topics"]) <= 1
    assert api.http.get("/v1/lag", params={"limit": 1, "after": first["next"]}).json()["topics"] != first["topics"]
    api.http.delete(f"/v1/topics/{topic}")
    api.http.post("/v1/topics", json={"name": topic})
    until(lambda: readers(topic) is None)
