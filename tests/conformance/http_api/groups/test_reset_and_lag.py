"""Going back and forth, and how far behind a group is (docs/http-api.md section 7)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api

Json = dict[str, Any]

_FIRST_MS = 1_700_000_000_000


def _topic(api: Api, count: int = 10, partition_count: int = 1) -> str:
    """Records a second apart in each partition; nothing of it is old enough to go."""
    topic: str = api.topic(partition_count=partition_count, **{"retention.ms": -1})
    for partition in range(partition_count):
        records = [{"value": str(number), "timestamp": _FIRST_MS + 1000 * number} for number in range(count)]
        assert api.produce(topic, *records, partition=partition).status_code == 200
    return topic


def _delete_before(api: Api, topic: str, offset: int) -> None:
    body = {"before": [{"partition": 0, "offset": offset}]}
    assert api.http.post(f"/v1/topics/{topic}:delete-records", json=body).status_code == 200


@pytest.mark.parametrize(
    ("to", "wanted"),
    [
        ("earliest", 2),
        ("latest", 10),
        ({"timestamp": _FIRST_MS + 3500}, 4),
        ({"timestamp": _FIRST_MS + 3000}, 3),
        ({"timestamp": 0}, 2),
        ({"timestamp": _FIRST_MS + 60_000}, 10),
        ({"offset": 7}, 7),
        ({"offset": 1}, 2),
        ({"offset": 11}, 10),
        ({"shift": -2}, 3),
        ({"shift": -9}, 2),
        ({"shift": 3}, 8),
        ({"shift": 9_223_372_036_854_775_807}, 10),
        ({"shift": -9_223_372_036_854_775_808}, 2),
    ],
)
def test_a_reset_is_clamped_to_what_there_is(api: Api, group: GroupCalls, to: Any, wanted: int) -> None:
    """Offsets 2 to 9 are there and 5 is committed; each form of ``to`` leads where it says, within these."""
    topic = _topic(api)
    group.commit((topic, 0, 5))
    _delete_before(api, topic, 2)
    assert group.reset(to, topics=[topic]) == {(topic, 0): wanted}
    assert group.committed() == {(topic, 0): wanted}


def test_a_reset_of_some_partitions(api: Api, group: GroupCalls) -> None:
    """Others stay as they are; those that had no offset get one, except by a shift."""
    topic = _topic(api, partition_count=3)
    group.commit((topic, 0, 5), (topic, 1, 5))
    where = {"partitions": [{"topic": topic, "partition": 1}, {"topic": topic, "partition": 2}]}
    assert group.reset({"offset": 4}, **where) == {(topic, 0): 5, (topic, 1): 4, (topic, 2): 4}
    other = _topic(api)
    both = {"topics": [topic, other]}
    api.refused(group.reset_answer({"shift": -1}, **both), 409, "NO_COMMITTED_OFFSET")
    assert group.committed() == {(topic, 0): 5, (topic, 1): 4, (topic, 2): 4}
    everything = {(topic, 0): 10, (topic, 1): 10, (topic, 2): 10, (other, 0): 10}
    assert group.reset("latest", **both) == everything


def test_a_preview_changes_nothing(api: Api, group: GroupCalls) -> None:
    """It answers as the reset would, refusals too, says what would move, and what is committed stays."""
    topic = _topic(api, partition_count=2)
    group.commit((topic, 0, 5))
    committed = group.committed()
    wish = {"topics": [topic], "preview": True}
    planned = group.reset_answer({"timestamp": _FIRST_MS + 3000}, **wish).json()["offsets"]
    assert [(one["partition"], one["offset"], one["committed_at"]) for one in planned] == [(0, 3, 0), (1, 3, 0)]
    assert [one["committed_at"] > 0 for one in group.reset_answer("latest", partitions=[{"topic": topic, "partition": 1}],
                                                                  preview=True).json()["offsets"]] == [True, False]  # fmt: skip
    assert group.committed() == committed
    api.refused(group.reset_answer({"shift": -1}, **wish), 409, "NO_COMMITTED_OFFSET")
    api.refused(group.reset_answer("latest", topics=[topic], preview="yes"), 400, "INVALID_REQUEST")
    member = group.join(topic)
    api.refused(group.reset_answer("latest", **wish), 409, "GROUP_NOT_EMPTY")
    group.leave_answer(member)
    assert group.reset({"timestamp": _FIRST_MS + 3000}, topics=[topic]) == {(topic, 0): 3, (topic, 1): 3}


def test_a_reset_needs_a_group_without_members(api: Api, group: GroupCalls) -> None:
    """With a live member nothing moves; when it has left everything does, and the next one begins there."""
    topic = _topic(api)
    api.refused(group.reset_answer("earliest", topics=[topic]), 404, "UNKNOWN_GROUP")
    member = group.join(topic)
    group.commit((topic, 0, 8), member=member)
    api.refused(group.reset_answer("earliest", topics=[topic]), 409, "GROUP_NOT_EMPTY")
    assert group.committed() == {(topic, 0): 8}
    group.leave_answer(member)
    assert group.reset({"shift": -5}, topics=[topic]) == {(topic, 0): 3}
    records = group.poll(topics=[topic])["partitions"][0]["records"]
    assert [record["offset"] for record in records] == list(range(3, 10))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"to": "earliest"},
        {"topics": ["t"]},
        {"topics": ["t"], "partitions": [{"topic": "t", "partition": 0}], "to": "earliest"},
        {"topics": ["t"], "to": "newest"},
        {"topics": ["t"], "to": {}},
        {"topics": ["t"], "to": {"offset": 1, "shift": 1}},
        {"topics": ["t"], "to": {"offset": -1}},
        {"topics": ["t"], "to": {"offset": "1"}},
        {"topics": ["t"], "to": {"timestamp": -1}},
        {"topics": ["t"], "to": {"timestamp": 253402300800000}},
        {"topics": ["t"], "to": {"shift": 1.5}},
        {"topics": ["t"], "to": {"datetime": 1}},
        {"topics": ["t"], "to": None},
        {"topics": "t", "to": "earliest"},
        {"partitions": [{"topic": "t"}], "to": "earliest"},
        {"partitions": [{"topic": "t", "partition": 0, "offset": 1}], "to": "earliest"},
        {"topics": ["t"], "to": "earliest", "dry_run": True},
    ],
)
def test_odd_resets(api: Api, group: GroupCalls, body: Json) -> None:
    """Whatever the contract does not name is refused before anything is looked up."""
    answer = group.http.post(f"{group.url}/offsets:reset", json=body)
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert problem["errors"], problem


def test_resets_of_what_is_not_there(api: Api, group: GroupCalls) -> None:
    """A topic or a partition that does not exist: nothing moves, not even what stands beside it."""
    topic = _topic(api)
    group.commit((topic, 0, 5))
    api.refused(group.reset_answer("earliest", topics=[topic, f"{topic}-not"]), 404, "UNKNOWN_TOPIC")
    where = [{"topic": topic, "partition": 0}, {"topic": topic, "partition": 1}]
    api.refused(group.reset_answer("earliest", partitions=where), 404, "UNKNOWN_PARTITION")
    assert group.committed() == {(topic, 0): 5}


def test_lag_counts_records_and_time(api: Api, group: GroupCalls) -> None:
    """All partitions of what is subscribed to or committed for; null where nothing is committed, and not in the total."""
    topic, other = sorted((_topic(api, partition_count=2), _topic(api, partition_count=2)))
    member = group.join(topic)
    group.commit((topic, 0, 4), member=member)
    before_ms = int(time.time() * 1000)
    lag = group.lag()
    assert lag["total"] == 6
    assert [one["topic"] for one in lag["topics"]] == [topic]
    first, second = lag["topics"][0]["partitions"]
    age_ms = first.pop("lag_ms") - (before_ms - _FIRST_MS - 4000)
    assert -60_000 <= age_ms <= 60_000
    assert first == {"partition": 0, "committed_offset": 4, "high_watermark": 10, "lag": 6}
    nothing = {"committed_offset": None, "lag": None, "lag_ms": None}
    assert second == nothing | {"partition": 1, "high_watermark": 10}

    group.leave_answer(member)
    group.commit((other, 1, 10), (topic, 0, 10))
    lag = group.lag()
    found = {(one["topic"], part["partition"]): part for one in lag["topics"] for part in one["partitions"]}
    assert list(found) == [(topic, 0), (topic, 1), (other, 0), (other, 1)]
    assert found[other, 1] == {
        "partition": 1,
        "committed_offset": 10,
        "high_watermark": 10,
        "lag": 0,
        "lag_ms": 0,
    }
    assert (found[other, 0]["lag"], lag["total"]) == (None, 0)
    api.refused(group.http.get(f"{group.url}/lag?topic=x"), 400, "INVALID_REQUEST")


def test_unread_counts_from_the_log_start_where_nothing_is_committed(api: Api, group: GroupCalls) -> None:
    """What the group never committed, and what it has; what left the log is not unread. The lag beside it is the same. A group
    without members has chosen its partitions: the others are not unread."""
    topic = _topic(api, partition_count=2)
    group.commit((topic, 0, 4))
    assert [part["unread"] for part in group.lag("unread")["topics"][0]["partitions"]] == [6, 0]
    member = group.join(topic)
    before_ms = int(time.time() * 1000)
    lag = group.lag("unread")
    assert (lag["total"], lag["unread"]) == (6, 16)
    first, second = lag["topics"][0]["partitions"]
    assert first["lag_ms"] == first["unread_ms"]
    for age_ms, offset in ((first.pop("unread_ms"), 4), (second.pop("unread_ms"), 0)):
        assert -60_000 <= age_ms - (before_ms - _FIRST_MS - 1000 * offset) <= 60_000
    assert (first.pop("unread"), second.pop("unread")) == (6, 10)
    assert second == group.lag()["topics"][0]["partitions"][1]
    group.commit((topic, 0, 10), member=member)
    lag = group.lag("unread")
    assert [part["unread"] for part in lag["topics"][0]["partitions"]] == [0, 10]
    body = {"before": [{"partition": 1, "offset": 7}]}
    assert api.http.post(f"/v1/topics/{topic}:delete-records", json=body).status_code == 200
    assert group.lag("unread")["unread"] == 3
    api.refused(group.http.get(f"{group.url}/lag?include=activity"), 400, "INVALID_REQUEST")


def test_lag_of_a_topic_that_is_not_there_yet(api: Api, group: GroupCalls) -> None:
    """It may be subscribed to, and is not in the answer."""
    api.refused(group.http.get(f"{group.url}/lag"), 404, "UNKNOWN_GROUP")
    group.join(f"not-{group.name}")
    assert group.lag() == {"topics": [], "total": 0}


def test_offsets_are_forgotten(api: Api, group: GroupCalls) -> None:
    """Of whole topics or of partitions, and no others; a topic with a subscriber keeps all of its."""
    first, second = _topic(api, partition_count=2), _topic(api)
    group.commit((first, 0, 1), (first, 1, 2), (second, 0, 3))

    def deleted(**where: Any) -> Any:
        return group.http.post(f"{group.url}/offsets:delete", json=where)

    answer = deleted(partitions=[{"topic": first, "partition": 1}, {"topic": "never-there", "partition": 0}])
    assert answer.status_code == 200
    left = {(one["topic"], one["partition"]): one["offset"] for one in answer.json()["offsets"]}
    assert left == group.committed() == {(first, 0): 1, (second, 0): 3}
    member = group.join(first)
    refused = deleted(topics=[first, second])
    assert (refused.status_code, refused.json()["error_code"]) == (409, "GROUP_NOT_EMPTY")
    assert deleted(topics=[second]).status_code == 200
    assert group.committed() == {(first, 0): 1}
    assert group.leave_answer(member).status_code == 204
    assert deleted(topics=[first]).json() == {"offsets": []}
    for wrong in ({}, {"topics": [first], "partitions": []}, {"topics": "x"}):
        assert deleted(**wrong).status_code == 400
    missing = group.http.post("/v1/groups/never-there/offsets:delete", json={"topics": [first]})
    assert missing.json()["error_code"] == "UNKNOWN_GROUP"
