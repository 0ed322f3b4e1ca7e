"""``poll``: join, commit, acknowledge and read in one call, for clients that keep no state (docs/http-api.md section 7.7)."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.support.group_calls import GroupCalls
from tests.support.http_api import Api

Json = dict[str, Any]


def _filled(api: Api, partition_count: int = 1, count: int = 5) -> str:
    topic: str = api.topic(partition_count=partition_count)
    for number in range(partition_count):
        api.produce(topic, *({"value": f"{number}/{one}"} for one in range(count)), partition=number)
    return topic


def _member(polled: Json) -> Json:
    return {"member_id": polled["member_id"], "generation": polled["generation"]}


def _offsets(polled: Json) -> dict[int, list[int]]:
    """Offsets of the records by partition."""
    return {part["partition"]: [one["offset"] for one in part["records"]] for part in polled["partitions"]}


def _next(polled: Json) -> list[Json]:
    """What to commit once everything in an answer is processed."""
    return [
        {"topic": part["topic"], "partition": part["partition"], "offset": part["next_offset"]}
        for part in polled["partitions"]
    ]


def test_a_loop_of_polls_reads_everything_once(api: Api, group: GroupCalls) -> None:
    """Each poll commits what the one before read; no record is skipped or read twice; all partitions are in each answer."""
    topic = _filled(api, 2, 7)
    polled = group.poll(topics=[topic], max_records=4)
    member = _member(polled)
    seen: dict[int, list[int]] = {0: [], 1: []}
    for _ in range(12):
        assert [part["partition"] for part in polled["partitions"]] == [0, 1]
        assert sum(len(part["records"]) for part in polled["partitions"]) <= 4
        for partition, offsets in _offsets(polled).items():
            seen[partition] += offsets
        if all(part["next_offset"] == 7 for part in polled["partitions"]):
            break
        polled = group.poll(member=member, commit=_next(polled), max_records=4)
    assert seen == {0: list(range(7)), 1: list(range(7))}
    last = group.poll(member=member, commit=_next(polled))
    assert (_offsets(last), last["rebalanced"]) == ({0: [], 1: []}, False)
    assert last["partitions"][0].keys() >= {"records", "next_offset", "high_watermark", "log_start_offset"}
    assert group.committed() == {(topic, 0): 7, (topic, 1): 7}


def test_what_is_not_committed_is_read_again(api: Api, group: GroupCalls) -> None:
    """From the committed offset, or from ``positions`` where they are given; the next member begins at what is committed."""
    topic = _filled(api)
    polled = group.poll(topics=[topic])
    member = _member(polled)
    assert _offsets(polled) == _offsets(group.poll(member=member)) == {0: [0, 1, 2, 3, 4]}
    there = [{"topic": topic, "partition": 0, "offset": 3}]
    assert _offsets(group.poll(member=member, positions=there)) == {0: [3, 4]}
    assert group.committed() == {(topic, 0): 0}
    assert _offsets(group.poll(member=member, commit=there)) == {0: [3, 4]}
    group.leave_answer(member)
    assert _offsets(group.poll(topics=[topic])) == {0: [3, 4]}


def test_where_reading_begins_is_committed(api: Api, group: GroupCalls) -> None:
    """With ``latest`` what comes after the first poll is read by a later one, even by another member."""
    topic = _filled(api)
    polled = group.poll(topics=[topic], auto_offset_reset="latest")
    assert _offsets(polled) == {0: []}
    assert group.committed() == {(topic, 0): 5}
    group.leave_answer(polled)
    api.produce(topic, {"value": "later"})
    assert _offsets(group.poll(topics=[topic], auto_offset_reset="latest")) == {0: [5]}


def test_without_a_reset_an_unknown_place_is_an_error(api: Api, group: GroupCalls) -> None:
    """``none``: an error in that partition, at once, beside the records of the others; nothing is committed."""
    topic = _filled(api, 2)
    group.commit((topic, 1, 3))
    started = time.monotonic()
    polled = group.poll(topics=[topic], auto_offset_reset="none", max_wait_ms=25_000)
    assert time.monotonic() - started < 20
    first, second = polled["partitions"]
    assert first.keys() == {"topic", "partition", "error"}
    assert (first["error"]["error_code"], first["error"]["status"]) == ("NO_COMMITTED_OFFSET", 409)
    assert [one["offset"] for one in second["records"]] == [3, 4]
    assert group.committed() == {(topic, 1): 3}


@pytest.mark.parametrize(("reset", "begins"), [("earliest", 3), ("latest", 5)])
def test_an_offset_that_left_the_log(api: Api, group: GroupCalls, reset: str, begins: int) -> None:
    """Reading goes on where ``auto_offset_reset`` says, and that is the group's committed offset then."""
    topic = _filled(api)
    group.commit((topic, 0, 1))
    body = {"before": [{"partition": 0, "offset": 3}]}
    assert api.http.post(f"/v1/topics/{topic}:delete-records", json=body).status_code == 200
    polled = group.poll(topics=[topic], auto_offset_reset=reset)
    assert _offsets(polled) == {0: list(range(begins, 5))}
    assert group.committed() == {(topic, 0): begins}


def test_positions_out_of_the_log(api: Api, group: GroupCalls) -> None:
    """An error in that partition, as fetch has it; a partition that is not the member's is passed over."""
    topic = _filled(api)
    member = _member(group.poll(topics=[topic]))
    beyond = [{"topic": topic, "partition": 0, "offset": 6}, {"topic": topic, "partition": 9, "offset": 0}]
    (part,) = group.poll(member=member, positions=beyond)["partitions"]
    assert (part["partition"], part["error"]["error_code"], part["error"]["status"]) == (0, "OFFSET_OUT_OF_RANGE", 416)


def test_a_poll_waits_for_records(api: Api, group: GroupCalls) -> None:
    """A record that comes meanwhile ends the waiting; without one it ends after ``max_wait_ms`` with 200."""
    topic = api.topic()
    member = _member(group.poll(topics=[topic]))
    started = time.monotonic()
    assert _offsets(group.poll(member=member, max_wait_ms=300)) == {0: []}
    assert time.monotonic() - started >= 0.25
    timer = threading.Timer(0.3, lambda: api.produce(topic, {"value": "late"}))
    timer.start()
    started = time.monotonic()
    assert _offsets(group.poll(member=member, max_wait_ms=25_000)) == {0: [0]}
    assert time.monotonic() - started < 20
    timer.join()


def test_a_rebalance_ends_the_waiting(api: Api, group: GroupCalls) -> None:
    """A long poll is answered as soon as another member joins, under the new generation, and the next one acknowledges it."""
    topic = api.topic(partition_count=2)
    first = _member(group.poll(topics=[topic]))
    joined: list[Json] = []
    timer = threading.Timer(0.3, lambda: joined.append(group.join(topic)))
    timer.start()
    started = time.monotonic()
    polled = group.poll(member=first, max_wait_ms=25_000)
    assert time.monotonic() - started < 20
    timer.join()
    (second,) = joined
    assert (polled["rebalanced"], polled["generation"]) == (True, second["generation"])
    assert [part["partition"] for part in polled["partitions"]] == [0]
    assert group.heartbeat(second)["assignment"] == []
    polled = group.poll(member=first)
    assert (polled["rebalanced"], [part["partition"] for part in polled["partitions"]]) == (False, [0])
    assert [one["partition"] for one in group.heartbeat(second)["assignment"]] == [1]


def test_a_poll_commits_before_it_acknowledges(api: Api, group: GroupCalls) -> None:
    """What it commits under the old generation counts also for what it loses; after that the old generation is refused."""
    topic = _filled(api, 2)
    first = _member(group.poll(topics=[topic]))
    second = group.join(topic)
    old = dict(first)
    lost = [{"topic": topic, "partition": 1, "offset": 4}]
    polled = group.poll(member=first, commit=lost)
    assert (polled["rebalanced"], group.committed()[topic, 1]) == (True, 4)
    # Its loss is not another's before it says so.
    api.refused(group.commit_answer((topic, 1, 5), member=second), 409, "STALE_GENERATION")
    assert _offsets(group.poll(member=first)).keys() == {0}
    api.refused(group.poll_answer(member=old, commit=lost), 409, "STALE_GENERATION")
    api.refused(group.poll_answer(member=first, commit=lost), 409, "STALE_GENERATION")
    assert _offsets(group.poll(member=_member(second))) == {1: [4]}


def test_a_poll_whose_commit_is_refused_changes_nothing(api: Api, group: GroupCalls) -> None:
    """A partition that is not there: 404, nothing committed, nothing acknowledged."""
    topic = _filled(api, 2)
    first = _member(group.poll(topics=[topic]))
    second = group.join(topic)
    told = group.heartbeat_answer(first).json()
    newer = first | {"generation": told["generation"]}
    bad = [{"topic": topic, "partition": 0, "offset": 1}, {"topic": topic, "partition": 2, "offset": 0}]
    api.refused(group.poll_answer(member=newer, commit=bad), 404, "UNKNOWN_PARTITION")
    assert group.committed() == {(topic, 0): 0, (topic, 1): 0}
    assert group.heartbeat(second)["assignment"] == []


def test_a_waiting_poll_keeps_the_member_alive(api: Api, group: GroupCalls) -> None:
    """A poll that waits longer than the session is no silence."""
    topic = api.topic()
    member = _member(group.poll(topics=[topic], session_timeout_ms=1_000))
    assert group.poll(member=member, max_wait_ms=2_500)["rebalanced"] is False


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "/topics"),
        ({"topics": ["t"], "commit": [{"topic": "t", "partition": 0, "offset": 0}]}, "/commit"),
        ({"member_id": "m", "commit": [{"topic": "t", "partition": 0, "offset": 0}]}, "/commit"),
        ({"member_id": "m", "generation": 1, "topics": ["t"]}, "/topics"),
        ({"member_id": "m", "generation": 1, "assignor": "range"}, "/assignor"),
        ({"member_id": "m", "generation": 1, "session_timeout_ms": 45_000}, "/session_timeout_ms"),
        ({"member_id": "m", "generation": 1, "instance_id": "i"}, "/instance_id"),
        ({"topics": ["t"], "auto_offset_reset": "newest"}, "/auto_offset_reset"),
        ({"topics": ["t"], "max_records": 0}, "/max_records"),
        ({"topics": ["t"], "max_records": 100_001}, "/max_records"),
        ({"topics": ["t"], "max_bytes": 0}, "/max_bytes"),
        ({"topics": ["t"], "max_wait_ms": 60_001}, "/max_wait_ms"),
        ({"topics": ["t"], "positions": [{"topic": "t", "partition": 0}]}, "/positions/0/offset"),
        ({"topics": ["t"], "positions": [{"topic": "t", "partition": 0, "offset": -1}]}, "/positions/0/offset"),
        ({"topics": ["t"], "max_record": 5}, "/max_record"),
    ],
)
def test_odd_polls(api: Api, group: GroupCalls, body: Json, where: str) -> None:
    """400 with a pointer at what is wrong; no member joins by it."""
    problem = api.refused(group.poll_answer(**body), 400, "INVALID_REQUEST")
    assert where in [error["where"] for error in problem["errors"]], problem
    api.refused(group.http.get(group.url), 404, "UNKNOWN_GROUP")


def test_polls_of_nobody(api: Api, group: GroupCalls) -> None:
    """A group or a member that is not there, a generation that never was."""
    nobody = {"member_id": "nobody", "generation": 1}
    api.refused(group.poll_answer(member=nobody), 404, "UNKNOWN_GROUP")
    member = _member(group.poll(topics=[api.topic()]))
    api.refused(group.poll_answer(member=nobody), 404, "UNKNOWN_MEMBER")
    ahead = member | {"generation": member["generation"] + 1}
    api.refused(group.poll_answer(member=ahead), 409, "STALE_GENERATION")
    answer = group.http.post(f"{group.url}/poll", json=member, headers={"accept": "text/csv"})
    api.refused(answer, 406, "NOT_ACCEPTABLE")
