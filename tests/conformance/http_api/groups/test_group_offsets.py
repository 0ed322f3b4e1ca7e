"""Committed offsets over HTTP: all of a commit or nothing, under any group id, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api

Json = dict[str, Any]


def _filled(api: Api, partition_count: int = 2, count: int = 5) -> str:
    topic: str = api.topic(partition_count=partition_count)
    for number in range(partition_count):
        api.produce(topic, *({"value": str(one)} for one in range(count)), partition=number)
    return topic


def test_a_commit_makes_the_group(api: Api, group: GroupCalls) -> None:
    """Without members anybody may commit; the answer has every offset of the group, with its metadata and time."""
    topic = _filled(api)
    api.refused(group.http.get(f"{group.url}/offsets"), 404, "UNKNOWN_GROUP")
    before_ms = int(time.time() * 1000)
    offsets = [
        {"topic": topic, "partition": 1, "offset": 3, "metadata": "where I was: \u00e9"},
        {"topic": topic, "partition": 0, "offset": 0, "metadata": None},
    ]
    answer = group.http.put(f"{group.url}/offsets", json={"offsets": offsets})
    assert answer.status_code == 200, answer.text
    rows = answer.json()["offsets"]
    for row in rows:
        assert before_ms - 60_000 <= row.pop("committed_at") <= int(time.time() * 1000) + 60_000
        assert row.pop("topic_id") == api.http.get(f"/v1/topics/{topic}").json()["topic_id"]
    assert rows == [offsets[1], offsets[0]]
    assert group.describe() == {
        "group": group.name,
        "state": "Empty",
        "generation": 0,
        "assignor": None,
        "members": [],
    }
    # The end is in range, and going back is a commit like any other.
    assert group.commit((topic, 0, 5), (topic, 1, 1)) == {(topic, 0): 5, (topic, 1): 1}
    second = group.http.get(f"{group.url}/offsets").json()["offsets"][1]
    assert second["metadata"] is None


def test_nothing_of_a_refused_commit_happens(api: Api, group: GroupCalls) -> None:
    """A partition or topic that is not there: refused, whatever stands beside it."""
    topic = _filled(api)
    api.refused(group.commit_answer((topic, 0, 1), (topic, 2, 0)), 404, "UNKNOWN_PARTITION")
    api.refused(group.commit_answer((topic, 0, 1), (f"{topic}-not", 0, 0)), 404, "UNKNOWN_TOPIC")
    api.refused(group.http.get(f"{group.url}/offsets"), 404, "UNKNOWN_GROUP")
    nobody = {"member_id": "nobody", "generation": 1}
    api.refused(group.commit_answer((topic, 0, 1), member=nobody), 404, "UNKNOWN_GROUP")
    group.commit((topic, 0, 1))
    api.refused(group.commit_answer((topic, 0, 2), member=nobody), 404, "UNKNOWN_MEMBER")
    assert group.committed() == {(topic, 0): 1}


def test_an_offset_may_lie_beyond_the_end(api: Api, group: GroupCalls) -> None:
    """As in Kafka it is accepted: nothing is behind, a fetch there is out of range, and a poll begins where it is told to."""
    topic = _filled(api)
    assert group.commit((topic, 0, 1_000), (topic, 1, 6)) == {(topic, 0): 1_000, (topic, 1): 6}
    assert group.committed() == {(topic, 0): 1_000, (topic, 1): 6}
    lag = group.http.get(f"{group.url}/lag").json()
    found = [(one["committed_offset"], one["lag"], one["lag_ms"]) for one in lag["topics"][0]["partitions"]]
    assert (found, lag["total"]) == ([(1_000, 0, 0), (6, 0, 0)], 0)
    fetched = group.http.get(f"/v1/topics/{topic}/partitions/1/records", params={"offset": 6})
    api.refused(fetched, 416, "OFFSET_OUT_OF_RANGE")
    refused = group.poll(topics=[topic], auto_offset_reset="none")["partitions"]
    assert [part["error"]["error_code"] for part in refused] == ["NO_COMMITTED_OFFSET"] * 2
    assert group.committed() == {(topic, 0): 1_000, (topic, 1): 6}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"offsets": None}, "/offsets"),
        ({"offsets": {}}, "/offsets"),
        ({"member_id": "m"}, "/generation"),
        ({"generation": 1}, "/member_id"),
        ({"generation": "1", "member_id": "m"}, "/generation"),
        ({"groups": "g"}, "/groups"),
        ({"topic": 1}, "/offsets/0/topic"),
        ({"partition": -1}, "/offsets/0/partition"),
        ({"partition": 1.5}, "/offsets/0/partition"),
        ({"offset": -1}, "/offsets/0/offset"),
        ({"offset": 1 << 63}, "/offsets/0/offset"),
        ({"metadata": 1}, "/offsets/0/metadata"),
        ({"metdata": "x"}, "/offsets/0/metdata"),
    ],
)
def test_odd_commits(api: Api, group: GroupCalls, change: Json, where: str) -> None:
    """400 with a pointer at what is wrong."""
    entry: Json = {"topic": "t", "partition": 0, "offset": 0}
    body: Json = {"offsets": [entry]}
    inside = change.keys() & {"topic", "partition", "offset", "metadata", "metdata"}
    (entry if inside else body).update(change)
    problem = api.refused(group.http.put(f"{group.url}/offsets", json=body), 400, "INVALID_REQUEST")
    assert where in [error["where"] for error in problem["errors"]], problem


def test_bodies_that_can_not_be_read(api: Api, group: GroupCalls) -> None:
    """Not JSON, another type, a member named twice, a partition named twice, an unknown parameter."""
    url = f"{group.url}/offsets"
    json_type = {"content-type": "application/json"}
    for content in (b"", b"{", b"[]", b'{"offsets":[],"offsets":[]}', b"\xff"):
        api.refused(group.http.put(url, content=content, headers=json_type), 400, "INVALID_REQUEST")
    plain = group.http.put(url, content=b"{}", headers={"content-type": "text/plain"})
    api.refused(plain, 415, "UNSUPPORTED_MEDIA_TYPE")
    topic = _filled(api, 1)
    api.refused(group.commit_answer((topic, 0, 1), (topic, 0, 2)), 400, "INVALID_REQUEST")
    api.refused(group.http.put(f"{url}?force=1", json={"offsets": []}), 400, "INVALID_REQUEST")
    api.refused(group.http.get(f"{url}?topic=x"), 400, "INVALID_REQUEST")
    api.refused(group.http.post(url, json={}), 405, "METHOD_NOT_ALLOWED")
    api.refused(group.http.get(group.url), 404, "UNKNOWN_GROUP")


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a b",
        "100%",
        "%2F",
        "\u00e9\u4e16",
        "x:reset",
        "q?a=1#c",
        "members",
        "a/lag",
        "\u00fc" * 127,
        "+&;=",
        "...",
    ],
)
def test_group_ids_of_any_characters(api: Api, new_group: Callable[..., GroupCalls], name: str) -> None:
    """Percent-encoded in the path, plain in answers; groups that look alike are others."""
    group = new_group(name)
    topic = _filled(api, 1)
    group.http.delete(group.url)  # a gateway in use may know it from the last time
    assert group.commit((topic, 0, 2)) == {(topic, 0): 2}
    assert group.describe()["group"] == name
    names = [one["group"] for one in api.http.get("/v1/groups", params={"after": name[:-1]}).json()["groups"]]
    assert name in names
    assert group.committed() == {(topic, 0): 2}


@pytest.mark.parametrize("path", ["a%00b", "a%1Fb", "%7F", "%C2%85", "x" * 256, "%C3%BC" * 128, "%FF"])
def test_group_ids_that_are_none(api: Api, path: str) -> None:
    """Control characters, more than 255 bytes, what is no UTF-8: refused, and nothing is made."""
    answer = api.http.put(f"/v1/groups/{path}/offsets", json={"offsets": []})
    api.refused(answer, 400, "INVALID_REQUEST")


def test_groups_are_listed_in_pages(api: Api, new_group: Callable[..., GroupCalls]) -> None:
    """By name, with what a page is asked for; ``next`` leads through all of them."""
    topic = _filled(api, 1)
    base = new_group()
    made = [new_group(f"{base.name}-{number}") for number in range(5)]
    for group in made[:4]:
        group.commit((topic, 0, 1))
    member = made[4].join(topic)
    found: list[Json] = []
    query: Json = {"limit": 2, "after": base.name}
    while len(found) < 5:
        answer = api.http.get("/v1/groups", params=query).json()
        assert len(answer["groups"]) <= 2
        found += answer["groups"]
        if "next" not in answer:
            break
        query["after"] = answer["next"]
    empty = {"state": "Empty", "generation": 0, "member_count": 0}
    joined = {"state": "Stable", "generation": member["generation"], "member_count": 1}
    wanted = [{"group": group.name} | (empty if group is not made[4] else joined) for group in made]
    assert found[:5] == wanted
    for odd in ({"limit": 0}, {"limit": "x"}, {"limits": 1}, {"limit": -1}):
        api.refused(api.http.get("/v1/groups", params=odd), 400, "INVALID_REQUEST")


def test_a_group_is_deleted_with_its_offsets(api: Api, group: GroupCalls) -> None:
    """Not while it has members; after it nothing is known, and the same name begins anew."""
    topic = _filled(api, 1)
    api.refused(group.http.delete(group.url), 404, "UNKNOWN_GROUP")
    member = group.join(topic)
    group.commit((topic, 0, 3), member=member)
    api.refused(group.http.delete(group.url), 409, "GROUP_NOT_EMPTY")
    assert group.committed() == {(topic, 0): 3}
    group.leave_answer(member)
    assert group.http.delete(group.url).status_code == 204
    for answer in (
        group.http.get(group.url),
        group.http.get(f"{group.url}/offsets"),
        group.http.get(f"{group.url}/lag"),
        group.http.delete(group.url),
        group.reset_answer("earliest", topics=[topic]),
        group.heartbeat_answer(member),
    ):
        api.refused(answer, 404, "UNKNOWN_GROUP")
    again = group.join(topic)
    assert group.committed() == {}
    api.refused(group.heartbeat_answer(member, again["generation"]), 404, "UNKNOWN_MEMBER")
    api.refused(group.commit_answer((topic, 0, 1), member=member), 404, "UNKNOWN_MEMBER")
