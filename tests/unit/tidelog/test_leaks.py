"""What clients leave behind: no socket and no thread, however they end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fake_gateway import FakeGateway
from tests.support.waiting import eventually
from tidelog import Admin, Consumer, Producer, aio, limits
from tidelog.errors import UnknownTopic
from tidelog.http.endpoints import Endpoints
from tidelog.http.owners import Owners, RoutingKey

OPEN_FILES = Path("/proc/self/fd")
Threads = Callable[[], list[str]]

pytestmark = pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="sockets are counted in /proc")


def socket_count() -> int:
    found = 0
    for entry in OPEN_FILES.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += str(entry.readlink()).startswith("socket:")
    return found


def closed_while_it_asks(gateway: FakeGateway, timeout_ms: int = limits.OWNERS_TIMEOUT_MS) -> tuple[Endpoints, Owners]:
    """Both, closed while the look-up of owners was under way; keep them, since garbage would close its sockets by itself."""
    endpoints = Endpoints(gateway.url)
    owners = Owners(endpoints, timeout_ms=timeout_ms)
    owners.endpoint_for(RoutingKey("t"))
    assert eventually(lambda: gateway.count("GET /v1/cluster") == 1)
    owners.close(abort=False)
    endpoints.close(abort=False)
    return endpoints, owners


def test_a_connection_given_back_after_close_is_closed(gateway: FakeGateway, client_threads: Threads) -> None:
    """The look-up of owners is answered after the client was closed: its connection is not kept."""
    answer = threading.Event()

    def late(exchange: Any) -> None:
        answer.wait(20)
        exchange.carry_out()

    gateway.misbehave("GET /v1/cluster", late)
    before = socket_count()
    endpoints, _owners = closed_while_it_asks(gateway)
    answer.set()
    assert eventually(lambda: not client_threads())
    assert eventually(lambda: socket_count() <= before)  # fewer: what tests before this one left has ended
    endpoints.close(abort=True)


def test_closing_ends_a_question_that_nobody_answers(gateway: FakeGateway, client_threads: Threads) -> None:
    """The look-up of owners does not wait out its time-out once the client is closed, nor asks another gateway."""
    answer = threading.Event()
    gateway.misbehave("GET /v1/cluster", lambda _exchange: answer.wait(60))
    _kept = closed_while_it_asks(gateway, timeout_ms=300_000)
    assert eventually(lambda: "tidelog-owners" not in client_threads())
    answer.set()
    assert gateway.count("GET /v1/cluster") == 1


@pytest.mark.parametrize("cut", [False, True])
def test_many_clients_leave_nothing_behind(gateway: FakeGateway, cut: bool, client_threads: Threads) -> None:
    """Producers, consumers and admins, some of whose answers are cut, some of whose calls fail."""
    gateway.create("t")
    before = socket_count()
    kept: list[Any] = []  # what is garbage would close its sockets by itself
    for number in range(15):
        if cut:
            gateway.misbehave("records|fetch", gateway.cut())
        with (
            Admin(gateway.url) as admin,
            Producer(gateway.url) as producer,
            Consumer("t", bootstrap_servers=gateway.url) as consumer,
        ):
            kept += [admin, producer, consumer]
            producer.send("t", str(number)).result(timeout=20)
            assert consumer.poll(10_000)
            with pytest.raises(UnknownTopic):
                admin.describe_topic("nowhere")
    assert eventually(lambda: not client_threads())
    assert eventually(lambda: socket_count() <= before)  # fewer: what tests before this one left has ended
    assert len(kept) == 45


def test_members_of_groups_leave_nothing_behind(gateway: FakeGateway, client_threads: Threads) -> None:
    """Heartbeats, commits beside the reading, a leave that is lost, transactions that are left open."""
    gateway.fill("t", 20)
    before = socket_count()
    kept: list[Any] = []
    for number in range(10):
        if number % 2:
            gateway.misbehave("DELETE", gateway.lose(done=False))
        with (
            Producer(gateway.url, transactional_id="id") as producer,
            Consumer("t", bootstrap_servers=gateway.url, group=f"g{number}", auto_commit_interval_ms=0) as consumer,
        ):
            kept += [producer, consumer]
            producer.begin_transaction()
            producer.send("t", str(number))
            while sum(len(each) for each in (consumer.poll(1_000, 7), consumer.poll(0, 7))) > 10:
                pass
    assert eventually(lambda: not client_threads())
    assert eventually(lambda: socket_count() <= before)  # fewer: what tests before this one left has ended
    assert len(kept) == 20


def test_asyncio_clients_leave_nothing_behind(gateway: FakeGateway, client_threads: Threads) -> None:
    """The asyncio twins close what is theirs, too."""
    gateway.create("t")
    before = socket_count()
    kept: list[Any] = []

    async def use(number: int) -> None:
        async with (
            aio.Admin(gateway.url) as admin,
            aio.Producer(gateway.url) as producer,
            aio.Consumer("t", bootstrap_servers=gateway.url) as consumer,
        ):
            kept.extend([admin, producer, consumer])
            await (await producer.send("t", str(number)))
            assert await consumer.poll(10_000)
            with pytest.raises(UnknownTopic):
                await admin.describe_topic("nowhere")

    for number in range(10):
        asyncio.run(use(number))
    assert eventually(lambda: not client_threads())
    assert eventually(lambda: socket_count() <= before)  # fewer: what tests before this one left has ended
    assert len(kept) == 30
