"""Topics whose own log is damaged: listed as such, repaired beside gateways, and deleted."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from gateway.engine.fetch_answer import FetchFrom
from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.repair import repair_topic
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import PROTOCOL
from log_format.errors import CorruptData, OffsetOutOfRange, UnknownTopic, UnsupportedTable
from log_format.ids import random_id
from tests.support.engine import Gateway, make_gateway, values_of

MODES = ("own", "shared")


def lose(gateway: Gateway, version: int, topic: str = "t") -> None:
    """The commit's object is gone."""
    gateway.store.objects.delete(layout.commit_key(topic, version))


def repair(gateway: Gateway, topic: str = "t") -> None:
    """As ``tidelog doctor --repair``."""
    assert repair_topic(gateway.store.objects, topic, gateway.engine.clock, random_id).version is not None


async def damaged(stack: AsyncExitStack, mode: str = "own") -> tuple[Gateway, Gateway]:
    """A topic of five records in the log's versions 1 to 5, of which the third is lost; a gateway that saw all, and another."""
    one = make_gateway()
    topic = await one.topic("t", commit_mode=mode, flush_ms=5, drain_ms=600_000)
    for number in range(5):
        await one.append(topic, [b"%d" % number])
        if mode == "shared":
            await topic.moving.drain_all()
    lose(one, 3)
    other = make_gateway(objects=one.store.objects)
    for gateway in (one, other):
        stack.push_async_callback(gateway.engine.drain)
    return one, other


@pytest.mark.parametrize("mode", MODES)
async def test_a_damaged_topic_is_listed_beside_the_others(mode: str) -> None:
    """By name and cause; a page counts it, and goes on behind it."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack, mode)
        for name in ("s", "u"):
            await one.topic(name)
        page = await other.engine.administration.page("", "", 10)
        assert [state.topic for state in page.topics] == ["s", "u"]
        assert [(found.topic, found.problem.fields["object"]) for found in page.damaged] == [
            ("t", layout.commit_key("t", 3))
        ]
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await other.engine.administration.page("", after, 1)
            found += [state.topic for state in page.topics] + [topic.topic for topic in page.damaged]
            after = page.next_after
        assert found == ["s", "t", "u"]


@pytest.mark.parametrize("mode", MODES)
async def test_gateways_go_on_behind_a_repair(mode: str) -> None:
    """The one that had read the lost commit, and one that could not open the topic, read and append alike; nothing else is lost,
    neither what only the journal has."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack, mode)
        with pytest.raises(CorruptData):
            await other.fetch()
        await one.append(await one.engine.open_topic("t"), [b"5"])
        repair(one)
        for number, gateway in enumerate((one, other)):
            gateway.forget_tail()
            assert values_of(await gateway.fetch(0))[:2] == [b"0", b"1"]
            (place,) = await gateway.append(await gateway.engine.open_topic("t"), [b"%d" % (6 + number)])
            assert place.base_offset == 6 + number
        expected = [b"%d" % number for number in (0, 1, 3, 4, 5, 6, 7)]
        late = make_gateway(objects=one.store.objects)
        stack.push_async_callback(late.engine.drain)
        for gateway in (one, other, late):
            gateway.forget_tail()
            found, offset = [], 0
            while offset < 8:
                fetched = await gateway.fetch(offset)
                found += values_of(fetched)
                offset = fetched.records.next_offset
            assert found == expected
        if mode == "shared":
            topic = await late.engine.open_topic("t")
            await topic.moving.drain_all()
            assert topic.log.state.next_offsets.tolist() == [8]


async def test_what_a_journal_has_forgotten_stays_lost() -> None:
    """The newest drain's commit is damaged, and the journal has let its records go: offsets go on behind them."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack, "shared")
        last = (await one.engine.open_topic("t")).log.state.version
        one.store.objects.put(layout.commit_key("t", last), b"{")
        await one.append(await one.engine.open_topic("t"), [b"5"])
        repair(one)
        for gateway in (other, one):
            assert values_of(await gateway.fetch(3))[:2] == [b"3", b"5"]
            (place,) = await gateway.append(await gateway.engine.open_topic("t"), [b"x"])
            assert place.base_offset >= 6
            gateway.forget_tail()
            assert values_of(await gateway.fetch(4))[0] == b"5"


async def test_a_consumer_in_the_gap_is_taken_behind_it() -> None:
    """It waits for nothing that will never come, also at the end of what is left."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack)
        lose(one, 5)
        lose(one, 4)
        put = one.store.objects.put_if_absent
        put(layout.commit_key("t", 6), b"{")
        repair(one)
        fetched = await other.fetch(2)
        assert (values_of(fetched), fetched.records.next_offset) == ([], fetched.high_watermark)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("has_checkpoint", [False, True])
async def test_a_damaged_topic_is_deleted(mode: str, *, has_checkpoint: bool) -> None:
    """By a gateway that can't open it; the name can be used at once, and shares nothing with what was there."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack, mode)
        if has_checkpoint:
            one.store.objects.put(layout.checkpoint_key("t", 2), b"PAR1 is no Parquet PAR1")
        if mode == "shared":
            await one.append(await one.engine.open_topic("t"), [b"only in the journal"])
        await other.engine.administration.delete("t")
        for gateway in (one, other):
            with pytest.raises(UnknownTopic):
                await gateway.fetch()
            assert not (await gateway.engine.administration.page("", "", 10)).damaged
        with pytest.raises(UnknownTopic):
            await one.append(await one.engine.open_topic("t"), [b"x"])
        topic = await other.topic("t", commit_mode=mode, flush_ms=5)
        await other.append(topic, [b"new"])
        for gateway in (one, other):
            assert values_of(await gateway.fetch()) == [b"new"]
            with pytest.raises(OffsetOutOfRange):
                await gateway.fetch(2)


async def test_a_topic_of_which_nothing_is_left_is_deleted() -> None:
    """There is nothing to commit a deletion to; it is no error."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack)
        for version in range(6):
            one.store.objects.put(layout.commit_key("t", version), b"\0")
        await other.engine.administration.delete("t")
        assert not (await other.engine.administration.page("", "", 10)).damaged
        assert not TopicLog(one.store, "t", one.engine.clock).refresh().exists


async def test_what_a_later_release_wrote_is_neither_repaired_nor_deleted() -> None:
    """It is no damage: that release is to delete it. It is listed, with the cause."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack)
        later = b'{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["tidelog","later"]}'
        assert PROTOCOL.writer_features == ["tidelog"]
        info = b'{"commitInfo":{"engineInfo":"tidelog/99"}}\n'
        one.store.objects.put(layout.commit_key("t", 3), info + b'{"protocol":' + later + b"}")
        with pytest.raises(UnsupportedTable):
            await other.engine.administration.delete("t")
        page = await other.engine.administration.page("", "", 10)
        assert [found.problem.code for found in page.damaged] == ["UNSUPPORTED_TABLE"]


async def test_fetches_that_wait_see_a_repair() -> None:
    """A long poll at a gateway whose topic is repaired meanwhile goes on."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack)
        wanted = [FetchFrom(topic="t", partition=0, offset=5)]
        waiting = asyncio.create_task(one.fetch_all(wanted, wait_ms=20_000))
        await asyncio.sleep(0.05)
        repair(one)
        await other.append(await other.engine.open_topic("t"), [b"5"])
        answer = await waiting
        (part,) = answer.parts
        answer.reservation.release()
        assert values_of(part) == [b"5"]  # type: ignore[arg-type]


async def test_a_checkpoint_behind_a_repair_is_as_any_other() -> None:
    """What was repaired is loaded from it, and from the next one."""
    async with AsyncExitStack() as stack:
        one, other = await damaged(stack)
        repair(one)
        topic = await other.engine.open_topic("t")
        await other.append(topic, [b"5"])
        write_checkpoint(one.store.objects, "t", topic.log.state.version, 0)
        late = make_gateway(objects=one.store.objects)
        stack.push_async_callback(late.engine.drain)
        assert values_of(await late.fetch(2)) == [b"3", b"4", b"5"]
