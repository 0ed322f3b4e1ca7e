"""What callers see of topics, groups and the cluster: lists, partitions of fetches and polls, patterns, by their rights."""

from __future__ import annotations

import secrets

from tests.support.secured import Secured
from tests.support.waiting import until


def test_lists_show_what_may_be_described(secured: Secured) -> None:
    """Also across pages: a page is full of what may be seen, and leads past what may not."""
    principal, api = secured.user()
    mark = secrets.token_hex(4)
    names = [f"l{mark}-{index}" for index in range(5)]
    for name in names:
        secured.admin.http.post("/v1/topics", json={"name": name})
        secured.admin.http.put(f"/v1/groups/{name}/offsets", json={"offsets": []})
    for name in (names[1], names[3], names[4]):
        secured.allow(principal, "Write", "topic", name)
        secured.allow(principal, "Read", "group", name)
    for kind, key in (("topics", "name"), ("groups", "group")):
        found: list[str] = []
        after: dict[str, str] = {}
        while True:
            page = api.http.get(f"/v1/{kind}", params={"limit": 2, **after}).json()
            found += [one[key] for one in page[kind]]
            if "next" not in page:
                break
            after = {"after": page["next"]}
        assert found == [names[1], names[3], names[4]]


def test_a_group_shows_offsets_and_lag_of_topics_that_may_be_described(secured: Secured) -> None:
    """The right to a group is none to its topics."""
    principal, api = secured.user()
    seen, hidden, group = secured.admin.topic(), secured.admin.topic(), f"g-{secrets.token_hex(6)}"
    offsets = [{"topic": topic, "partition": 0, "offset": 0} for topic in (seen, hidden)]
    assert secured.admin.http.put(f"/v1/groups/{group}/offsets", json={"offsets": offsets}).status_code == 200
    secured.allow(principal, "Describe", "group", group)
    secured.allow(principal, "Describe", "topic", seen)
    assert [one["topic"] for one in api.http.get(f"/v1/groups/{group}/offsets").json()["offsets"]] == [seen]
    assert [one["topic"] for one in api.http.get(f"/v1/groups/{group}/lag").json()["topics"]] == [seen]
    secured.allow(principal, "Alter", "group", group)
    moved = api.http.post(f"/v1/groups/{group}/offsets:reset", json={"topics": [seen], "to": "latest"})
    assert [one["topic"] for one in moved.json()["offsets"]] == [seen]


def test_fetch_of_several_has_an_error_for_each_that_may_not_be_read(secured: Secured) -> None:
    """The others are read, in the order of the request, at once; whether a topic exists is not told."""
    principal, api = secured.user()
    topic, hidden = secured.admin.topic(), secured.admin.topic()
    secured.admin.produce(topic, {"value": "seen"})
    secured.admin.produce(hidden, {"value": "unseen"})
    secured.allow(principal, "Read", "topic", topic)
    wanted = [{"topic": name, "partition": 0, "offset": 0} for name in (hidden, topic, "no-such-topic")]
    answer = api.http.post("/v1/fetch", json={"partitions": wanted, "max_wait_ms": 20_000, "min_bytes": 10_000})
    parts = answer.json()["partitions"]
    assert [(part["topic"], "error" in part) for part in parts] == [
        (hidden, True),
        (topic, False),
        ("no-such-topic", True),
    ]
    assert [record["value"] for record in parts[1]["records"]] == ["seen"]
    for part in (parts[0], parts[2]):
        error = part["error"]
        assert (error["status"], error["error_code"], error["operation"]) == (403, "UNAUTHORIZED", "Read")
        assert (error["resource_type"], error["resource"]) == ("topic", part["topic"])
    alone = api.http.post("/v1/fetch", json={"partitions": wanted[:1], "max_wait_ms": 20_000})
    assert alone.json()["partitions"][0]["error"]["error_code"] == "UNAUTHORIZED"


def test_records_at_once_are_all_or_nothing(secured: Secured) -> None:
    """One topic without the right, and nothing of the request is anywhere."""
    principal, api = secured.user()
    mine, other = secured.admin.topic(), secured.admin.topic()
    secured.allow(principal, "Write", "topic", mine)
    topics = [{"topic": name, "records": [{"value": "v"}]} for name in (mine, other)]
    api.refused(api.http.post("/v1/records", json={"topics": topics}), 403, "UNAUTHORIZED")
    assert not secured.admin.records(mine)
    assert not secured.admin.records(other)


def test_the_store_is_shown_to_those_who_may_describe_the_cluster(secured: Secured) -> None:
    """Other callers learn which gateways serve, but not from which store."""
    principal, api = secured.user()
    assert api.http.get("/v1/cluster").json()["store"] is None
    secured.allow(principal, "Describe", "cluster", "cluster")
    assert api.http.get("/v1/cluster").json()["store"]


def test_a_pattern_sees_what_may_be_read(secured: Secured) -> None:
    """And follows the rights, within 5 s, when they come and when they go."""
    principal, api = secured.user()
    mark = f"p{secrets.token_hex(4)}"
    for index in range(3):
        secured.admin.http.post("/v1/topics", json={"name": f"{mark}-{index}"})
    secured.allow(principal, "Read", "group", mark)
    secured.allow(principal, "Read", "topic", f"{mark}-1")
    joined = api.http.post(f"/v1/groups/{mark}/members", json={"topic_pattern": f"{mark}-.*"}).json()

    def assigned() -> list[str]:
        path = f"/v1/groups/{mark}/members/{joined['member_id']}/heartbeat"
        heard = api.http.post(path, json={"generation": joined["generation"]}).json()
        joined["generation"] = heard["generation"]
        return [one["topic"] for one in heard["assignment"]]

    assert [one["topic"] for one in joined["assignment"]] == [f"{mark}-1"]
    secured.allow(principal, "Read", "topic", f"{mark}-2")
    until(lambda: assigned() == [f"{mark}-1", f"{mark}-2"], seconds=5)
    secured.allow(principal, "Read", "topic", f"{mark}-1", permission="deny")
    until(lambda: assigned() == [f"{mark}-2"], seconds=5)


def test_a_poll_has_an_error_for_partitions_whose_right_was_lost(secured: Secured) -> None:
    """The member stays, and what it may read is read."""
    principal, api = secured.user()
    lost, kept, group = secured.admin.topic(), secured.admin.topic(), f"g-{secrets.token_hex(6)}"
    for topic in (lost, kept):
        secured.admin.produce(topic, {"value": "v"})
        secured.allow(principal, "Read", "topic", topic)
    secured.allow(principal, "Read", "group", group)
    first = api.http.post(f"/v1/groups/{group}/poll", json={"topics": [lost, kept]}).json()
    assert {part["topic"]: len(part["records"]) for part in first["partitions"]} == {lost: 1, kept: 1}
    secured.allow(principal, "Read", "topic", lost, permission="deny")
    who = {"member_id": first["member_id"], "generation": first["generation"]}
    positions = [{"topic": topic, "partition": 0, "offset": 0} for topic in (lost, kept)]
    for asked in (who, who | {"positions": positions, "max_wait_ms": 10_000}):
        polled = api.http.post(f"/v1/groups/{group}/poll", json=asked).json()
        parts = {part["topic"]: part for part in polled["partitions"]}
        assert parts[lost]["error"]["error_code"] == "UNAUTHORIZED"
        assert len(parts[kept]["records"]) == 1
    commit = [{"topic": lost, "partition": 0, "offset": 1}]
    refused = api.http.post(f"/v1/groups/{group}/poll", json=who | {"commit": commit})
    assert api.refused(refused, 403, "UNAUTHORIZED")["resource"] == lost
