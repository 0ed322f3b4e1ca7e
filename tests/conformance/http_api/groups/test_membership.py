"""Members of a group: join, leave, time out; no partition is ever held by two (docs/http-api.md section 7)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api
from tests.support.waiting import until

Json = dict[str, Any]


def _keys(member: Json) -> set[tuple[str, int]]:
    return {(one["topic"], one["partition"]) for one in member["assignment"]}


def test_a_member_gets_everything(api: Api, group: GroupCalls) -> None:
    """One member alone reads every partition of what it subscribes to, and is told how often to say that it is alive."""
    first, second = sorted((api.topic(partition_count=3), api.topic(partition_count=3)))
    joined = group.join(first, second, client_id="reader one")
    assert joined.keys() == {"member_id", "generation", "assignment", "heartbeat_interval_ms"}
    wanted = [(topic, number) for topic in (first, second) for number in range(3)]
    assert [(one["topic"], one["partition"]) for one in joined["assignment"]] == wanted
    assert 1 <= joined["heartbeat_interval_ms"] <= 15_000
    beaten = group.heartbeat_answer(joined).json()
    assert beaten == {name: joined[name] for name in ("generation", "assignment", "heartbeat_interval_ms")}
    assert group.describe() == {
        "group": group.name,
        "state": "Stable",
        "generation": joined["generation"],
        "assignor": "range",
        "members": [
            {
                "member_id": joined["member_id"],
                "client_id": "reader one",
                "instance_id": None,
                "assignment": joined["assignment"],
                "topics": [first, second],
            }
        ],
    }


def test_a_partition_that_moves_is_handed_over(api: Api, group: GroupCalls) -> None:
    """The new member reads nothing of the old one's until that has acknowledged, and the old one may commit for it till then."""
    topic = api.topic(partition_count=4)
    for number in range(4):
        api.produce(topic, {"value": "a"}, {"value": "b"}, {"value": "c"}, partition=number)
    old = group.join(topic)
    new = group.join(topic)
    assert new["generation"] > old["generation"]
    assert new["assignment"] == []
    assert group.readable()[new["member_id"]] == set()
    assert group.describe()["state"] == "Reconciling"

    told = group.heartbeat_answer(old).json()
    assert told["generation"] == new["generation"]
    assert _keys(told) == {(topic, 0), (topic, 1)}
    assert group.heartbeat(new)["assignment"] == []

    # What it loses it commits under the old generation, what it keeps under either.
    assert group.commit((topic, 3, 2), (topic, 0, 1), member=old) == {(topic, 3): 2, (topic, 0): 1}
    newer = old | {"generation": told["generation"]}
    assert group.commit((topic, 0, 2), member=newer)[topic, 0] == 2
    api.refused(group.commit_answer((topic, 3, 3), member=new), 409, "STALE_GENERATION")

    old |= told
    assert _keys(group.heartbeat(old)) == {(topic, 0), (topic, 1)}
    assert _keys(group.heartbeat(new)) == {(topic, 2), (topic, 3)}
    assert group.describe()["state"] == "Stable"
    api.refused(group.commit_answer((topic, 3, 3), member=old), 409, "STALE_GENERATION")
    assert group.commit((topic, 3, 3), member=new)[topic, 3] == 3


def test_a_commit_is_refused_whole(api: Api, group: GroupCalls) -> None:
    """One partition that the member does not hold, or a generation that it left behind, and nothing of it is committed."""
    topic = api.topic(partition_count=2)
    for number in range(2):
        api.produce(topic, {"value": "a"}, {"value": "b"}, partition=number)
    first = group.join(topic)
    before = dict(first)
    second = group.join(topic)
    group.settle(first, second)
    for refused in (
        group.commit_answer((topic, 0, 1), (topic, 1, 1), member=first),
        group.commit_answer((topic, 0, 1), member=before),
        group.commit_answer((topic, 0, 1), member=first | {"generation": first["generation"] + 1}),
        group.commit_answer((topic, 0, 1)),
    ):
        api.refused(refused, 409, "STALE_GENERATION")
    assert group.committed() == {}
    assert group.commit((topic, 0, 1), member=first) == {(topic, 0): 1}


def test_what_a_member_leaves_goes_to_others_at_once(api: Api, group: GroupCalls) -> None:
    """The next heartbeat of the other member gives it everything. A member that left is unknown in every call.

    When the last one has left, the group is empty.
    """
    topic = api.topic(partition_count=2)
    first, second = group.join(topic), group.join(topic)
    group.settle(first, second)
    generation = first["generation"]
    assert group.leave_answer(second).status_code == 204
    assert _keys(group.heartbeat(first)) == {(topic, 0), (topic, 1)}
    assert first["generation"] > generation
    for answer in (
        group.heartbeat_answer(second),
        group.leave_answer(second),
        group.commit_answer((topic, 0, 0), member=second),
        group.poll_answer(member=second),
    ):
        api.refused(answer, 404, "UNKNOWN_MEMBER")
    assert group.leave_answer(first).status_code == 204
    empty = group.describe()
    assert (empty["state"], empty["members"]) == ("Empty", [])


def test_a_member_tells_when_it_was_heard_of_and_committed(api: Api, group: GroupCalls) -> None:
    """A heartbeat moves the first time only; one that never committed has no second. Who does not ask gets neither."""
    topic = api.topic(partition_count=2)
    first, second = group.join(topic), group.join(topic)
    group.settle(first, second)
    (place, *_) = _keys(group.heartbeat(first))
    began_ms = time.time() * 1000
    assert group.commit_answer((*place, 3), member=first).status_code == 200
    group.heartbeat(second)
    described = {one["member_id"]: one for one in group.describe("activity")["members"]}
    busy, idle = described[first["member_id"]], described[second["member_id"]]
    assert idle["committed_at"] is None
    for at_ms in (busy["heard_at"], busy["committed_at"], idle["heard_at"]):
        assert -5_000 <= at_ms - began_ms <= 60_000
    time.sleep(0.05)
    group.heartbeat(first)
    later = {one["member_id"]: one for one in group.describe("activity")["members"]}[first["member_id"]]
    assert later["committed_at"] == busy["committed_at"]
    assert later["heard_at"] > busy["heard_at"]
    assert not any({"heard_at", "committed_at"} & one.keys() for one in group.describe()["members"])
    api.refused(group.http.get(f"{group.url}?include=lag"), 400, "INVALID_REQUEST")


def test_a_silent_member_is_out(api: Api, group: GroupCalls) -> None:
    """Its partitions go to the one that lives, and it is told when it comes back; what it committed stays."""
    topic = api.topic(partition_count=2)
    api.produce(topic, {"value": "a"}, partition=1)
    living = group.join(topic, session_timeout_ms=30_000)
    silent = group.join(topic, session_timeout_ms=3_000)
    group.settle(living, silent)
    group.commit((topic, 1, 1), member=silent)

    def has_everything() -> bool:
        return len(group.heartbeat(living)["assignment"]) == 2

    until(has_everything)
    api.refused(group.heartbeat_answer(silent), 404, "UNKNOWN_MEMBER")
    api.refused(group.commit_answer((topic, 1, 0), member=silent), 404, "UNKNOWN_MEMBER")
    assert group.committed() == {(topic, 1): 1}


def test_a_member_that_never_acknowledges_is_out(api: Api, group: GroupCalls) -> None:
    """Heartbeats alone don't keep what was taken from it: it is out a session after it learned of the generation."""
    topic = api.topic(partition_count=2)
    stubborn = group.join(topic, session_timeout_ms=1_500)
    patient = group.join(topic, session_timeout_ms=30_000)
    deadline = time.monotonic() + 20
    while (answer := group.heartbeat_answer(stubborn, stubborn["generation"])).status_code == 200:
        assert time.monotonic() < deadline
        group.heartbeat(patient)
        time.sleep(0.2)
    api.refused(answer, 404, "UNKNOWN_MEMBER")
    until(lambda: len(group.heartbeat(patient)["assignment"]) == 2)


def test_a_static_member_comes_back_to_its_partitions(api: Api, group: GroupCalls) -> None:
    """A new member id, no new generation; the id that it had is fenced in every call."""
    topic = api.topic(partition_count=4)
    api.produce(topic, {"value": "a"}, partition=0)
    first, second = group.join(topic, instance_id="one"), group.join(topic, instance_id="two")
    group.settle(first, second)
    again = group.join(topic, instance_id="one")
    assert again["member_id"] != first["member_id"]
    assert (again["generation"], again["assignment"]) == (first["generation"], first["assignment"])
    for answer in (
        group.heartbeat_answer(first),
        group.commit_answer((topic, 0, 1), member=first),
        group.poll_answer(member=first),
        group.leave_answer(first),
    ):
        api.refused(answer, 409, "FENCED_MEMBER")
    assert group.commit((topic, 0, 1), member=again) == {(topic, 0): 1}
    assert group.heartbeat(second)["generation"] == first["generation"]
    described = {one["instance_id"]: one for one in group.describe()["members"]}
    assert described.keys() == {"one", "two"}
    assert described["one"]["member_id"] == again["member_id"]


def test_a_static_member_with_other_topics_is_a_rebalance(api: Api, group: GroupCalls) -> None:
    """It takes its place, and the generation is raised."""
    topic, other = api.topic(), api.topic()
    first = group.join(topic, instance_id="one")
    again = group.join(topic, other, instance_id="one")
    assert again["generation"] > first["generation"]
    group.settle(again)
    assert _keys(again) == {(topic, 0), (other, 0)}


def test_a_static_member_that_leaves_is_gone(api: Api, group: GroupCalls) -> None:
    """Its partitions go to others at once, and it comes back as a new one."""
    topic = api.topic(partition_count=2)
    stays, goes = group.join(topic, instance_id="b"), group.join(topic, instance_id="a")
    group.settle(stays, goes)
    assert group.leave_answer(goes).status_code == 204
    assert len(group.heartbeat(stays)["assignment"]) == 2
    back = group.join(topic, instance_id="a")
    assert back["generation"] > stays["generation"]


def test_all_members_use_one_assignor(api: Api, group: GroupCalls) -> None:
    """Another is refused while there are members; with the last of them it may be chosen anew."""
    topic = api.topic()
    member = group.join(topic, assignor="sticky")
    assert group.describe()["assignor"] == "sticky"
    api.refused(group.join_answer(topic, assignor="roundrobin"), 409, "INCONSISTENT_ASSIGNOR")
    api.refused(group.join_answer(topic), 409, "INCONSISTENT_ASSIGNOR")
    group.leave_answer(member)
    assert group.join_answer(topic, assignor="roundrobin").status_code == 201


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky"])
def test_what_each_member_gets(api: Api, group: GroupCalls, assignor: str) -> None:
    """Two topics of three partitions for two members, as Kafka's assignors have it; sticky moves no more than it must."""
    first, second = sorted((api.topic(partition_count=3), api.topic(partition_count=3)))
    members = [group.join(first, second, assignor=assignor) for _ in range(2)]
    group.settle(*members)
    got = [_keys(member) for member in sorted(members, key=lambda one: str(one["member_id"]))]
    assert not got[0] & got[1]
    assert len(got[0] | got[1]) == 6
    if assignor == "range":
        assert got[0] == {(first, 0), (first, 1), (second, 0), (second, 1)}
    elif assignor == "roundrobin":
        assert got[0] == {(first, 0), (first, 2), (second, 1)}
    else:
        assert len(got[0]) == len(got[1]) == 3


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/topics"),
        ({"topics": []}, "/topics"),
        ({"topics": ["t"], "topic_pattern": "t"}, "/topics"),
        ({"topics": "t"}, "/topics"),
        ({"topics": ["t"], "assignor": "best"}, "/assignor"),
        ({"topics": ["t"], "session_timeout_ms": 999}, "/session_timeout_ms"),
        ({"topics": ["t"], "session_timeout_ms": 1_800_001}, "/session_timeout_ms"),
        ({"topics": ["t"], "session_timeout_ms": "1000"}, "/session_timeout_ms"),
        ({"topics": ["t"], "client_id": ""}, "/client_id"),
        ({"topics": ["t"], "client_id": "a\u0007b"}, "/client_id"),
        ({"topics": ["t"], "instance_id": "x" * 256}, "/instance_id"),
        ({"topics": ["t"], "sesion_timeout_ms": 1000}, "/sesion_timeout_ms"),
    ],
)
def test_what_can_not_be_joined_with(api: Api, group: GroupCalls, body: Json, where: str) -> None:
    """400 with a pointer at the fault, and no group is made by it."""
    problem = api.refused(group.join_answer(**body), 400, "INVALID_REQUEST")
    assert where in [error["where"] for error in problem["errors"]], problem
    api.refused(group.http.get(group.url), 404, "UNKNOWN_GROUP")


def test_odd_requests_of_members(api: Api, group: GroupCalls) -> None:
    """A group or member that is not there, a generation that never was, a topic's name that can't be one, a typing error."""
    nobody = {"member_id": "nobody", "generation": 1}
    api.refused(group.heartbeat_answer(nobody), 404, "UNKNOWN_GROUP")
    api.refused(group.leave_answer(nobody), 404, "UNKNOWN_GROUP")
    api.refused(group.join_answer("a/b"), 400, "INVALID_TOPIC_NAME")
    topic = api.topic()
    member = group.join(topic)
    api.refused(group.heartbeat_answer(nobody), 404, "UNKNOWN_MEMBER")
    api.refused(group.leave_answer(nobody), 404, "UNKNOWN_MEMBER")
    api.refused(group.heartbeat_answer(member, member["generation"] + 1), 409, "STALE_GENERATION")
    url = f"{group.url}/members/{member['member_id']}/heartbeat"
    bodies: list[Any] = [{}, {"generation": -1}, {"generation": "1"}, {"generation": 1, "genration": 1}, []]
    for body in bodies:
        api.refused(group.http.post(url, json=body), 400, "INVALID_REQUEST")
    api.refused(group.http.post(f"{url}?x=1", json={"generation": 1}), 400, "INVALID_REQUEST")
    api.refused(group.http.get(url), 405, "METHOD_NOT_ALLOWED")
    assert group.heartbeat(member)["assignment"] == member["assignment"]
