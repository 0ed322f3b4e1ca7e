"""Settlements count whole, once, and only under a lease that is live (docs/http-api.md section 11.3)."""

from __future__ import annotations

import time

import pytest

from tests.support.http_api import Api, Json
from tests.support.queue_calls import SOON_MS, Queue, settlement, values


def test_accepted_records_are_done(api: Api) -> None:
    """Accepted records are done."""
    queue = Queue(api)
    queue.produce("a", "b", "c")
    first, second, third = queue.receive()
    (result,) = queue.settle(second)
    assert result == {"topic": queue.topic, "partition": 0, "offset": 1, "settled": True}
    queue.stands(start_offset=0, in_flight=2, lag=2)
    queue.settle(first, third)
    queue.stands(start_offset=3, in_flight=0, lag=0)


def test_a_range_is_settled_whole_or_not_at_all(api: Api) -> None:
    """A range is settled whole or not at all."""
    queue = Queue(api)
    queue.produce("a", "b", "c", "d")
    found = queue.receive(max_records=3)
    lease = found[0]["lease"]
    place = {"topic": queue.topic, "partition": 0, "lease": lease, "action": "accept"}
    too_far = {**place, "first_offset": 1, "last_offset": 3}
    whole = {**place, "first_offset": 0, "last_offset": 2}
    results = queue.call("settle", {"settlements": [too_far, whole]}).json()["results"]
    assert results == [
        {
            "topic": queue.topic,
            "partition": 0,
            "first_offset": 1,
            "last_offset": 3,
            "settled": False,
            "error_code": "LEASE_EXPIRED",
        },
        {"topic": queue.topic, "partition": 0, "first_offset": 0, "last_offset": 2, "settled": True},
    ]
    assert queue.partition()["start_offset"] == 3


def test_the_same_settlement_again_is_settled_another_is_not(api: Api) -> None:
    """The same settlement again is settled another is not."""
    queue = Queue(api)
    queue.produce("a", "b")
    first, second = queue.receive()
    assert queue.settle(first)[0]["settled"]
    assert queue.settle(first)[0]["settled"]
    assert queue.settle(first, action="release")[0] | {"settled": False, "error_code": "LEASE_EXPIRED"}
    assert not queue.settle(first, action="release")[0]["settled"]
    assert queue.settle(second)[0]["settled"]
    assert queue.settle(first)[0]["settled"]
    assert not queue.settle({**second, "lease": "1-999"})[0]["settled"]
    assert queue.receive() == []


def test_a_released_record_is_delivered_again_with_a_higher_count(api: Api) -> None:
    """A released record is delivered again with a higher count."""
    queue = Queue(api)
    queue.produce("a", "b")
    first, second = queue.receive()
    queue.settle(first, action="release")
    (again,) = queue.receive()
    assert (again["value"], again["delivery_count"]) == ("a", 2)
    assert again["lease"] != first["lease"]
    assert not queue.settle(first)[0]["settled"]
    assert queue.settle(again)[0]["settled"]
    assert queue.settle(second)[0]["settled"]


def test_a_release_may_be_delayed(api: Api) -> None:
    """A release may be delayed."""
    queue = Queue(api)
    queue.produce("a")
    (record,) = queue.receive()
    began = time.monotonic()
    queue.settle(record, action="release", delay_ms=2500)
    assert queue.receive() == []
    queue.stands(delayed=1, in_flight=0, lag=1)
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["a"]
    assert time.monotonic() - began > 2


def test_backoff_follows_the_settings_past_the_end_the_last(api: Api) -> None:
    """Backoff follows the settings past the end the last."""
    queue = Queue(api, backoff_ms=[0, 1500])
    queue.produce("a")
    queue.settle(*queue.receive(), action="release")
    again = queue.receive()
    assert again[0]["delivery_count"] == 2
    for count in (3, 4):
        queue.settle(*again, action="release")
        assert queue.receive() == []
        again = queue.receive(max_wait_ms=SOON_MS)
        assert again[0]["delivery_count"] == count


def test_a_lock_that_ends_is_a_release(api: Api) -> None:
    """A lock that ends is a release."""
    queue = Queue(api, lock_ms=1000)
    queue.produce("a")
    (first,) = queue.receive()
    (again,) = queue.receive(max_wait_ms=SOON_MS)
    assert again["delivery_count"] == 2
    assert int(time.time() * 1000) >= first["locked_until_ms"]
    assert queue.settle(first)[0]["error_code"] == "LEASE_EXPIRED"
    assert queue.settle(again)[0]["settled"]


def test_a_lock_is_of_the_receive_or_renewed(api: Api) -> None:
    """A lock is of the receive or renewed."""
    queue = Queue(api, lock_ms=3000)
    queue.produce("a", "b")
    (long,) = queue.receive(max_records=1, lock_ms=30_000)
    (short,) = queue.receive(max_records=1)
    (result,) = queue.settle(short, action="renew", lock_ms=30_000)
    assert result["settled"]
    assert result["locked_until_ms"] > int(time.time() * 1000) + 20_000
    time.sleep(4.5)
    assert queue.receive() == []
    assert all(one["settled"] for one in queue.settle(long, short))


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"action": "drop"}, "action"),
        ({"delay_ms": 5}, "delay_ms"),
        ({"lock_ms": 5000}, "lock_ms"),
        ({"first_offset": 1}, "first_offset"),
        ({"offset": None}, "offset"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_malformed_settlement_is_refused_by_name(api: Api, wrong: Json, where: str) -> None:
    """A malformed settlement is refused by name."""
    queue = Queue(api)
    queue.produce("a")
    (record,) = queue.receive()
    answer = queue.call("settle", {"settlements": [settlement(record, "accept") | wrong]})
    problem = api.refused(answer, 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == f"/settlements/0/{where}"
    assert queue.settle(record)[0]["settled"]
