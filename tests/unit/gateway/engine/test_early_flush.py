"""When flushes begin early, on a virtual clock: who waits for an answer gets it, who streams is gathered, savings bound it."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import Awaitable, Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gateway.engine.early_flush import QUIET_SECONDS_MIN, EarlyFlush
from gateway.engine.group_commit import EntryQueue, Group, GroupCommit, Pending
from gateway.engine.savings_watch import WARNING_REPEAT_SECONDS, SavingsWatch
from gateway.engine.writer import FlushSchedule
from tests.support.virtual_loop import run_virtually

FLUSH_MS = 250
COMMIT_SECONDS = 0.01
HOUR = 3_600.0
DAY = 24 * HOUR
ITEM = SimpleNamespace(topic_id="t", is_publication=False)


class Topic:
    """A topic's queue, with a commit that takes so long. ``flushes``: when each began, and its batches."""

    def __init__(self, *, saved: float = HOUR, commit_seconds: float = COMMIT_SECONDS, requests: int = 10_000) -> None:
        settings = {"flush.ms": FLUSH_MS, "flush.bytes": 1 << 30, "owners": 1}
        state = SimpleNamespace(exists=True, topic_id="t", config=SimpleNamespace(integer=settings.__getitem__))
        self.early = EarlyFlush(saved, DAY, label="topic 't'")
        self.registry = CollectorRegistry()
        watch = SavingsWatch(self.registry)
        watch.register("topics", self.early)
        self.flushes: list[tuple[float, int]] = []
        self._ahead: list[Any] = []
        self._commit_seconds = commit_seconds
        log: Any = SimpleNamespace(state=state)
        self.commits: GroupCommit[Any, None] = GroupCommit(
            self._commit,
            schedule=FlushSchedule(log, self._ahead, requests=requests, early=self.early, watch=watch),
            label="t",
            waiting_max=100_000,
        )

    async def send(self, sender: str | None) -> float:
        """Have a batch committed; how many seconds that took."""
        loop = asyncio.get_running_loop()
        pending: Pending[Any, None] = Pending(ITEM, 1, loop.create_future())
        pending.sender = sender
        began = loop.time()
        self.commits.enqueue(pending)
        await pending.settled
        return loop.time() - began

    def told(self, reason: str) -> float | None:
        """How many flushes the metrics count for a reason."""
        return self.registry.get_sample_value("tidelog_flushes_total", {"reason": reason})

    async def _commit(self, group: Group[Any, None]) -> None:
        self.flushes.append((asyncio.get_running_loop().time(), len(group.pending)))
        self._ahead.append(group)
        group.allow_next()
        try:
            await group.wait_for_earlier()
            await asyncio.sleep(self._commit_seconds)
        finally:
            self._ahead.remove(group)
            self.early.on_ended(self.commits.waiting, group.pending, asyncio.get_running_loop().time())
        group.settle([None] * len(group.pending))

    def per_second(self, since: float, until: float) -> float:
        """Flushes that began in that time."""
        return sum(since <= began < until for began, _ in self.flushes) / (until - since)


async def one_by_one(topic: Topic, sender: str, until: float, think: Callable[[], float]) -> list[float]:
    """What each answer took a sender that waits for it, and then thinks."""
    took = []
    while asyncio.get_running_loop().time() < until:
        took.append(await topic.send(sender))
        await asyncio.sleep(think())
    return took


async def stream(topic: Topic, senders: int, per_second: float, until: float, seed: int = 1) -> list[float]:
    """What answers took of batches that come by chance, from one of so many senders each."""
    chance, loop = random.Random(seed), asyncio.get_running_loop()
    sent = []
    while loop.time() < until:
        await asyncio.sleep(chance.expovariate(per_second))
        sent.append(asyncio.ensure_future(topic.send(f"s{chance.randrange(senders)}")))
    return list(await asyncio.gather(*sent))


def ran(work: Callable[[Topic], Awaitable[Any]], **topic: Any) -> tuple[Topic, Any]:
    made = None

    async def run() -> Any:
        nonlocal made
        made = Topic(**topic)
        return await work(made)

    found = run_virtually(run())
    assert made is not None
    return made, found


def test_a_lone_sender_waits_for_its_commit_alone() -> None:
    """One that sends when it has the answer, at once or after a while."""
    for think in (0.0, 0.001, 0.3, 7.0):
        topic, took = ran(lambda topic, think=think: one_by_one(topic, "a", 100 * think + 5, lambda: think))  # type: ignore[misc]
        assert max(took) < 1.01 * COMMIT_SECONDS
        assert len(topic.flushes) == len(took)


@pytest.mark.parametrize("count", [2, 7, 100])
def test_senders_that_wait_share_a_flush(count: int) -> None:
    """Once all have sent; nobody waits for a timer."""

    async def work(topic: Topic) -> list[list[float]]:
        chance = random.Random(count)
        return await asyncio.gather(
            *(one_by_one(topic, f"s{number}", 5, lambda: chance.uniform(0, 0.002)) for number in range(count))
        )

    topic, took = ran(work)
    assert median(second for each in took for second in each) < 2.5 * COMMIT_SECONDS
    assert max(second for each in took for second in each) < FLUSH_MS / 1000 / 2
    assert topic.per_second(1, 5) < 1 / COMMIT_SECONDS


def test_a_sender_that_is_gone_is_not_waited_for() -> None:
    """Those that stay wait for it until it has been quiet for a little, for ``flush.ms`` after it was heard of."""

    async def work(topic: Topic) -> tuple[list[float], list[float]]:
        return await asyncio.gather(one_by_one(topic, "a", 3, lambda: 0.001), one_by_one(topic, "b", 1, lambda: 0.001))

    _, (stays, _) = ran(work)
    assert max(stays) < FLUSH_MS / 1000 / 2
    assert stays[-20:] == pytest.approx([COMMIT_SECONDS] * 20)


def test_a_busy_sender_hardly_notices_a_rare_one() -> None:
    """Each loses little by the other."""

    async def work(topic: Topic) -> tuple[list[float], list[float]]:
        chance = random.Random(3)
        return await asyncio.gather(
            one_by_one(topic, "busy", 60, lambda: 0.001),
            one_by_one(topic, "rare", 60, lambda: chance.uniform(0.5, 1.5)),
        )

    _, (busy, rare) = ran(work)
    assert median(busy) == pytest.approx(COMMIT_SECONDS)
    assert max(busy) < FLUSH_MS / 1000 / 2
    assert sum(busy) / len(busy) < 2 * COMMIT_SECONDS
    assert median(rare) < 3 * COMMIT_SECONDS


def window_of(count: int, until: float, think: float = 0.0) -> Callable[[Topic], Awaitable[list[float]]]:
    """A connection with so many requests under way: as each is answered the next one is sent, ``think`` later."""

    async def work(topic: Topic) -> list[float]:
        took = await asyncio.gather(*(one_by_one(topic, "one", until, lambda: think) for _ in range(count)))
        return [second for each in took for second in each]

    return work


@pytest.mark.parametrize("count", [1, 5])
def test_a_full_window_begins_a_flush(count: int) -> None:
    """Kafka's clients have five requests under way, Connect has one."""
    topic, took = ran(window_of(count, 10))
    assert median(took) < 1.1 * COMMIT_SECONDS
    assert topic.flushes[-1][1] == count


@pytest.mark.parametrize(("per_second", "more"), [(200, 1.4), (1_000, 1.1)])
@pytest.mark.parametrize("senders", [1, 3, 900])
def test_senders_that_stream_are_gathered(per_second: float, more: float, senders: int) -> None:
    """However many they are: hardly more flushes than by the timer, behind the first moments."""
    topic, took = ran(lambda topic: stream(topic, senders, per_second, 16))
    assert topic.per_second(4, 16) < more * 1_000 / FLUSH_MS
    assert max(took) < FLUSH_MS / 1000 + 3 * COMMIT_SECONDS


def test_the_last_batches_of_a_stream_do_not_wait_for_the_timer() -> None:
    """A producer that streamed and then waits for the rest."""

    async def work(topic: Topic) -> float:
        await stream(topic, 1, 1_000, 5)
        return await topic.send("s0")

    _, took = ran(work)
    assert took < COMMIT_SECONDS + 2 * QUIET_SECONDS_MIN


@pytest.mark.parametrize("saved", [0.0, 600.0])
def test_what_is_spent_was_saved(saved: float) -> None:
    """In the long run there is a flush each ``flush.ms``, whoever waits; what was saved comes on top, once."""
    seconds = 1_200.0
    topic, took = ran(lambda topic: one_by_one(topic, "a", seconds, lambda: 0.0), saved=saved, commit_seconds=0.05)
    assert len(topic.flushes) <= (seconds + saved) / (FLUSH_MS / 1000) + 1
    assert took[-1] > FLUSH_MS / 1000
    assert topic.early.saved_seconds(seconds) < 1


def test_a_day_of_the_worst_load_costs_a_day_of_timers() -> None:
    """A sender that waits, with commits that take no time at all, against a topic that saved as much as it may."""
    hours = 0.25

    def account(saved: float) -> int:
        topic, _ = ran(
            lambda topic: one_by_one(topic, "a", hours * HOUR, lambda: 0.0), saved=saved, commit_seconds=0.02
        )
        return len(topic.flushes)

    by_timer = hours * HOUR * 1_000 / FLUSH_MS
    assert account(0.0) <= by_timer
    assert account(600.0) <= by_timer + 600 * 1_000 / FLUSH_MS


def test_savings_end_at_a_day() -> None:
    """However long nothing came."""
    early = EarlyFlush(HOUR, DAY, label="")
    early.on_taken(GroupCommit(Any, schedule=Any, label="", waiting_max=1).waiting, 0, 0.0, 0.25)  # type: ignore[arg-type]
    assert early.saved_seconds(10 * HOUR) == pytest.approx(11 * HOUR, abs=1)
    assert early.saved_seconds(100 * DAY) == DAY
    assert EarlyFlush(2 * DAY, DAY, label="").saved_seconds(0) == DAY


def test_batches_without_a_sender_wait_for_the_timer() -> None:
    """Nobody waits for an answer: the audit, the publisher of delayed records."""

    async def work(topic: Topic) -> float:
        return await topic.send(None)

    _, took = ran(work)
    assert took == pytest.approx(FLUSH_MS / 1000 + COMMIT_SECONDS)


def test_a_batch_that_is_taken_back_holds_nobody_up() -> None:
    """Its sender is not taken for one that waits, nor for one of whom more is expected."""

    async def work(topic: Topic) -> float:
        loop = asyncio.get_running_loop()
        pending: Pending[Any, None] = Pending(ITEM, 1, loop.create_future())
        pending.sender = "gone"
        topic.commits.enqueue(pending)
        assert topic.commits.withdraw(pending)
        await asyncio.sleep(1)
        return await topic.send("a")

    _, took = ran(work)
    assert took == pytest.approx(COMMIT_SECONDS)


def test_flushes_are_counted_by_why_they_began() -> None:
    """Each once: early ones, whose senders wait or are silent, those of the timer, and those that are full."""

    async def work(topic: Topic) -> None:
        await topic.send("a")
        await asyncio.gather(*(topic.send("b") for _ in range(3)))  # the first answer's sender is gone
        await asyncio.sleep(1)
        await topic.send(None)
        await asyncio.gather(*(topic.send("c") for _ in range(5)))

    topic, _ = ran(work, requests=5)
    assert [count for _, count in topic.flushes] == [1, 3, 1, 5]
    counts = {reason: topic.told(reason) for reason in ("senders_wait", "quiet", "timer", "size", "drain")}
    assert counts == {"senders_wait": 1, "quiet": 1, "timer": 1, "size": 1, "drain": None}


@pytest.mark.parametrize(("saved", "hours", "times"), [(20.0, 2.1, 3), (HOUR, 0.1, 0)])
def test_who_has_spent_the_savings_is_told_once_an_hour(
    saved: float, hours: float, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With what it means and what to do; nobody else is."""
    with caplog.at_level("WARNING", "gateway.flushes"):
        topic, _ = ran(
            lambda topic: one_by_one(topic, "a", hours * WARNING_REPEAT_SECONDS, lambda: 0.0),
            saved=saved,
            commit_seconds=0.1,
        )
    assert len(caplog.messages) == times
    assert topic.early.is_spent(hours * WARNING_REPEAT_SECONDS) is bool(times)
    for said in caplog.messages:
        assert said.startswith("topic 't': what was saved for commits that begin early is spent")
        assert "acknowledgements wait up to 250 ms again" in said
        assert "set a lower flush.ms" in said


def test_who_streams_is_not_told_of_savings(caplog: pytest.LogCaptureFixture) -> None:
    """Its flushes wait for the timer because more is on the way, whatever is saved."""
    with caplog.at_level("WARNING", "gateway.flushes"):
        ran(lambda topic: stream(topic, 3, 200, 20), saved=0.0)
    assert len(caplog.messages) <= 1  # before it is known as a stream


def test_metrics_tell_of_the_queue_with_least_savings() -> None:
    """And how many have none: by kind, whatever the number of topics."""
    began = time.monotonic()
    registry = CollectorRegistry()
    watch = SavingsWatch(registry)
    queues = [EarlyFlush(saved, DAY, label="") for saved in (100.0, 0.0, HOUR)]
    for queue in queues:
        watch.register("topics", queue)
        queue.on_taken(EntryQueue(), 0, time.monotonic(), 30.0)

    def sample(name: str, of: str) -> float:
        value = registry.get_sample_value(f"tidelog_flush_savings_{name}", {"of": of})
        assert value is not None
        return value

    assert 0 <= sample("seconds", "topics") <= time.monotonic() - began
    assert sample("spent", "topics") == 1
    assert sample("spent", "journals") == 0
    del queues[1], queue
    gc.collect()
    assert 70 <= sample("seconds", "topics") <= 70 + time.monotonic() - began
    assert sample("spent", "topics") == 0


@pytest.mark.parametrize("commit_seconds", [0.01, 0.085])
@pytest.mark.parametrize("senders", [1, 10])
def test_senders_do_not_split_into_two_that_alternate(senders: int, commit_seconds: float) -> None:
    """Ten senders, or one with five under way, are in one flush, however long a commit takes: who has just been answered is
    given time to send again."""

    async def main() -> list[int]:
        topic = Topic(commit_seconds=commit_seconds)
        until = asyncio.get_running_loop().time() + 5

        async def one(number: int) -> None:
            await asyncio.sleep(0.003 * number)
            await one_by_one(topic, str(number % senders), until, lambda: 0.002 + 0.0003 * number)

        await asyncio.gather(*(one(number) for number in range(max(5, senders))))
        return [count for began, count in topic.flushes if until - 3 < began < until]

    counts = run_virtually(main())
    assert set(counts) == {max(5, senders)}
    assert len(counts) > 0.7 * 3 / (commit_seconds + 0.006)


@pytest.mark.parametrize("commit_seconds", [0.005, 0.02, 0.05])
@pytest.mark.parametrize("newest_first", [True, False])
def test_a_pool_of_connections_streams(commit_seconds: float, newest_first: bool) -> None:
    """A thousand requests a second by connections that are used again as they come free: as many flushes as by the timer, however
    short a commit is beside the time in which they gather."""

    async def main() -> float:
        topic = Topic(commit_seconds=commit_seconds)
        loop = asyncio.get_running_loop()
        began = loop.time()
        free: list[str] = []

        async def request(number: int) -> None:
            connection = free.pop(-1 if newest_first else 0) if free else str(number)
            await topic.send(connection)
            free.append(connection)

        requests: list[asyncio.Task[None]] = []
        while loop.time() < began + 30:
            requests.append(asyncio.create_task(request(len(requests))))
            await asyncio.sleep(0.001)
        await asyncio.gather(*requests)
        return topic.per_second(began + 10, began + 30)

    assert run_virtually(main()) <= 1.1 * 1000 / FLUSH_MS


def test_a_loop_that_was_busy_has_heard_no_silence() -> None:
    """It looks late, and has not read what came meanwhile: silence counts from then."""
    early = EarlyFlush(HOUR, DAY, label="")
    waiting: EntryQueue[Any] = EntryQueue()
    for sender in ("a", "b"):
        entry: Pending[Any, None] = Pending(ITEM, 1, None)  # type: ignore[arg-type]
        entry.sender, entry.arrived = sender, 0.0
        waiting.append(entry)
    early.on_taken(waiting, 1, 0.0, 0.25)
    early.on_ended(waiting, waiting.take(1), 0.01)  # "a" is answered, and expected again

    def due(now: float) -> float:
        return early.due(waiting, now, flush_seconds=0.25, is_under_way=False)

    quiet_at = 0.01 + QUIET_SECONDS_MIN
    assert due(0.01) == due(quiet_at) == pytest.approx(quiet_at)
    late = quiet_at + 0.03
    assert due(late) == pytest.approx(late + QUIET_SECONDS_MIN)
