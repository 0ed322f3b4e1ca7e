"""Records come locked, and no more of them than asked for (docs/http-api.md section 11.2)."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.http_api import Api, Json
from tests.support.queue_calls import Queue, values


def test_records_come_with_their_lock(api: Api) -> None:
    """Records come with their lock."""
    queue = Queue(api)
    queue.produce("a", "b", headers={"h": "1"}, key="k")
    before_ms = int(time.time() * 1000)
    first, second = queue.receive()
    assert first["lease"] == second["lease"]
    assert (first["topic"], first["partition"], first["offset"]) == (queue.topic, 0, 0)
    assert (first["value"], first["key"], first["headers"]) == ("a", "k", [{"key": "h", "value": "1"}])
    assert first["delivery_count"] == 1
    assert before_ms + 29_000 <= first["locked_until_ms"] <= before_ms + 40_000
    assert queue.receive() == []
    queue.stands(in_flight=2, lag=2, start_offset=0)


def test_max_records_and_max_bytes_limit_an_answer(api: Api) -> None:
    """Max records and max bytes limit an answer."""
    queue = Queue(api)
    queue.produce(*("x" * 100 for _ in range(10)))
    assert len(queue.receive(max_records=3)) == 3
    assert len(queue.receive(max_bytes=250)) == 2
    assert len(queue.receive(max_bytes=1)) == 1
    assert len(queue.receive()) == 4


@pytest.mark.parametrize(
    "wish",
    [
        {"max_records": 0},
        {"max_records": 100_001},
        {"max_bytes": 0},
        {"max_wait_ms": 60_001},
        {"lock_ms": 999},
        {"lock_ms": None},
        {"limit": 1},
    ],
)
def test_a_wish_out_of_range_is_refused(api: Api, wish: Json) -> None:
    """A wish out of range is refused."""
    queue = Queue(api)
    problem = api.refused(queue.call("receive", wish), 400, "INVALID_REQUEST")
    assert problem["errors"][0]["where"] == f"/{next(iter(wish))}"


def test_a_waiting_receive_ends_with_the_first_record_or_its_time(api: Api) -> None:
    """A waiting receive ends with the first record or its time."""
    queue = Queue(api)
    began = time.monotonic()
    assert queue.receive(max_wait_ms=500) == []
    assert 0.4 <= time.monotonic() - began < 15
    other = Api(api.url, api.token)
    try:
        threading.Timer(0.5, lambda: other.produce(queue.topic, {"value": "late"})).start()
        began = time.monotonic()
        assert values(queue.receive(max_wait_ms=20_000)) == ["late"]
        assert time.monotonic() - began < 15
    finally:
        time.sleep(0.2)
        other.http.close()


def test_a_lease_is_of_one_partition(api: Api) -> None:
    """A lease is of one partition."""
    queue = Queue(api, partition_count=3)
    for partition in range(3):
        api.produce(queue.topic, {"value": "a"}, {"value": "b"}, partition=partition)
    found: list[Json] = []
    while len(found) < 6:
        answer = queue.receive(max_wait_ms=10_000)
        assert answer
        found += answer
    leases = {(one["partition"], one["lease"]) for one in found}
    assert len(leases) == 3


def test_no_more_than_max_in_flight_of_a_partition(api: Api) -> None:
    """No more than max in flight of a partition."""
    queue = Queue(api, max_in_flight=2)
    queue.produce("a", "b", "c")
    found = queue.receive()
    assert values(found) == ["a", "b"]
    assert queue.receive() == []
    queue.settle(found[0])
    assert values(queue.receive()) == ["c"]
