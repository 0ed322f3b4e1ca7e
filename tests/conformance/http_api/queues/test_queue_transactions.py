"""Settlements inside a transaction: they count with its commit, or not at all (docs/http-api.md section 11.6)."""

from __future__ import annotations

import time

from tests.support.http_api import Api
from tests.support.queue_calls import SOON_MS, Queue, begun, dead, headers, settlement, values


def test_settlements_of_a_transaction_count_with_its_commit(api: Api) -> None:
    """Settlements of a transaction count with its commit."""
    queue, target = Queue(api, lock_ms=3000), api.topic()
    queue.produce("a", "b")
    first, second = queue.receive()
    transaction = begun(api)
    body = {"settlements": [settlement(first, "accept"), settlement({**second, "lease": "1-99"}, "accept")]}
    answer = queue.call("settle", body, **{"Tidelog-Transaction": transaction})
    assert answer.status_code == 202
    assert [one["settled"] for one in answer.json()["results"]] == [True, False]
    assert queue.call("settle", body, **{"Tidelog-Transaction": transaction}).json()["results"][0]["settled"]
    api.http.post(
        f"/v1/topics/{target}/records",
        json={"records": [{"value": "out"}]},
        headers={"Tidelog-Transaction": transaction},
    )
    time.sleep(4.5)
    again = queue.receive()
    assert values(again) == ["b"]
    queue.stands(in_flight=2, start_offset=0)
    assert api.http.post(f"/v1/transactions/{transaction}:commit").status_code == 200
    assert values(api.records(target)) == ["out"]
    assert queue.partition()["start_offset"] == 1
    queue.settle(*again)
    queue.stands(start_offset=2, in_flight=0)


def test_an_abort_frees_at_once(api: Api) -> None:
    """An abort frees at once."""
    queue = Queue(api)
    queue.produce("a")
    (record,) = queue.receive()
    transaction = begun(api)
    header = {"Tidelog-Transaction": transaction}
    assert queue.call("settle", {"settlements": [settlement(record, "accept")]}, **header).status_code == 202
    assert queue.receive() == []
    assert api.http.post(f"/v1/transactions/{transaction}:abort").status_code == 200
    (again,) = queue.receive()
    assert again["delivery_count"] == 2


def test_a_transaction_that_expires_frees_its_records(api: Api) -> None:
    """A transaction that expires frees its records."""
    queue = Queue(api)
    queue.produce("a")
    (record,) = queue.receive()
    transaction = begun(api, timeout_ms=1000)
    header = {"Tidelog-Transaction": transaction}
    assert queue.call("settle", {"settlements": [settlement(record, "accept")]}, **header).status_code == 202
    assert values(queue.receive(max_wait_ms=SOON_MS)) == ["a"]
    api.refused(api.http.post(f"/v1/transactions/{transaction}:commit"), 409, "TRANSACTION_NOT_OPEN")


def test_a_lease_that_is_over_at_the_commit_aborts_the_transaction(api: Api) -> None:
    """A lease that is over at the commit aborts the transaction."""
    queue = Queue(api)
    queue.produce("a")
    (record,) = queue.receive()
    transaction = begun(api)
    header = {"Tidelog-Transaction": transaction}
    assert queue.call("settle", {"settlements": [settlement(record, "accept")]}, **header).status_code == 202
    assert api.http.delete(f"/v1/queues/{queue.name}").status_code == 204
    api.refused(api.http.post(f"/v1/transactions/{transaction}:commit"), 409, "LEASE_EXPIRED")
    assert api.http.get(f"/v1/transactions/{transaction}").json()["state"] == "aborted"
    unknown = api.http.post(
        f"/v1/queues/{Queue(api).name}:settle", json={"settlements": []}, headers={"Tidelog-Transaction": "t0"}
    )
    api.refused(unknown, 404, "UNKNOWN_TRANSACTION")


def test_a_record_rejected_in_a_transaction_becomes_a_dead_letter_with_its_commit(api: Api) -> None:
    """A record rejected in a transaction becomes a dead letter with its commit."""
    letters = api.topic()
    queue = Queue(api, dead_letter_topic=letters)
    queue.produce("a")
    (record,) = queue.receive()
    transaction = begun(api)
    header = {"Tidelog-Transaction": transaction}
    queue.call("settle", {"settlements": [settlement(record, "reject", reason="no")]}, **header)
    time.sleep(1)
    assert api.records(letters) == []
    assert api.http.post(f"/v1/transactions/{transaction}:commit").status_code == 200
    assert headers(dead(api, letters)[0])["tidelog-dlq-reason"] == "no"
