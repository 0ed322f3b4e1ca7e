"""Savings have an end: opening a queue again gives nothing, and those that share one leave each other something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.call import begin_call
from gateway.engine.early_flush import PACED_SAVINGS_SECONDS_MAX, EarlyFlush, PacedSchedule
from gateway.engine.group_commit import Group, GroupCommit
from gateway.engine.open_topic import OpenTopic
from gateway.engine.savings_shares import PAYERS_MAX, SavingsShares
from gateway.engine.savings_watch import SavingsWatch
from gateway.engine.writer import FlushSchedule
from log_format.groups.changes import ClaimGroup
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, make_gateway
from tests.support.faulty_store import FaultyStore
from tests.support.virtual_loop import run_virtually

FLUSH_SECONDS = 0.25
COMMIT_SECONDS = 0.05
HOUR = 3_600.0
DAY = 24 * HOUR
ITEM = SimpleNamespace(topic_id="t", is_publication=False)


class Queue:
    """A queue that many may share, with a commit that takes so long. ``flushes``: when each began."""

    def __init__(self, rested: Callable[[], float] = lambda: inf, *, paced: float | None = None) -> None:
        settings = {"flush.ms": int(FLUSH_SECONDS * 1000), "flush.bytes": 1 << 30, "owners": 1}
        state = SimpleNamespace(exists=True, topic_id="t", config=SimpleNamespace(integer=settings.__getitem__))
        self.early = EarlyFlush(HOUR, PACED_SAVINGS_SECONDS_MAX if paced else DAY, label="journal 0", rested=rested)
        self.flushes: list[float] = []
        self._ahead: list[Any] = []
        self._log: Any = SimpleNamespace(state=state)
        self.begin(PacedSchedule(self.early, paced) if paced else None)

    def begin(self, paced: PacedSchedule | None = None) -> None:
        """Nothing waits yet."""
        watch = SavingsWatch(CollectorRegistry())
        schedule = FlushSchedule(self._log, self._ahead, requests=10_000, early=self.early, watch=watch)
        self.commits: GroupCommit[Any, None] = GroupCommit(
            self._commit, schedule=paced or schedule, label="q", waiting_max=100_000
        )

    async def _commit(self, group: Group[Any, None]) -> None:
        self.flushes.append(asyncio.get_running_loop().time())
        self._ahead.append(group)
        await asyncio.sleep(COMMIT_SECONDS)
        self._ahead.remove(group)
        self.early.on_ended(self.commits.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle([None] * len(group.pending))

    async def one_by_one(self, payer: str | None, until: float, think: float = 0.0) -> list[float]:
        """What each answer took a sender that waits for it, and then thinks."""
        took, loop = [], asyncio.get_running_loop()
        while (began := loop.time()) < until:
            await self.commits.submit(ITEM, 1, payer or "a", payer).settled
            took.append(loop.time() - began)
            await asyncio.sleep(think)
        return took


def test_a_topic_that_is_opened_each_minute_spends_what_one_that_stays_open_does() -> None:
    """Evicted from memory, or by a gateway that restarts: each time it has what was earned since it was last written to."""
    seconds = 2 * HOUR

    async def work() -> list[float]:
        flushes: list[float] = []
        loop = asyncio.get_running_loop()
        while loop.time() < seconds:
            written = flushes[-1] if flushes else -inf
            queue = Queue(lambda written=written: loop.time() - written)  # type: ignore[misc]
            await queue.one_by_one("a", loop.time() + 60)
            flushes += queue.flushes
        return flushes

    flushes = run_virtually(work())
    assert len(flushes) <= (seconds + HOUR) / FLUSH_SECONDS + 1
    assert len(flushes) > seconds / FLUSH_SECONDS


@pytest.mark.parametrize("paced", [None, 5.0])
def test_who_never_pauses_leaves_something_to_those_that_share_its_queue(paced: float | None) -> None:
    """A topic at a journal, or a group of a table, that has spent as much as is left waits for the timer; the others don't."""
    until = HOUR

    async def work() -> tuple[Queue, list[list[float]]]:
        queue = Queue(paced=paced)
        busy = [queue.one_by_one("busy", until)]
        others = [queue.one_by_one(f"other {number}", until, 5.7 + 0.3 * number) for number in range(3)]
        return queue, await asyncio.gather(*busy, *others)

    queue, (busy, *others) = run_virtually(work())
    assert median(busy[-1000:]) > 2 * COMMIT_SECONDS
    for took in others:
        assert median(took[-100:]) < 2 * COMMIT_SECONDS + 0.03
    now = until
    assert queue.early.is_spent(now, "busy")
    assert not queue.early.is_spent(now, "other 1")
    assert queue.early.saved_seconds(now) > HOUR / 8


def test_who_shares_with_nobody_spends_all() -> None:
    """A topic with commits of its own."""
    until = 0.4 * HOUR

    async def work() -> Queue:
        queue = Queue()
        await queue.one_by_one(None, until)
        return queue

    assert run_virtually(work()).early.saved_seconds(until) < 1


def test_the_log_names_who_has_spent_most(caplog: pytest.LogCaptureFixture) -> None:
    """So that an operator of a journal, or of groups, knows whom to ask."""

    async def work() -> None:
        queue = Queue()
        await asyncio.gather(queue.one_by_one("orders", HOUR), queue.one_by_one("quiet", HOUR, 7))

    with caplog.at_level("WARNING", "gateway.flushes"):
        run_virtually(work())
    assert [message.partition(",")[0] for message in caplog.messages] == [
        "journal 0: what was saved for commits that begin early is spent"
    ]
    assert "most of it by 'orders'" in caplog.text


def test_what_is_remembered_of_payers_has_a_bound() -> None:
    """However many share a queue: those that have spent most are remembered."""
    shares = SavingsShares()
    shares.pay(["much"], 100, 0.0)
    for number in range(10 * PAYERS_MAX):
        shares.pay([f"topic {number}"], 0.25, 0.0)
    assert shares.largest == "much"
    assert len(shares._owed) <= PAYERS_MAX
    assert not shares.may_spend("much", 99)
    assert shares.may_spend("topic 0", 1)
    shares.pay(["other"], 1, PAYERS_MAX * 101.0)
    assert shares.may_spend("much", 0)


async def test_a_gateway_that_opens_a_topic_goes_on_from_its_last_commit() -> None:
    """A new topic has an hour's savings; one that was written to has what was earned since, at every gateway, also when it was
    deleted and made anew."""
    clock = LaterClock()
    first = make_gateway(clock=clock)
    topic = await first.topic()
    await first.append(topic, [b"x"])
    assert _saved(topic) == pytest.approx(HOUR, abs=1)
    for later, saved in ((0, 0), (600_000, 600), (10 * 3_600_000, HOUR), (-3_600_000, 0)):
        clock.ahead_ms = later
        other = make_gateway(first.store, clock=clock)
        assert _saved(await other.engine.open_topic("t")) == pytest.approx(saved, abs=2)
    clock.ahead_ms = 0
    await first.engine.administration.delete("t")
    again = await make_gateway(first.store, clock=clock).topic()
    assert _saved(again) == pytest.approx(0, abs=2)


async def test_a_table_of_groups_goes_on_from_its_last_commit() -> None:
    """A gateway that restarts has no more savings for commits of groups than one that stays."""
    store = FaultyStore()
    before = make_gateway(store)
    await before.engine.groups.table.fresh()
    await before.engine.groups.table.decide(ClaimGroup(group="g", coordinator="c"))
    after = make_gateway(store)
    await after.engine.groups.table.fresh()
    assert [_least(gateway, "groups") for gateway in (before, after)] == [
        pytest.approx(HOUR, abs=2),
        pytest.approx(0, abs=2),
    ]


async def test_a_topic_that_rests_remembers_no_senders() -> None:
    """However many wrote to it: thousands of topics are open."""
    gateway = make_gateway()
    topic = await gateway.topic(flush_ms=1, commit_mode="own")
    await asyncio.gather(*(_sent_by(gateway, topic, f"connection {number}") for number in range(50)))
    assert topic.writer.early._senders
    await asyncio.sleep(0.01)
    topic.take_counts()
    assert not topic.writer.early._senders


async def _sent_by(gateway: Gateway, topic: OpenTopic, connection: str) -> None:
    begin_call(connection)
    await gateway.append(topic, [b"x"])


def test_a_pool_that_pauses_for_a_moment_still_streams() -> None:
    """400 requests a second by a client whose loop stands still for 40 ms now and then: as many flushes as by the timer."""

    async def main() -> list[float]:
        queue, loop = Queue(), asyncio.get_running_loop()
        free: list[str] = []

        async def request(number: int) -> None:
            connection = free.pop() if free else str(number)
            await queue.commits.submit(ITEM, 1, connection).settled
            free.append(connection)

        requests: list[asyncio.Task[None]] = []
        while loop.time() < 30:
            requests.append(asyncio.create_task(request(len(requests))))
            await asyncio.sleep(0.04 if len(requests) % 60 == 0 else 0.0025)
        await asyncio.gather(*requests)
        return queue.flushes

    assert sum(10 <= began < 30 for began in run_virtually(main())) <= 1.1 * 20 / FLUSH_SECONDS


@pytest.mark.parametrize(("most", "wait"), [(0.0, FLUSH_SECONDS), (366 * DAY, 0.0)])
def test_the_most_that_is_saved_may_be_nothing_or_a_year(most: float, wait: float) -> None:
    """Nothing: each flush waits for its timer. A year: none does."""
    queue = Queue()
    queue.early = EarlyFlush(most, most, label="t")
    queue.begin()
    took = run_virtually(queue.one_by_one(None, 20))
    assert took == pytest.approx([wait + COMMIT_SECONDS] * len(took))


async def test_topics_at_a_journal_share_its_savings_by_name() -> None:
    """What one of them has spent is known by its name."""
    gateway = make_gateway()
    topic = await gateway.topic(commit_mode="shared")
    await gateway.append(topic, [b"x"])
    assert topic.savings is not None
    assert topic.savings._shares.largest == "t"


def _saved(topic: OpenTopic) -> float:
    return topic.writer.early.saved_seconds(time.monotonic())


def _least(gateway: Gateway, of: str) -> float | None:
    return gateway.registry.get_sample_value("tidelog_flush_savings_seconds", {"of": of})
