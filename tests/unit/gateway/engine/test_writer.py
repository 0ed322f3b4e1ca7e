"""The writer: when requests are acknowledged, what shares a flush, what a failure costs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.open_topic import OpenTopic
from gateway.memory_budget import MemoryBudget
from log_format.clock import SystemClock
from log_format.errors import BackOff, OutcomeUnknown, StoreUnavailable, TopicReplaced, UnknownTopic
from log_format.topic.append_outcome import AppendedRange
from tests.support.engine import Gateway, batch_of, make_gateway, values_of
from tests.support.faulty_store import Gate
from tests.support.waiting import turns_up


async def test_nothing_is_acknowledged_before_its_commit_stands(gateway: Gateway) -> None:
    """G1: while the commit is on its way the batch waits; when it stands the batch has its offsets."""
    topic = await gateway.topic(flush_ms=0)
    with Gate(gateway.store, "put_if_absent") as gate:
        pending = gateway.submit(topic, [b"a", b"b"])
        await gate.wait_until_reached()
        assert not pending.settled.done()
        gate.open()
        assert await topic.appending.await_acknowledgement(pending) == (AppendedRange(0, 0, 2),)
    assert topic.state.high_watermark(0) == 2


async def test_requests_share_flushes_and_keep_their_order(gateway: Gateway) -> None:
    """Group commit: what arrives while a flush is under way goes out together, in the order of arrival (G2)."""
    topic = await gateway.topic(flush_ms=0)
    with Gate(gateway.store, "put_if_absent") as gate:
        first = gateway.submit(topic, [b"first"])
        await gate.wait_until_reached()
        later = [gateway.submit(topic, [b"%d" % number]) for number in range(50)]
        await asyncio.sleep(0.05)
        gate.open()
        await asyncio.wait([first.settled, *(pending.settled for pending in later)])
    assert [pending.settled.result() for pending in later] == [(AppendedRange(0, 1 + n, 1),) for n in range(50)]
    assert topic.state.version <= 3, "51 batches took more than three commits"


async def test_a_flush_goes_out_when_its_bytes_are_there(gateway: Gateway) -> None:
    """``flush.bytes`` ends the wait that ``flush.ms`` began."""
    topic = await gateway.topic(flush_ms=60_000, flush_bytes=10_000)
    first = gateway.submit(topic, [b"x" * 6_000])
    await asyncio.sleep(0.05)
    assert not first.settled.done()
    await gateway.append(topic, [b"x" * 6_000])
    assert first.settled.done()
    assert topic.state.version == 1


async def test_a_flush_goes_out_when_enough_requests_wait() -> None:
    """``flush_requests`` ends the wait that ``flush.ms`` began: senders that wait for it send nothing more."""
    gateway = make_gateway(flush_requests=3)
    topic = await gateway.topic(flush_ms=60_000)
    pending = [gateway.submit(topic, [b"%d" % number]) for number in range(2)]
    await asyncio.sleep(0.05)
    assert not any(one.settled.done() for one in pending)
    await gateway.append(topic, [b"2"])
    assert [one.settled.result() for one in pending] == [(AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),)]
    assert topic.state.version == 1
    await gateway.engine.drain()


async def test_the_next_segment_is_uploaded_while_a_commit_is_under_way(gateway: Gateway) -> None:
    """Pipelining: flush N+1 is encoded and put for the offsets that it will get, and commits without being put again."""
    topic = await gateway.topic(flush_ms=0, partition_count=3)
    with Gate(gateway.store, "put_if_absent") as gate:
        first = gateway.submit(topic, [b"a", b"b", b"c"], [0, 1, 1])
        await gate.wait_until_reached()
        second = gateway.submit(topic, [b"d", b"e"], [1, 2])
        await turns_up(lambda: gateway.store.calls["put"] == 2, what="the second segment waits for the first commit")
        assert not first.settled.done()
        gate.open()
        await asyncio.wait([second.settled])
    assert second.settled.result() == (AppendedRange(1, 2, 1), AppendedRange(2, 0, 1))
    assert gateway.store.calls["put"] == 2, "the prediction was right, yet a segment was encoded anew"


async def test_two_gateways_on_one_topic_give_each_offset_once() -> None:
    """G3: both commit at once to one topic; offsets are dense and each acknowledged record is at its own."""
    one = make_gateway()
    other = make_gateway(objects=one.store.objects)
    topics = [await one.topic(flush_ms=0), await other.topic(flush_ms=0)]
    places: dict[int, bytes] = {}

    async def produce(gateway: Gateway, topic: OpenTopic, name: bytes) -> None:
        for number in range(20):
            values = [b"%s-%d-%d" % (name, number, index) for index in range(3)]
            (place,) = await gateway.append(topic, values)
            for index, value in enumerate(values):
                assert place.base_offset + index not in places
                places[place.base_offset + index] = value

    pairs = list(zip((one, other), topics, strict=True))
    await asyncio.gather(*(produce(*pairs[number % 2], b"%d" % number) for number in range(4)))
    assert sorted(places) == list(range(240))
    for gateway in (one, other):
        assert values_of(await gateway.fetch(0, records=1000)) == [places[offset] for offset in range(240)]
        await gateway.engine.drain()


async def test_a_batch_for_a_topic_that_was_replaced_is_refused_alone() -> None:
    """G3: what was routed for the old incarnation never enters the new one, and does not hold up what was routed for it."""
    gateway, other = make_gateway(), None
    topic = await gateway.topic(flush_ms=0)
    stale = batch_of(topic, [b"old"])
    other = make_gateway(objects=gateway.store.objects)
    await other.engine.administration.delete("t")
    await other.topic(flush_ms=0)
    pending = topic.submit(stale, None)
    with pytest.raises(TopicReplaced):
        await topic.appending.await_acknowledgement(pending)
    assert await gateway.append(topic, [b"new"]) == (AppendedRange(0, 0, 1),)
    assert values_of(await gateway.fetch()) == [b"new"]
    await gateway.engine.drain()


async def test_a_store_that_is_down_refuses_and_then_everything_goes_on(gateway: Gateway) -> None:
    """G8: nothing of a refused batch appears, its memory is free again, and no restart is needed afterwards."""
    topic = await gateway.topic(flush_ms=0)
    memory = MemoryBudget(1000, "bodies")
    gateway.store.go_down()
    pending = topic.submit(batch_of(topic, [b"lost"]), memory.reserve(100))
    with pytest.raises(BackOff):
        await topic.appending.await_acknowledgement(pending)
    assert memory.used_bytes == 0
    gateway.store.come_back()
    assert await gateway.append(topic, [b"kept"]) == (AppendedRange(0, 0, 1),)
    assert values_of(await gateway.fetch()) == [b"kept"]


async def test_after_an_unknown_outcome_the_log_decides(gateway: Gateway) -> None:
    """A commit whose answer was lost may stand: the batch is told so, and the next one builds on what the log says."""
    topic = await gateway.topic(flush_ms=0)

    def lose(operation: str, key: str) -> None:
        if operation in {"put_if_absent", "get"} and key.endswith("1.json"):
            raise StoreUnavailable(key, "no answer", may_have_happened=True)

    gateway.store.after = lose
    gateway.store.before = lambda operation, key: lose(operation, key) if operation == "get" else None
    with pytest.raises(OutcomeUnknown):
        await gateway.append(topic, [b"perhaps"])
    gateway.store.come_back()
    assert await gateway.append(topic, [b"sure"]) == (AppendedRange(0, 1, 1),)
    assert values_of(await gateway.fetch()) == [b"perhaps", b"sure"]


async def test_who_waits_too_long_is_withdrawn_and_never_written() -> None:
    """A request refused because the store hangs was not written, also when the store comes back right after (G8).

    Its memory is free again at once.
    """
    gateway = make_gateway(produce_wait_ms_max=50)
    memory = MemoryBudget(1000, "bodies")
    topic = await gateway.topic(flush_ms=0)
    with Gate(gateway.store, "put_if_absent") as gate:
        first = gateway.submit(topic, [b"first"])
        await gate.wait_until_reached()
        staged = gateway.submit(topic, [b"staged"])
        await turns_up(lambda: gateway.store.calls["put"] == 2)
        waiting = topic.submit(batch_of(topic, [b"withdrawn"]), memory.reserve(100))
        with pytest.raises(BackOff):
            await topic.appending.await_acknowledgement(waiting)
        assert memory.used_bytes == 0
        gate.open()
        await asyncio.wait([first.settled, staged.settled])
    await gateway.append(topic, [b"last"])
    assert values_of(await gateway.fetch()) == [b"first", b"staged", b"last"]
    await gateway.engine.drain()


async def test_draining_flushes_at_once_and_acknowledges(gateway: Gateway) -> None:
    """SIGTERM: what is buffered is written and acknowledged though ``flush.ms`` has not passed; new batches are refused."""
    topic = await gateway.topic(flush_ms=60_000)
    pending = [gateway.submit(topic, [b"%d" % number]) for number in range(10)]
    await gateway.engine.drain()
    assert [one.settled.result() for one in pending] == [(AppendedRange(0, number, 1),) for number in range(10)]
    with pytest.raises(BackOff):
        gateway.submit(topic, [b"late"])


async def test_topics_flush_independently(gateway: Gateway) -> None:
    """A topic whose store calls hang does not hold up another one."""
    slow, fast = await gateway.topic("slow", flush_ms=0), await gateway.topic("fast", flush_ms=0)
    with Gate(gateway.store, "put_if_absent", suffix="slow/_delta_log/00000000000000000001.json") as gate:
        held = gateway.submit(slow, [b"x"])
        await gate.wait_until_reached()
        for number in range(5):
            assert await gateway.append(fast, [b"x"]) == (AppendedRange(0, number, 1),)
        assert not held.settled.done()
        gate.open()
        await asyncio.wait([held.settled])


async def test_a_changed_setting_reaches_what_waits(gateway: Gateway) -> None:
    """A batch that would wait an hour is flushed when ``flush.ms`` becomes short, and refused when the topic goes."""
    topic = await gateway.topic(flush_ms=3_600_000)
    first = gateway.submit(topic, [b"a"])
    await asyncio.sleep(0.02)
    await gateway.engine.administration.alter("t", None, {"flush.ms": 1})
    assert await topic.appending.await_acknowledgement(first) == (AppendedRange(0, 0, 1),)
    await gateway.engine.administration.alter("t", None, {"flush.ms": 3_600_000})
    second = gateway.submit(topic, [b"b"])
    await asyncio.sleep(0.02)
    await gateway.engine.administration.delete("t")
    with pytest.raises(UnknownTopic):
        await topic.appending.await_acknowledgement(second)


async def test_who_loses_commits_in_a_row_says_so() -> None:
    """At the 2nd and 4th loss in a row, not at each; a commit won ends the row, and ``owners`` above 1 expects to lose."""
    ownership = Ownership("a", Peers(SystemClock()), "preferred")
    loser = make_gateway(ownership=ownership)
    winner = make_gateway(objects=loser.store.objects)

    async def told(name: str, times: int) -> list[bool]:
        each = []
        for _ in range(times):
            await winner.append(await winner.engine.open_topic(name), [b"theirs"])
            await loser.append(await loser.engine.open_topic(name), [b"ours"])
            each.append(ownership.contended.is_set())
            ownership.contended.clear()
        return each

    topic = await loser.topic(flush_ms=0)
    assert await told("t", 1) == [False]
    await loser.append(topic, [b"won"])
    assert await told("t", 5) == [False, True, False, True, False]
    await loser.topic("shared", flush_ms=0, owners=2)
    assert await told("shared", 5) == [False] * 5
    for gateway in (loser, winner):
        await gateway.engine.drain()


async def test_a_batch_that_comes_as_a_run_ends_is_not_forgotten(gateway: Gateway) -> None:
    """The writer's task returns, and its callbacks are called a turn of the loop later: a flush begins in between."""
    topic = await gateway.topic(flush_ms=0)
    loop = asyncio.get_running_loop()
    late: list[Any] = []

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> Any:
        task = asyncio.Task(coroutine, loop=loop, **more)
        if coroutine.__qualname__ == "GroupCommit._run_group" and not late:
            loop.call_soon(lambda: late.append(gateway.submit(topic, [b"late"])))
        return task

    loop.set_task_factory(make)
    await gateway.append(topic, [b"first"])
    assert await asyncio.wait_for(late[0].settled, timeout=5) == (AppendedRange(0, 1, 1),)
