"""What a group reads follows its topics: patterns, topics that come later, partitions that are added, topics that go."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api
from tests.support.waiting import until

Json = dict[str, Any]

TAKEN_UP_SECONDS_MAX = 5.0
"""The contract's; the tests give the machine as much again."""


def _create(api: Api, name: str, partition_count: int = 1) -> str:
    body = {"name": name, "partition_count": partition_count, "config": {"flush.ms": 0}}
    assert api.http.post("/v1/topics", json=body).status_code == 201
    return name


def _topics(member: Json) -> set[str]:
    return {one["topic"] for one in member["assignment"]}


def test_a_pattern_takes_up_new_topics(api: Api, group: GroupCalls) -> None:
    """A topic made after the member joined is its own within seconds; the whole name has to match."""
    mark = f"p{secrets.token_hex(5)}"
    first = _create(api, f"{mark}-1")
    member = group.join(topic_pattern=rf"{mark}-\d")
    assert _topics(member) == {first}
    assert group.describe()["members"][0]["topics"] == [first]
    _create(api, f"{mark}-22")
    _create(api, f"x{mark}-3")
    second = _create(api, f"{mark}-2")
    until(lambda: _topics(group.heartbeat(member)) == {first, second}, 2 * TAKEN_UP_SECONDS_MAX)


def test_a_long_poll_ends_when_a_topic_comes(api: Api, group: GroupCalls) -> None:
    """A member may subscribe to a topic that does not exist yet. Once it does, the member's poll ends with it."""
    name = f"later-{secrets.token_hex(5)}"
    polled = group.poll(topics=[name])
    assert polled["partitions"] == []
    member = {"member_id": polled["member_id"], "generation": polled["generation"]}
    _create(api, name, 2)
    started = time.monotonic()
    polled = group.poll(member=member, max_wait_ms=25_000)
    assert time.monotonic() - started < 20
    assert polled["rebalanced"] is True
    assert [(one["topic"], one["partition"]) for one in polled["partitions"]] == [(name, 0), (name, 1)]


def test_added_partitions_are_taken_up(api: Api, group: GroupCalls) -> None:
    """Partitions that are added are spread over the members; a topic that is deleted is taken from them."""
    topic, other = api.topic(), api.topic()
    first, second = group.join(topic, other), group.join(topic, other)
    group.settle(first, second)
    assert (len(first["assignment"]), len(second["assignment"])) == (2, 0)
    assert api.http.patch(f"/v1/topics/{topic}", json={"partition_count": 3}).status_code == 200

    def is_spread() -> bool:
        return [len(group.heartbeat(one)["assignment"]) for one in (first, second)] == [3, 1]

    until(is_spread, 2 * TAKEN_UP_SECONDS_MAX)
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    until(
        lambda: [_topics(group.heartbeat(one)) for one in (first, second)] == [{other}, set()], 2 * TAKEN_UP_SECONDS_MAX
    )


def test_a_topic_made_anew_shares_nothing(api: Api, group: GroupCalls) -> None:
    """Offsets of a topic that was deleted are none: not listed, no lag, and the new one is read from its beginning."""
    topic, other = api.topic(), api.topic()
    for name in (topic, other):
        api.produce(name, *({"value": str(number)} for number in range(5)))
    group.commit((topic, 0, 4), (other, 0, 2))
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    assert group.committed() == {(other, 0): 2}
    assert [one["topic"] for one in group.lag()["topics"]] == [other]
    api.refused(group.commit_answer((topic, 0, 0)), 404, "UNKNOWN_TOPIC")
    _create(api, topic)
    api.produce(topic, {"value": "new"})
    assert group.committed() == {(other, 0): 2}
    polled = group.poll(topics=[topic])
    assert [record["value"] for record in polled["partitions"][0]["records"]] == ["new"]
    assert group.committed() == {(other, 0): 2, (topic, 0): 0}


def test_a_live_member_survives_its_topic_made_anew(api: Api, group: GroupCalls) -> None:
    """It goes on with the new topic's first record, though the old one's offset was beyond it."""
    topic = api.topic()
    api.produce(topic, *({"value": str(number)} for number in range(5)))
    polled = group.poll(topics=[topic])
    member = {"member_id": polled["member_id"], "generation": polled["generation"]}
    group.commit((topic, 0, 5), member=member)
    assert api.http.delete(f"/v1/topics/{topic}").status_code == 204
    _create(api, topic)
    api.produce(topic, {"value": "new"})
    seen: list[str] = []

    def has_seen() -> bool:
        for part in group.poll(member=member)["partitions"]:
            seen.extend(record["value"] for record in part.get("records", ()))
        return bool(seen)

    until(has_seen, 2 * TAKEN_UP_SECONDS_MAX)
    assert seen == ["new"]


@pytest.mark.parametrize("pattern", ["", "(", "*", "[a", "a{2", "(?P<n>a)(?P<n>b)", "x" * 100_000, "(?<=a+)b"])
def test_bad_patterns(api: Api, group: GroupCalls, pattern: str) -> None:
    """What is no regular expression of Python's, or too long, is refused with a pointer at it."""
    if pattern == "a{2":  # to Python these are three characters
        assert group.join_answer(topic_pattern=pattern).status_code == 201
        return
    problem = api.refused(group.join_answer(topic_pattern=pattern), 400, "INVALID_REQUEST")
    assert [error["where"] for error in problem["errors"]] == ["/topic_pattern"]


def test_a_catastrophic_pattern_stops_nobody(api: Api, new_group: Callable[..., GroupCalls]) -> None:
    """A pattern that would take for ever to match is cut short; others are served meanwhile."""
    for number in range(4):
        _create(api, f"{'a' * 60}{secrets.token_hex(4)}.{number}")
    group, other = new_group(), new_group()
    topic = api.topic()
    started = time.monotonic()
    answer = group.join_answer(topic_pattern="(a|aa|a?)+(a+)+b{9}")
    assert time.monotonic() - started < 20
    assert answer.status_code in {201, 400}, answer.text
    member = other.join(topic)
    assert len(member["assignment"]) == 1
    assert other.heartbeat(member)["assignment"] == member["assignment"]
    if answer.status_code == 201:
        group.leave_answer(answer.json())
