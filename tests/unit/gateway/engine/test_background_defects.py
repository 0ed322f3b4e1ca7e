"""A defect in background work ends one round of it and not the work; no request is left waiting for a run that it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.app import create_app
from gateway.cluster.membership import HeartbeatSettings, Identity, Membership
from gateway.cluster.peers import Peers
from gateway.groups.bounds import GroupBounds
from gateway.groups.calls.groups import Groups, JoinRequest
from gateway.groups.membership.live_group import LiveGroup
from gateway.groups.membership.upkeep import Upkeep
from gateway.process.server import GatewayServer, server_config
from gateway.settings.settings import Settings
from gateway.tasks.supervised import run_supervised
from gateway.transactions.sweeping import TransactionSweeper
from log_format.clock import SystemClock
from log_format.errors import BackOff, TidelogError
from log_format.groups.changes import ClaimGroup
from tests.support.engine import make_gateway
from tests.support.lone_gateway import lone_gateway

JOINING = JoinRequest(
    topics=("t",), pattern=None, assignor="range", session_timeout_ms=1_000, client_id=None, instance_id=None
)


class Planted(Exception):
    """An unforeseen error."""


SOON = GroupBounds(topics_watched_ms=1, adoption_ms=1, expiry_ms=1, compaction_ms=1, pause_after_defect_ms=1)
"""Rounds follow each other at once."""


class Failing:
    """Stands in for a method: its first call meets a defect; ``again`` is set by the third, so two rounds came after it."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.calls = 0
        self.again = asyncio.Event()
        self._method = method

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise Planted
        if self.calls == 3:
            self.again.set()
        return self._method(*arguments, **named)


async def until(condition: Callable[[], bool]) -> None:
    """The test's own time-out bounds it."""
    while True:
        if condition():
            return
        await asyncio.sleep(0.001)


async def test_one_round_after_the_other(caplog: pytest.LogCaptureFixture) -> None:
    """A defect is logged with its trace and the next round comes; only being cancelled ends the work."""
    work = Failing(lambda: asyncio.sleep(0))
    task = asyncio.create_task(run_supervised(work, "the work", pause_after_defect_ms=1))
    await work.again.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "the work met a defect, and goes on"
    assert record.exc_info is not None
    assert record.exc_info[0] is Planted


@pytest.mark.parametrize(
    "name",
    [Upkeep._watch_topics.__name__, Upkeep._adopt.__name__, Upkeep._forget_unused.__name__, Upkeep._tick.__name__],
)
async def test_a_coordinators_rounds(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Sessions, topics, adoption, expiry: each goes on."""
    gateway = make_gateway(group_bounds=SOON)
    await gateway.topic()
    groups = gateway.engine.groups
    failing = Failing(getattr(groups.upkeep, name))
    monkeypatch.setattr(groups.upkeep, name, failing)
    groups.start()
    await groups.join("g", replace(JOINING, session_timeout_ms=60_000))  # without a group no session ends
    await failing.again.wait()
    await groups.drain()


async def test_the_compaction_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on."""
    groups: Groups = make_gateway(group_bounds=SOON).engine.groups
    failing = Failing(groups.table.keep_small)
    monkeypatch.setattr(groups.table, "keep_small", failing)
    groups.start()
    await failing.again.wait()
    await groups.drain()


async def test_the_sweep_of_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on, and what was to be done at the start is done as soon as that works."""
    engine = make_gateway(sweep_pause_ms=1).engine
    sweeping: TransactionSweeper = engine.sweeping
    left_alone_ms = []

    async def swept(**named: int) -> None:
        left_alone_ms.append(named["left_alone_ms"])

    failing = Failing(swept)
    monkeypatch.setattr(sweeping, "sweep_once", failing)
    sweeping.start()
    await failing.again.wait()
    sweeping.stop()
    assert left_alone_ms[:2] == [0, engine.bounds.left_alone_ms]


async def test_the_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on: a gateway that serves is not taken for dead."""
    clock = SystemClock()
    membership = Membership(
        make_gateway().store,
        Peers(clock),
        Identity("a", "http://a", "i", 0),
        HeartbeatSettings(1),
        owned_topic_count=lambda: 0,
        clock=clock,
        registry=CollectorRegistry(),
    )
    failing = Failing(lambda: asyncio.sleep(0))
    monkeypatch.setattr(membership, "_round", failing)
    membership.start("http://a")
    await failing.again.wait()
    assert membership._looping is not None
    membership._looping.cancel()
    membership._thread.shutdown()


async def test_the_sweep_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on: idle connections are closed."""
    counted = Failing(lambda _count: None)
    settings = Settings(store="memory://x")
    gateway = lone_gateway(settings, make_gateway().engine)
    monkeypatch.setattr(gateway.metrics.connections, "set", counted)
    config = server_config(create_app(gateway), gateway)
    server = GatewayServer(config, gateway, lambda _url, _operations: None, sweep_seconds=0.001)
    task = asyncio.create_task(run_supervised(server._sweep, "the sweep of connections", pause_after_defect_ms=1))
    await counted.again.wait()
    task.cancel()


async def test_a_session_that_met_a_defect_ends_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coordinator looks at the group again, though no member joins it any more."""
    gateway = make_gateway(group_bounds=replace(SOON, lease_ms=10))
    await gateway.topic()
    groups = gateway.engine.groups
    failing = Failing(LiveGroup.end_sessions)
    monkeypatch.setattr(LiveGroup, "end_sessions", lambda group: failing(group))  # noqa: PLW0108 - so it is a method
    groups.start()
    await groups.join("g", JOINING)
    # By the table: rounds this dense may forget the group in the moment it is joined, and adopt it as another one in memory.
    while True:
        row = (await groups.table.fresh()).group("g").row
        if row is not None and not row.members:
            break
        await asyncio.sleep(0.001)
    assert failing.calls > 1
    await groups.drain()


async def test_who_waits_behind_a_defect_of_a_group_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A join that came while another met a defect is refused at once, and works when it is repeated."""
    gateway = make_gateway()
    await gateway.topic()
    groups = gateway.engine.groups
    group = await groups.coordinator.live("g")
    resolve, begun, go_on = groups._subscribed.resolve, asyncio.Event(), asyncio.Event()

    async def defect(_members: object) -> None:
        begun.set()
        await go_on.wait()
        raise Planted

    monkeypatch.setattr(groups._subscribed, "resolve", defect)
    # asyncio logs what ended the run; here it is expected.
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    first = asyncio.create_task(groups.join("g", JOINING))
    await begun.wait()
    second = asyncio.create_task(groups.join("g", JOINING))
    await until(lambda: bool(group._changes.waiting_count))
    go_on.set()
    with pytest.raises(TidelogError):
        await first
    with pytest.raises(BackOff):
        await second
    monkeypatch.setattr(groups._subscribed, "resolve", resolve)
    await groups.join("g", JOINING)


async def test_who_waits_behind_a_defect_of_a_commit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision that came while others met a defect is refused at once: nothing of it happened."""
    commits = make_gateway().engine.groups.table
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def defect(_change: object) -> None:
        begun.set()
        await go_on.wait()
        raise Planted

    with monkeypatch.context() as patch:
        patch.setattr(commits, "commit_serialized", defect)
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        first = asyncio.create_task(commits.decide(ClaimGroup(group="g", coordinator="me")))
        await begun.wait()
        second = asyncio.create_task(commits.decide(ClaimGroup(group="h", coordinator="me")))
        await until(lambda: commits._decisions.waiting_count == 1)
        go_on.set()
        with pytest.raises(TidelogError):
            await first
        with pytest.raises(BackOff):
            await second
    claimed = await commits.decide(ClaimGroup(group="g", coordinator="me"))
    assert claimed.row is not None
