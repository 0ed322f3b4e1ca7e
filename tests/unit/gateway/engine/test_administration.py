"""Topics made, listed, altered, deleted; checkpoints behind them; how many are kept open."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from gateway.engine.partition_streams import StreamEnded, StreamRecords, StreamWoken
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.checkpoints.checkpoint import last_checkpoint_version
from log_format.delta.actions import decode_commit
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, StoreUnavailable, UnknownTopic
from log_format.topic.live_segments import live_segments
from tests.support.engine import Gateway, make_gateway, values_of
from tests.support.faulty_store import Gate
from tests.support.waiting import turns_up


async def test_making_a_topic_twice_is_the_same_topic(gateway: Gateway) -> None:
    """Made once; the same again is no error and changes nothing; another configuration is refused."""
    administration = gateway.engine.administration
    config = administration.parse_config({"flush.ms": "10"})
    state, made = await administration.create("t", 2, config)
    assert made
    again, made = await administration.create("t", 2, administration.parse_config({"flush.ms": 10}))
    assert (again.version, made) == (state.version, False)
    with pytest.raises(RequestRefused) as caught:
        await administration.create("t", 3, config)
    assert caught.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_many_make_one_topic_at_once() -> None:
    """Through two gateways at the same time: one makes it, for all others it exists."""
    one = make_gateway()
    other = make_gateway(objects=one.store.objects)
    config = one.engine.administration.parse_config({})
    results = await asyncio.gather(
        *(gateway.engine.administration.create("t", 2, config) for gateway in (one, other) for _ in range(5))
    )
    assert sorted(made for _, made in results) == [False] * 9 + [True]
    assert len({state.topic_id for state, _ in results}) == 1
    for gateway in (one, other):
        await gateway.engine.drain()


async def test_pages_of_topics(gateway: Gateway) -> None:
    """Sorted, filtered by prefix, without the deleted ones, and complete over pages."""
    for number in range(40):
        await gateway.topic(f"a-{number:02d}")
    await gateway.topic("b")
    for number in range(0, 40, 3):
        await gateway.engine.administration.delete(f"a-{number:02d}")
    expected = [f"a-{number:02d}" for number in range(40) if number % 3]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await gateway.engine.administration.page("a-", after, 7)
        assert len(page.topics) <= 7
        found += [state.topic for state in page.topics]
        after = page.next_after
    assert found == expected
    page = await gateway.engine.administration.page("", "", 26)
    assert [state.topic for state in page.topics] == expected
    assert (await gateway.engine.administration.page("", expected[-1], 10)).topics[0].topic == "b"


async def test_a_list_of_topics_as_they_were(gateway: Gateway) -> None:
    """The store is not listed again within the age, but for a topic made here; deleted ones are left out all the same."""
    for number in range(5):
        await gateway.topic(f"a-{number}")
    administration = gateway.engine.administration
    listings: list[str] = []
    gateway.store.before = lambda operation, key: listings.append(key) if operation == "list_directories" else None

    async def names(prefix: str = "", after: str = "") -> list[str]:
        page = await administration.page(prefix, after, 10, lambda name: name != "a-3", age_ms_max=60_000)
        return [state.topic for state in page.topics]

    assert await names() == ["a-0", "a-1", "a-2", "a-4"]
    assert await names("a-", "a-1") == ["a-2", "a-4"]
    assert len(listings) == 1
    await administration.delete("a-2")
    await gateway.topic("b")
    assert await names() == ["a-0", "a-1", "a-4", "b"]
    assert len(listings) == 2


async def test_a_deleted_topic_is_gone_with_its_segments(gateway: Gateway) -> None:
    """404 from then on; its objects are deleted behind the answer; its log stays."""
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a"])
    await gateway.engine.administration.delete("t")
    with pytest.raises(UnknownTopic):
        await gateway.engine.administration.describe("t")
    await turns_up(lambda: not list(gateway.store.objects.list("topics/t/segments/")))
    assert list(gateway.store.objects.list("topics/t/_delta_log/"))


async def test_what_a_deletion_of_records_had_no_room_for_goes_behind_the_answer() -> None:
    """So that a topic whose segments fill a gateway's memory is brought back by deleting its records, maintenance or none."""
    gateway = make_gateway(removes_max=2)
    topic = await gateway.topic(flush_ms=0)
    for number in range(8):
        await gateway.append(topic, [b"%d" % number])
    version = topic.state.version
    assert await gateway.engine.administration.delete_records("t", {0: 7}) == {0: 7}
    await asyncio.wait(gateway.engine.administration._sweeps)
    assert topic.state.manifest.segment_count() == 1
    assert topic.state.version == version + 4
    await gateway.append(topic, [b"8"])
    assert topic.state.log_start(0) == 7
    await gateway.engine.drain()


async def test_a_topic_of_many_segments_is_deleted_by_several_commits() -> None:
    """No commit names more than so many segments, and in the end none is in the table.

    When the store fails in between, the answer does not say that nothing happened, and the same call again ends it.
    """
    gateway = make_gateway(removes_max=3)
    topic = await gateway.topic(flush_ms=0)
    for number in range(11):
        await gateway.append(topic, [b"%d" % number])
    before = topic.state.version

    def refusing(operation: str, key: str, *, above: int) -> None:
        version = layout.commit_version(key)
        if operation == "put_if_absent" and version is not None and version > above:
            raise StoreUnavailable(key, "no", may_have_happened=False)

    for committed, error in ((0, BackOff), (2, OutcomeUnknown)):
        gateway.store.before = partial(refusing, above=before + committed)
        with pytest.raises(error):
            await gateway.engine.administration.delete("t")
    assert topic.state.exists
    assert topic.state.log_start(0) == 11
    gateway.store.come_back()
    await gateway.engine.administration.delete("t")
    log = checkpoint.reconcile_log(gateway.store.objects, "t", topic.state.version, 0)
    assert log is not None
    assert list(live_segments(log)) == []
    for version in range(before + 1, topic.state.version + 1):
        key = layout.table_commit_key(layout.topic_root("t"), version)
        assert len(decode_commit(gateway.store.objects.get(key), key).removes) <= 3
    await gateway.engine.drain()


async def test_a_cancelled_change_is_finished(gateway: Gateway) -> None:
    """A client that goes away in the middle of a change does not leave two commits of one topic running at once."""
    topic = await gateway.topic(flush_ms=0)
    with Gate(gateway.store, "put_if_absent") as gate:
        change = asyncio.create_task(gateway.engine.administration.alter("t", 5, {}))
        await gate.wait_until_reached()
        change.cancel()
        await asyncio.wait([change])
        assert topic._commit_lock.locked()
        assert not topic.is_idle
        gate.open()
    await gateway.append(topic, [b"x"])
    assert topic.state.partition_count == 5


async def test_checkpoints_follow_commits(gateway: Gateway) -> None:
    """A checkpoint is written behind the commits, without being asked for; a failure is retried, and costs no request."""
    topic = await gateway.topic(flush_ms=0)

    def refuse(operation: str, key: str) -> None:
        if operation.startswith("put") and "checkpoint" in key:
            raise StoreUnavailable(key, "no", may_have_happened=False)

    gateway.store.before = refuse
    for number in range(105):
        await gateway.append(topic, [b"%d" % number])
    assert topic._checkpointing is not None
    await topic._checkpointing.stop()  # else the try under way succeeds once the store is back
    assert last_checkpoint_version(gateway.store.objects, "t") is None
    gateway.store.come_back()
    topic._checkpointing._not_before_ms = 0
    await gateway.append(topic, [b"x"])
    assert (await turns_up(lambda: last_checkpoint_version(gateway.store.objects, "t")) or 0) >= 105
    other = make_gateway(objects=gateway.store.objects)
    assert len(values_of(await other.fetch(0, records=1000))) >= 64
    assert other.store.calls["get"] < 80, "the whole log was replayed, or a read took more runs than its bound"
    for one in (gateway, other):
        await one.engine.drain()


async def test_names_that_do_not_exist_are_not_kept(gateway: Gateway) -> None:
    """Names made up by a client cost no memory; the next request finds a topic that another gateway made."""
    for number in range(50):
        with pytest.raises(UnknownTopic):
            await gateway.engine.open_topic(f"none-{number}")
    assert len(gateway.engine.topics) == 0
    other = make_gateway(objects=gateway.store.objects)
    await other.topic("none-1")
    await gateway.engine.open_topic("none-1")
    for one in (gateway, other):
        await one.engine.drain()


async def test_idle_topics_are_forgotten_and_busy_ones_kept() -> None:
    """The number of loaded topics is bounded; one whose records wait is never dropped."""
    gateway = make_gateway(topics_loaded_max=3)
    busy = await gateway.topic("busy", flush_ms=60_000)
    pending = gateway.submit(busy, [b"x"])
    for number in range(8):
        await gateway.topic(f"t{number}")
    assert len(gateway.engine.topics) <= 4
    assert gateway.engine.topics.get("busy") is busy
    await gateway.engine.drain()
    assert pending.settled.done()


async def test_a_stream_follows_and_says_why_it_ends(gateway: Gateway) -> None:
    """Records as they are committed, in order; the last event says that the topic went or that the gateway drains."""
    topic = await gateway.topic(flush_ms=0)
    seen: list[int] = []
    ends: list[str] = []

    async def follow() -> None:
        with gateway.engine.streams.follow(topic, 0, 0, gateway.memory) as stream:
            while not isinstance(event := await stream.next(), StreamEnded):
                if isinstance(event, StreamWoken):
                    continue
                assert isinstance(event, StreamRecords)
                tables = event.records.tables
                seen.extend(offset for table in tables for offset in table.column("offset").to_pylist())
                event.reservation.release()
            ends.append(event.reason)

    stream = asyncio.create_task(follow())
    for number in range(20):
        await gateway.append(topic, [b"%d" % number])
    await turns_up(lambda: len(seen) >= 20)
    assert seen == list(range(20))
    await gateway.engine.administration.delete("t")
    await stream
    assert ends == ["topic_deleted"]
    topic = await gateway.topic(flush_ms=0)
    stream = asyncio.create_task(follow())
    await asyncio.sleep(0.02)
    await gateway.engine.drain()
    await stream
    assert ends == ["topic_deleted", "draining"]
    assert gateway.memory.used_bytes == 0


async def test_a_damaged_topic_does_not_hide_the_others() -> None:
    """Lists go on without it; pages end early where they would describe too many partitions, and lose nothing."""
    gateway = make_gateway(list_partitions_max=10)
    for number in range(7):
        await gateway.topic(f"t{number}", partition_count=4)
    gateway.store.objects.put("topics/t3/_delta_log/00000000000000000001.json", b"not a commit")
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = await gateway.engine.administration.page("", after, 100)
        assert 1 <= len(page.topics) <= 2
        found += [state.topic for state in page.topics]
        after = page.next_after
    assert found == ["t0", "t1", "t2", "t4", "t5", "t6"]
    await gateway.engine.drain()


async def test_a_store_that_hangs_is_not_waited_for() -> None:
    """Looks, reads and changes are refused in time, and a change whose turn did not come is never made."""
    gateway = make_gateway(store_wait_ms_max=100, commit_wait_ms_max=100)
    topic = await gateway.topic(flush_ms=0)
    with Gate(gateway.store, "put_if_absent") as gate:
        first = asyncio.create_task(gateway.engine.administration.alter("t", 2, {}))
        await gate.wait_until_reached()
        with pytest.raises(BackOff):
            await gateway.engine.administration.alter("t", 9, {})
        with pytest.raises(OutcomeUnknown):
            await first
        gate.open()
    await turns_up(lambda: topic.state.partition_count != 1)
    await gateway.append(topic, [b"x"])
    assert topic.state.partition_count == 2
    gateway.forget_tail()
    for operation in ("get", "list"):
        with Gate(gateway.store, operation), pytest.raises(BackOff):
            await (gateway.fetch(0) if operation == "get" else gateway.engine.open_topic("other"))
    await gateway.engine.drain()
