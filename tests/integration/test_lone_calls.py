"""Callers who wait for each answer before their next call, at a real gateway: each call takes a commit, and no timer.

The timer would be 250 ms (``flush.ms``), 200 ms (groups) or 62 ms (queues).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.support.kafka_gateway import KafkaGateway, kafka_gateway
from tests.support.kafka_shares import ACCEPT, ShareMember, topic_id, until

BURST = 66
"""So many commits of queues a pace with a small burst would let through at once, and fewer of groups."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaGateway]:
    """One whose topic has the default ``flush.ms``."""
    directory = tmp_path_factory.mktemp("lone")
    with kafka_gateway(directory / "store", directory / "log") as started:
        started.topic("orders", flush_ms=250, commit_mode="own")
        yield started


def answered(answer: httpx.Response) -> Any:
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


def took(call: Callable[[int], float | None], count: int, burst: int) -> float:
    """What the quickest quarter of so many calls behind a burst took at most, in seconds: a busy machine does not count."""
    times = []
    for number in range(burst + count):
        began = time.perf_counter()
        own = call(number)
        times.append(time.perf_counter() - began if own is None else own)
    return sorted(times[burst:])[count // 4]


def test_a_groups_offsets(gateway: KafkaGateway) -> None:
    """Committed over HTTP by a caller without a membership."""

    def commit(number: int) -> None:
        offsets = [{"topic": "orders", "partition": 0, "offset": number}]
        answered(gateway.http.put("/v1/groups/lone/offsets", json={"offsets": offsets}))

    assert took(commit, 40, burst=30) < 0.1


def test_offsets_of_a_transaction(gateway: KafkaGateway) -> None:
    """Its commit settles them: two commits of the groups' table, beside those of the transaction's."""

    def end(number: int) -> float:
        begun = answered(gateway.http.post("/v1/transactions", json={"transactional_id": secrets.token_hex(8)}))
        place = f"/v1/transactions/{begun['transaction_id']}"
        offsets = [{"topic": "orders", "partition": 0, "offset": number}]
        answered(gateway.http.post(f"{place}/offsets", json={"group": "of-transactions", "offsets": offsets}))
        began = time.perf_counter()
        answered(gateway.http.post(f"{place}:commit"))
        return time.perf_counter() - began

    assert took(end, 12, burst=15) < 0.2


def test_joins(gateway: KafkaGateway) -> None:
    """Of groups that are made by them. What a coordinator writes on its own counts as a caller, too."""

    def join(number: int) -> None:
        answered(gateway.http.post(f"/v1/groups/new-{number}/members", json={"topics": ["orders"]}))

    assert took(join, 12, burst=15) < 0.2


def test_a_settlement(gateway: KafkaGateway) -> None:
    """Of one record after the other."""
    count = 60
    gateway.topic("tasks")
    gateway.produce("tasks", *["x"] * (BURST + count))
    answered(gateway.http.put("/v1/queues/work", json={"topics": ["tasks"], "start": "earliest"}))

    def settle(_: int) -> float:
        (record,) = answered(gateway.http.post("/v1/queues/work:receive", json={"max_records": 1}))["records"]
        done = {"topic": "tasks", "partition": 0, "offset": record["offset"], "lease": record["lease"]}
        began = time.perf_counter()
        answered(gateway.http.post("/v1/queues/work:settle", json={"settlements": [done | {"action": "accept"}]}))
        return time.perf_counter() - began

    assert took(settle, count, burst=BURST) < 0.05


def test_an_acknowledgement_of_a_share_group(gateway: KafkaGateway) -> None:
    """Of one record after the other, all fetched before."""
    count = 60
    gateway.topic("shared")
    gateway.produce("shared", *["x"] * (BURST + count))
    answered(gateway.http.put("/v1/queues/share", json={"topics": ["shared"], "start": "earliest"}))
    with ShareMember(gateway.kafka, "share", topic_id(gateway, "shared")) as member:
        until(lambda: member.fetch(max_wait_ms=500), count=BURST + count)

        def acknowledge(number: int) -> None:
            assert member.acknowledge({0: [(number, number, [ACCEPT])]}) == (0, {0: 0})

        assert took(acknowledge, count, burst=BURST) < 0.05


def test_a_delayed_record(gateway: KafkaGateway) -> None:
    """It is in the store after an object of its own, as a record that is not delayed."""

    def delay(_: int) -> None:
        records = [{"value": "x", "deliver_after_ms": 3_600_000}]
        answered(gateway.http.post("/v1/topics/orders/records", json={"records": records}))

    assert took(delay, 12, burst=0) < 0.2
