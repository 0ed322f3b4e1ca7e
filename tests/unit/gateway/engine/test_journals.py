"""Topics at a journal, in a gateway: produced, read, changed, drained, moved; by one gateway and by two."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_topic import OpenTopic
from gateway.engine.waiters import Wakeup
from log_format.errors import BackOff, OffsetOutOfRange, RequestRefused, UnknownTopic
from log_format.journal.entries import Close
from log_format.limits import JOURNAL_ATTACH_BYTES_MAX
from log_format.stores.memory import MemoryStore
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.producers import Producer, Producers
from tests.support.clocks import ManualClock
from tests.support.engine import Gateway, make_gateway, values_of

SHARED: dict[str, Any] = {"commit_mode": "shared", "flush_ms": 5}


def own_offsets(topic: OpenTopic) -> list[int]:
    """What the topic's own table has."""
    offsets: list[int] = topic.log.state.next_offsets.tolist()
    return offsets


def commits(gateway: Gateway, prefix: str) -> int:
    return sum(info.key.endswith(".json") for info in gateway.store.list(f"{prefix}_delta_log/"))


async def test_many_topics_share_a_flush() -> None:
    """Twenty topics cost one or two commits of the journal, and none of their own."""
    gateway = make_gateway()
    topics = [await gateway.topic(f"t{number}", 2, **SHARED) for number in range(20)]
    for turn in range(3):
        before = commits(gateway, "system/journals/0/")
        places = await asyncio.gather(*(gateway.append(topic, [b"a", b"b"], turn % 2) for topic in topics))
        assert places == [(AppendedRange(turn % 2, turn // 2 * 2, 2),)] * 20
        assert commits(gateway, "system/journals/0/") - before <= 2
    for number, topic in enumerate(topics):
        assert own_offsets(topic) == [0, 0]
        assert commits(gateway, f"topics/t{number}/") == 1
        assert values_of(await gateway.fetch(topic=f"t{number}")) == [b"a", b"b"] * 2
    gateway.forget_tail()
    assert values_of(await gateway.fetch(topic="t7", offset=1)) == [b"b", b"a", b"b"]


async def test_requests_to_many_topics_end_the_wait_of_their_journal_together() -> None:
    """``flush_requests`` counts those of all topics at the journal."""
    gateway = make_gateway(flush_requests=3)
    topics = [await gateway.topic(f"t{number}", commit_mode="shared", flush_ms=60_000) for number in range(3)]
    pending = [gateway.submit(topic, [b"a"]) for topic in topics[:2]]
    await asyncio.sleep(0.05)
    assert not any(one.settled.done() for one in pending)
    before = commits(gateway, "system/journals/0/")
    await gateway.append(topics[2], [b"a"])
    assert all(one.settled.done() for one in pending)
    assert commits(gateway, "system/journals/0/") - before == 1
    await gateway.engine.drain()


async def test_readers_that_wait_at_quiet_topics_cost_looks_at_the_journal_alone() -> None:
    """Also before the first record: the journal is told that the topics are there."""
    gateway = make_gateway(log_poll_ms=10, journal_poll_ms=10)
    topics = [await gateway.topic(f"t{number}", **SHARED) for number in range(20)]
    with ExitStack() as stack:
        for topic in topics:
            stack.enter_context(topic.waiters.register((0,), Wakeup()))
            topic.poll_while_awaited()
        await asyncio.sleep(0.2)
        await gateway.engine.journal_upkeep.run_once()
        await asyncio.sleep(0.2)
        before = [topic.log.observed_ms for topic in topics]
        await asyncio.sleep(0.2)
        assert [topic.log.observed_ms for topic in topics] == before
    assert await gateway.append(topics[0], [b"v"]) == (AppendedRange(0, 0, 1),)


async def test_another_gateway_sees_what_was_acknowledged_before_it_looked() -> None:
    """G4, for a topic at a journal; and both append to it."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    for number in range(3):
        await one.append(topic, [b"%d" % number])
        assert values_of(await other.fetch(offset=number)) == [b"%d" % number]
    theirs = await other.engine.open_topic("t")
    assert await other.append(theirs, [b"3"]) == (AppendedRange(0, 3, 1),)
    assert values_of(await one.fetch()) == [b"0", b"1", b"2", b"3"]


async def test_a_topic_that_is_not_open_is_known_by_its_journals_name_of_it() -> None:
    """While the journal takes its appends: not before, not once it has left or was deleted, and again when it is back."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topics, journal = other.engine.topics, other.engine.journals.get(0)
    for name in ("t", "u"):
        await one.append(await one.topic(name, **SHARED), [b"0"])
    assert not topics.is_at_journal("t"), "the journal was not looked at"
    await journal.fresh()
    assert [topics.is_at_journal(name) for name in ("t", "u", "none")] == [True, True, False]
    assert topics.known("t") is None
    for mode in ("own", "shared"):
        await one.engine.administration.alter("t", None, {"commit.mode": mode})
        for name in ("t", "u"):  # the flush says that the topic has left
            await one.append(await one.engine.open_topic(name), [b"1"])
        await journal.fresh()
        assert [topics.is_at_journal(name) for name in ("t", "u")] == [mode == "shared", True]
    await one.engine.administration.delete("u")
    await journal.fresh()
    assert [topics.is_at_journal(name) for name in ("t", "u")] == [True, False]
    theirs = await other.engine.open_topic("t")
    await one.engine.administration.alter("t", None, {"commit.mode": "own"})
    await theirs.look()
    assert not topics.is_at_journal("t"), "its own table says so before the journal does"


async def test_a_drain_puts_records_into_the_topics_own_table_once() -> None:
    """Two gateways drain the same records: the table has each once, and the journal lets go of them."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", 2, **SHARED)
    for number in range(4):
        await one.append(topic, [b"%d" % number], number % 2)
    theirs = await other.engine.topics.fresh("t", 0)
    await theirs.fresh()
    other.forget_tail()
    await theirs.moving.drain_all()
    assert own_offsets(theirs) == [2, 2]
    await topic.moving.drain_all()
    assert own_offsets(topic) == [2, 2]
    assert commits(one, "topics/t/") == 2
    await one.append(topic, [b"4"], 0)
    for gateway in (one, other):
        gateway.forget_tail()
        assert values_of(await gateway.fetch()) == [b"0", b"2", b"4"]
    journal = one.engine.journals.get(0)
    await journal.commit_entries()
    assert await journal.fresh() is not None
    assert next(iter(journal.state.topics.by_id.values())).drained.tolist() == [2, 2]


async def test_a_drain_in_steps_comes_to_its_end_without_a_flush() -> None:
    """Each step goes on behind the one before, although the journal is told only with its next flush."""
    gateway = make_gateway(drain_bytes_max=1)
    topic = await gateway.topic("t", **SHARED)
    for number in range(3):
        await gateway.append(topic, [b"%d" % number])
    async with asyncio.timeout(5):
        await topic.moving.drain_all()
    assert own_offsets(topic) == [3]


async def test_the_journal_learns_of_a_drain_that_another_program_made() -> None:
    """That one died before it could say so: nothing is left to write, but the journal is told."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    await one.append(topic, [b"0"])
    await topic.moving.drain_all()
    theirs = await other.engine.open_topic("t")
    await theirs.fresh()
    await theirs.look()
    await theirs.moving.drain_all()
    await other.engine.journals.get(0).commit_entries()
    assert next(iter(other.engine.journals.get(0).state.topics.by_id.values())).drained.tolist() == [1]


async def test_a_change_stands_before_the_next_record() -> None:
    """A request that is acknowledged after an alteration obeys it, whichever gateway takes it."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    theirs = await other.engine.open_topic("t")
    await other.append(theirs, [b"0" * 100])
    await one.engine.administration.alter("t", 3, {"max.message.bytes": 50})
    with pytest.raises(RequestRefused):
        await other.append(theirs, [b"1" * 100])
    assert await other.append(theirs, [b"1"], 2) == (AppendedRange(2, 0, 1),)
    assert await one.append(topic, [b"2"], 2) == (AppendedRange(2, 1, 1),)
    assert (await other.engine.administration.delete_records("t", {0: 1, 2: -1})) == {0: 1, 2: 2}
    with pytest.raises(OffsetOutOfRange):
        await one.fetch(offset=1, partition=2)


async def test_a_deleted_topic_takes_nothing_and_a_new_one_begins_empty() -> None:
    """Also where the deleted one had records that only the journal had."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    await one.append(topic, [b"old"])
    theirs = await other.engine.open_topic("t")
    await one.engine.administration.delete("t")
    with pytest.raises(UnknownTopic):
        await other.append(theirs, [b"late"])
    with pytest.raises(UnknownTopic):
        await other.fetch()
    new = await one.topic("t", **SHARED)
    assert values_of(await other.fetch()) == []
    assert await one.append(new, [b"new"]) == (AppendedRange(0, 0, 1),)
    assert values_of(await other.fetch()) == [b"new"]


async def test_records_keep_their_offsets_while_the_mode_changes() -> None:
    """Own, shared, own, ...: dense offsets, and in the end all is in the table."""
    objects = MemoryStore()
    gateways = [make_gateway(objects=objects) for _ in range(2)]
    await gateways[0].topic("t", flush_ms=5)
    sent: list[bytes] = []
    for turn in range(6):
        mode = ("shared", "own")[turn % 2]
        await gateways[turn % 2].engine.administration.alter("t", None, {"commit.mode": mode})
        for gateway in gateways:
            topic = await gateway.engine.open_topic("t")
            place = await gateway.append(topic, [b"%d" % len(sent)])
            assert place == (AppendedRange(0, len(sent), 1),)
            sent.append(b"%d" % len(sent))
        assert (topic.log.state.attachment is not None) == (mode == "shared")
    for gateway in gateways:
        gateway.forget_tail()
        assert values_of(await gateway.fetch()) == sent
    assert own_offsets(topic) == [len(sent)]


async def test_appends_under_way_follow_the_topic() -> None:
    """Producers at two gateways go on while the topic moves: nothing is lost, refused or doubled."""
    objects = MemoryStore()
    gateways = [make_gateway(objects=objects) for _ in range(2)]
    await gateways[0].topic("t", flush_ms=2)
    done = asyncio.Event()
    places: list[AppendedRange] = []

    async def produce(gateway: Gateway) -> None:
        topic = await gateway.engine.open_topic("t")
        while not done.is_set():
            places.extend(await gateway.append(topic, [b"v"]))

    producers = [asyncio.create_task(produce(gateway)) for gateway in gateways for _ in range(3)]
    for turn in range(8):
        await asyncio.sleep(0.05)
        await gateways[turn % 2].engine.administration.alter("t", None, {"commit.mode": ("shared", "own")[turn % 2]})
    done.set()
    await asyncio.gather(*producers)
    assert sorted(place.base_offset for place in places) == list(range(len(places)))
    fetched = await gateways[0].fetch(records=100_000)
    assert len(values_of(fetched)) == len(places)


async def test_a_changer_that_died_is_overtaken() -> None:
    """It had closed the number and did no more."""
    gateway = make_gateway(overtake_ms=100)
    topic = await gateway.topic("t", **SHARED)
    await gateway.append(topic, [b"0"])
    here = topic.log.state.attachment
    assert here is not None
    assert topic.state.topic_id is not None
    await gateway.engine.journals.get(0).commit_entries(Close(topic.state.topic_id, here.number))
    assert await gateway.append(topic, [b"1"]) == (AppendedRange(0, 1, 1),)
    assert topic.log.state.attachment is not None
    assert topic.log.state.attachment.number > here.number


async def test_a_waiting_reader_is_woken_by_the_journal() -> None:
    """At the gateway that commits, and at another one."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects, journal_poll_ms=50)
    topic = await one.topic("t", **SHARED)
    await one.append(topic, [b"0"])
    for reader in (one, other):
        offset = (await reader.fetch(offset="latest")).records.next_offset
        wanted = [FetchFrom(topic="t", partition=0, offset=offset)]
        waiting = asyncio.create_task(reader.fetch_all(wanted, wait_ms=10_000))
        await asyncio.sleep(0.05)
        await one.append(topic, [b"next"])
        answer = await asyncio.wait_for(waiting, 5)
        assert answer.record_count == 1


async def test_topics_are_drained_in_time_and_their_objects_go() -> None:
    """Before ``drain.ms`` is over; not at once."""
    clock = ManualClock()
    gateway = make_gateway(clock=clock)
    topics = [await gateway.topic(f"t{number}", **SHARED, drain_ms=1000) for number in range(3)]
    for topic in topics:
        await gateway.append(topic, [b"v"])
    upkeep = gateway.engine.journal_upkeep
    await upkeep.run_once()
    assert [own_offsets(topic) for topic in topics] == [[0]] * 3
    clock.pass_ms(800)
    await upkeep.run_once()
    assert [own_offsets(topic) for topic in topics] == [[1]] * 3
    await upkeep.run_once()
    journal = gateway.engine.journals.get(0)
    assert journal.state.runs.file_count() == 0
    description = await gateway.engine.administration.describe("t0")
    assert (description.undrained_count, description.undrained_since_ms) == (0, None)


async def drained_by_upkeep(gateway: Gateway, topic: OpenTopic) -> list[int]:
    """What the topic's own table has after a round of the gateway's upkeep, when all is due."""
    await gateway.engine.journals.get(0).look()
    await gateway.engine.journal_upkeep.run_once()
    await topic.look()
    return own_offsets(topic)


async def test_a_gateway_drains_on_where_another_one_ended() -> None:
    """It puts nothing in twice, and comes to the end."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", drain_ms=1_000, flush_bytes=1, **SHARED)
    await one.append(topic, [b"0"])
    theirs = await other.engine.topics.fresh("t", 0)
    await one.append(topic, [b"1"])
    await topic.moving.drain_all()
    await one.engine.journals.get(0).commit_entries()
    await one.append(topic, [b"2"])
    assert own_offsets(theirs) == [0]
    assert await drained_by_upkeep(other, theirs) == [3]


async def test_a_gateway_drains_what_it_knew_with_own_commits() -> None:
    """Its state of the topic is from before the topic went to the journal."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", drain_ms=1_000, flush_bytes=1, commit_mode="own", flush_ms=5)
    theirs = await other.engine.topics.fresh("t", 0)
    await one.engine.administration.alter("t", None, {"commit.mode": "shared"})
    await one.append(topic, [b"0"])
    assert await drained_by_upkeep(other, theirs) == [1]


async def test_a_drain_that_the_store_does_not_answer_is_put_off() -> None:
    """The upkeep goes on with others, and tries it again."""
    objects = MemoryStore()
    one, other = make_gateway(objects=objects), make_gateway(objects=objects)
    topic = await one.topic("t", **SHARED)
    await one.append(topic, [b"0"])
    theirs = await other.engine.topics.fresh("t", 0)
    await theirs.fresh()
    other.store.go_down()
    with pytest.raises(BackOff):
        await theirs.moving.drain()


async def test_a_journal_that_nobody_drains_refuses_records() -> None:
    """Nothing of what is refused happens; after a drain records are taken again."""
    gateway = make_gateway(undrained_runs_max=3)
    topic = await gateway.topic("t", **SHARED)
    for number in range(4):
        await gateway.append(topic, [b"%d" % number])
    with pytest.raises(BackOff, match="accepts no more"):
        await gateway.append(topic, [b"refused"])
    await topic.moving.drain_all()
    await gateway.engine.journals.get(0).commit_entries()
    assert gateway.engine.journals.get(0).state.runs.run_count == 0
    assert await gateway.append(topic, [b"4"]) == (AppendedRange(0, 4, 1),)


async def test_topics_that_remember_much_are_attached_by_several_commits() -> None:
    """What one commit attaches is bounded; a topic whose memory is larger than the bound is attached alone."""
    gateway = make_gateway()
    topics = [await gateway.topic(f"t{number}", **SHARED) for number in range(5)]
    ids = [await gateway.engine.producer_ids.issue() for _ in range(5)]
    many = {one: Producer(0, 0, (), 0) for one in ids}
    for topic in topics[:4]:  # as if each remembered thousands
        state = replace(topic.log.state, producers=Producers(many, -1, JOURNAL_ATTACH_BYTES_MAX // 2))
        topic.log._state = state
    before = commits(gateway, "system/journals/0/")
    places = await asyncio.gather(*(gateway.append(topic, [b"a"]) for topic in topics))
    assert places == [(AppendedRange(0, 0, 1),)] * 5
    assert 3 <= commits(gateway, "system/journals/0/") - before <= 4
