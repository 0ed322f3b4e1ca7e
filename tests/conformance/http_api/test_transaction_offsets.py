"""A group's offsets inside a transaction: they appear with its records, or neither does (docs/http-api.md section 5.2)."""

from __future__ import annotations

import secrets
from typing import Any

import httpx
import pytest

from tests.support.http_api import Api

Json = dict[str, Any]


class Loop:
    """One consumer that transforms: a group on an input topic, and transactions that write to an output topic."""

    def __init__(self, api: Api) -> None:
        self.http: httpx.Client = api.http
        self.group = f"group-{secrets.token_hex(6)}"
        self.input = api.topic(partition_count=2)
        self.output = api.topic()
        for partition in range(2):
            api.produce(self.input, *({"value": f"{partition}/{number}"} for number in range(4)), partition=partition)

    def join(self, **members: Any) -> Json:
        """A member of the group."""
        answer = self.http.post(f"/v1/groups/{self.group}/members", json={"topics": [self.input]} | members)
        assert answer.status_code == 201, answer.text
        joined: Json = answer.json()
        return joined

    def begin(self) -> str:
        """The id of a new transaction with one record staged."""
        body = {"transactional_id": f"id-{secrets.token_hex(6)}"}
        transaction: str = self.http.post("/v1/transactions", json=body).json()["transaction_id"]
        headers = {"Tidelog-Transaction": transaction}
        staged = self.http.post(
            f"/v1/topics/{self.output}/records", json={"records": [{"value": "result"}]}, headers=headers
        )
        assert staged.status_code == 202, staged.text
        return transaction

    def add(self, transaction: str, offset: int, partition: int = 0, member: Json | None = None) -> httpx.Response:
        """Offsets for the transaction."""
        body: Json = {
            "group": self.group,
            "offsets": [{"topic": self.input, "partition": partition, "offset": offset, "metadata": "note"}],
        }
        if member is not None:
            body |= {"member_id": member["member_id"], "generation": member["generation"]}
        return self.http.post(f"/v1/transactions/{transaction}/offsets", json=body)

    def end(self, transaction: str, how: str = "commit") -> httpx.Response:
        """``commit`` or ``abort``."""
        return self.http.post(f"/v1/transactions/{transaction}:{how}")

    def committed(self) -> dict[int, int]:
        """The group's offsets of the input by partition; none for a group that is not there."""
        answer = self.http.get(f"/v1/groups/{self.group}/offsets")
        if answer.status_code == 404:
            return {}
        return {one["partition"]: one["offset"] for one in answer.json()["offsets"]}


@pytest.fixture
def loop(api: Api) -> Loop:
    """A consumer of this test's own."""
    return Loop(api)


def test_offsets_appear_with_the_records(api: Api, loop: Loop) -> None:
    """Before the commit neither is there, after it both are; again: the same answer."""
    transaction = loop.begin()
    added = loop.add(transaction, 3)
    assert (added.status_code, loop.committed(), api.records(loop.output)) == (202, {}, [])
    first = loop.end(transaction)
    assert first.status_code == 200, first.text
    assert loop.committed() == {0: 3}
    assert [record["value"] for record in api.records(loop.output)] == ["result"]
    assert loop.end(transaction).json() == first.json()
    entry = api.http.get(f"/v1/groups/{loop.group}/offsets").json()["offsets"][0]
    assert entry["metadata"] == "note"
    assert entry["committed_at"] > 0


def test_an_abort_drops_them(api: Api, loop: Loop) -> None:
    """What was aborted never appears, whichever part of it."""
    transaction = loop.begin()
    loop.add(transaction, 3)
    assert loop.end(transaction, "abort").status_code == 200
    assert (loop.committed(), api.records(loop.output)) == ({}, [])


def test_the_last_of_several_counts(loop: Loop) -> None:
    """Two requests of a transaction about one partition: the later one; others are kept."""
    transaction = loop.begin()
    for offset, partition in ((1, 0), (2, 1), (4, 0)):
        assert loop.add(transaction, offset, partition).status_code == 202
    assert loop.end(transaction).status_code == 200
    assert loop.committed() == {0: 4, 1: 2}


def test_a_member_commits_what_it_holds(api: Api, loop: Loop) -> None:
    """Within a generation a member's offsets are taken; without its member id they are refused, and nothing is staged."""
    member = loop.join()
    transaction = loop.begin()
    api.refused(loop.add(transaction, 2), 409, "STALE_GENERATION")
    assert loop.add(transaction, 2, member=member).status_code == 202
    assert loop.end(transaction).status_code == 200
    assert loop.committed() == {0: 2}


def test_the_rules_of_groups_are_checked_when_they_are_added(api: Api, loop: Loop) -> None:
    """Unknown members, stale generations, unknown partitions and topics: refused at once; the transaction goes on."""
    member = loop.join()
    transaction = loop.begin()
    api.refused(loop.add(transaction, 2, member=member | {"member_id": "nobody"}), 404, "UNKNOWN_MEMBER")
    api.refused(loop.add(transaction, 2, member=member | {"generation": 7}), 409, "STALE_GENERATION")
    api.refused(loop.add(transaction, 0, partition=2, member=member), 404, "UNKNOWN_PARTITION")
    path = f"/v1/transactions/{transaction}/offsets"
    elsewhere = {"topic": "no-such-topic", "partition": 0, "offset": 0}
    api.refused(api.http.post(path, json={"group": "g", "offsets": [elsewhere]}), 404, "UNKNOWN_TOPIC")
    for body in ({}, {"group": ""}, {"group": "g", "offsets": {}}, {"group": "g", "offsets": [], "x": 1}):
        api.refused(api.http.post(path, json=body), 400, "INVALID_REQUEST")
    assert loop.end(transaction).status_code == 200
    assert loop.committed() == {}


def test_a_member_that_lost_its_generation_commits_nothing(api: Api, loop: Loop) -> None:
    """What was added by a member that is out when the transaction is committed: 409, aborted, and nothing of it appears."""
    member = loop.join()
    transaction = loop.begin()
    assert loop.add(transaction, 2, member=member).status_code == 202
    api.http.delete(f"/v1/groups/{loop.group}/members/{member['member_id']}")
    loop.join()
    refused = loop.end(transaction)
    assert refused.status_code == 409, refused.text
    assert (loop.committed(), api.records(loop.output)) == ({}, [])
    api.refused(loop.end(transaction), 409, "TRANSACTION_NOT_OPEN")
    assert api.http.get(f"/v1/transactions/{transaction}").json()["state"] == "aborted"


def test_a_partition_that_moved_takes_no_offsets_of_its_old_member(api: Api, loop: Loop) -> None:
    """A member that let a partition go can't commit for it any more, though it is a member still."""
    first = loop.join()
    transaction = loop.begin()
    assert loop.add(transaction, 2, partition=1, member=first).status_code == 202
    second = loop.join()
    heartbeat = f"/v1/groups/{loop.group}/members/{first['member_id']}/heartbeat"
    assert api.http.post(heartbeat, json={"generation": second["generation"]}).status_code == 200
    api.refused(loop.end(transaction), 409, "STALE_GENERATION")
    assert (loop.committed(), api.records(loop.output)) == ({}, [])


def test_a_transaction_with_offsets_only(loop: Loop) -> None:
    """Records are not needed."""
    body = {"transactional_id": f"id-{secrets.token_hex(6)}"}
    transaction = loop.http.post("/v1/transactions", json=body).json()["transaction_id"]
    assert loop.add(transaction, 1).status_code == 202
    assert loop.end(transaction).json() == {"state": "committed", "topics": []}
    assert loop.committed() == {0: 1}


def test_offsets_for_a_transaction_that_ended_are_refused(api: Api, loop: Loop) -> None:
    """After an end nothing is added, and an unknown transaction is unknown."""
    transaction = loop.begin()
    loop.end(transaction, "abort")
    api.refused(loop.add(transaction, 1), 409, "TRANSACTION_NOT_OPEN")
    api.refused(loop.add("t0", 1), 404, "UNKNOWN_TRANSACTION")
