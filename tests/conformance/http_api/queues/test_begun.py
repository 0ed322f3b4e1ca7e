"""A delivery that nobody began with can be taken back, and does not count when its lock ends (docs/http-api.md section 11)."""

from __future__ import annotations

import time

from tests.support.http_api import Api
from tests.support.queue_calls import SOON_MS, Queue, settlement, values


def test_a_release_of_what_nobody_began_does_not_count(api: Api) -> None:
    """However often a record is taken and given back so, it comes at once, as if it had never been taken."""
    queue = Queue(api, max_deliveries=2, backoff_ms=[60_000])
    queue.produce("a")
    for _ in range(4):
        (found,) = queue.receive()
        assert found["delivery_count"] == 1
        assert queue.settle(found, action="release", begun=False)[0]["settled"]
    (found,) = queue.receive()
    queue.settle(found, action="release", delay_ms=0)
    (found,) = queue.receive()
    assert found["delivery_count"] == 2
    queue.settle(found, action="release", begun=False)
    (found,) = queue.receive()
    assert found["delivery_count"] == 2


def test_what_is_not_begun_when_its_lock_ends_does_not_count(api: Api) -> None:
    """Of four records one counts from the start and one since its receiver said so; the two others were never delivered."""
    queue = Queue(api)
    queue.produce("a", "b", "c", "d")
    _, _, third, _ = queue.receive(lock_ms=1_000, begun_max=1)
    assert queue.settle(third, action="renew", lock_ms=1_000, begun=True)[0]["settled"]
    again = queue.receive(max_wait_ms=SOON_MS)
    until = time.monotonic() + SOON_MS / 1000
    while len(again) < 4 and time.monotonic() < until:
        again += queue.receive(max_wait_ms=500)
    assert sorted((one["value"], one["delivery_count"]) for one in again) == [("a", 2), ("b", 1), ("c", 2), ("d", 1)]


def test_what_was_ended_otherwise_counts_though_it_was_not_begun(api: Api) -> None:
    """A release that says nothing counts, as for a caller that takes no notice of all this."""
    queue = Queue(api)
    queue.produce("a", "b")
    queue.settle(*queue.receive(begun_max=0), action="release")
    assert [one["delivery_count"] for one in queue.receive()] == [2, 2]


def test_where_begun_does_not_belong_it_is_refused(api: Api) -> None:
    """True goes with a renewal, false with a release, and ``begun_max`` is a number of records."""
    queue = Queue(api)
    queue.produce("a")
    (found,) = queue.receive()
    for action, begun in (("accept", True), ("release", True), ("renew", False), ("release", 1), ("release", None)):
        api.refused(
            queue.call("settle", {"settlements": [settlement(found, action, begun=begun)]}), 400, "INVALID_REQUEST"
        )
    for wrong in (-1, None, "1", 100_001):
        api.refused(queue.call("receive", {"begun_max": wrong}), 400, "INVALID_REQUEST")
    assert queue.settle(found)[0]["settled"]


def test_a_renewal_may_shorten_a_lock(api: Api) -> None:
    """The record comes again when the new, shorter lock is over."""
    queue = Queue(api)
    queue.produce("a")
    (found,) = queue.receive(lock_ms=60_000)
    (result,) = queue.settle(found, action="renew", lock_ms=1_000)
    assert result["locked_until_ms"] < found["locked_until_ms"] - 30_000
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["a"]


def test_the_start_offset_passes_settled_records_behind_deleted_ones(api: Api) -> None:
    """Records that are deleted while they are locked leave no gap before those that were settled."""
    queue = Queue(api)
    queue.produce("a", "b", "c", "d")
    found = queue.receive()
    queue.settle(found[3])
    deleted = api.http.post(
        f"/v1/topics/{queue.topic}:delete-records", json={"before": [{"partition": 0, "offset": 3}]}
    )
    assert deleted.status_code == 200, deleted.text
    queue.becomes(start_offset=4, lag=0)
