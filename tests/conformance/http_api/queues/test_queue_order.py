"""Order by key, expiry, filters, and topics that change (docs/http-api.md section 11.5)."""

from __future__ import annotations

import time

from tests.support.http_api import Api, Json
from tests.support.queue_calls import SOON_MS, SOON_S, Queue, dead, headers, values
from tests.support.waiting import until


def test_order_by_key_gives_one_record_of_a_key_at_a_time(api: Api) -> None:
    """Order by key gives one record of a key at a time."""
    queue = Queue(api, order="key")
    records: list[Json] = [{"key": "a", "value": "a1"}, {"key": "a", "value": "a2"}, {"key": "b", "value": "b1"}]
    records += [{"value": "free1"}, {"value": "free2"}, {"key": "b", "value": "b2"}]
    api.produce(queue.topic, *records)
    found = {one["value"]: one for one in queue.receive()}
    assert sorted(found) == ["a1", "b1", "free1", "free2"]
    assert queue.receive() == []
    queue.settle(found["a1"], action="release", delay_ms=60_000)
    assert queue.receive() == []
    queue.settle(found["b1"])
    assert values(queue.receive()) == ["b2"]


def test_expired_records_are_not_delivered_and_become_dead_letters(api: Api) -> None:
    """Expired records are not delivered and become dead letters."""
    letters = api.topic()
    queue = Queue(api, dead_letter_topic=letters, expired="dead_letter")
    now_ms = int(time.time() * 1000)
    for value, expires_ms in (("old", now_ms - 1), ("soon", now_ms + 1500), ("late", now_ms + 600_000)):
        queue.produce(value, headers={"expires_at": str(expires_ms)})
    found = dead(api, letters, 2)
    assert {one["value"]: headers(one)["tidelog-dlq-reason"] for one in found} == {"old": "expired", "soon": "expired"}
    assert values(queue.receive()) == ["late"]


def test_a_filter_leaves_records_out(api: Api) -> None:
    """A filter leaves records out."""
    queue = Queue(api, filter={"headers": ["kind:x"]})
    for number in range(6):
        queue.produce(str(number), headers={"kind": "x" if number % 3 == 0 else "y"})
    assert queue.partition()["lag"] == 2
    found = queue.receive()
    assert values(found) == ["0", "3"]
    assert queue.partition()["in_flight"] == 2
    queue.settle(*found)
    until(lambda: queue.receive() == [] and queue.partition()["start_offset"] == 6, SOON_S)
    queue.stands(start_offset=6, lag=0)


def test_a_topic_made_anew_is_read_from_0_and_partitions_come_along(api: Api) -> None:
    """A topic made anew is read from 0 and partitions come along."""
    queue = Queue(api)
    queue.produce("old")
    queue.settle(*queue.receive())
    assert api.http.delete(f"/v1/topics/{queue.topic}").status_code == 204
    assert queue.receive() == []
    assert api.http.post("/v1/topics", json={"name": queue.topic, "config": {"flush.ms": 0}}).status_code == 201
    queue.produce("new")
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["new"]
    assert api.http.patch(f"/v1/topics/{queue.topic}", json={"partition_count": 2}).status_code == 200
    api.produce(queue.topic, {"value": "added"}, partition=1)
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["added"]


def test_deleted_records_are_settled(api: Api) -> None:
    """Deleted records are settled."""
    queue = Queue(api)
    queue.produce("a", "b", "c")
    held = queue.receive(max_records=1)
    before = [{"partition": 0, "offset": 2}]
    assert api.http.post(f"/v1/topics/{queue.topic}:delete-records", json={"before": before}).status_code == 200
    until(lambda: queue.partition()["start_offset"] == 2, SOON_S)
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["c"]
    assert queue.settle(*held)[0]["settled"]
    queue.stands(start_offset=2, lag=1)
