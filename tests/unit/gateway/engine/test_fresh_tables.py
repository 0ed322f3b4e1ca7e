"""Tables with what was acknowledged before a reader asked, also of topics at a journal."""

from __future__ import annotations

import asyncio

from gateway.engine.fresh_tables import FreshTables
from log_format.errors import StoreUnavailable
from tests.support.engine import Gateway, make_gateway

COMMITS = "topics/t/_delta_log/"


def puts(gateway: Gateway) -> int:
    """Number of objects put so far."""
    return gateway.store.calls["put"] + gateway.store.calls["put_if_absent"]


async def test_a_reader_gets_what_only_the_journal_had(gateway: Gateway) -> None:
    """Readers that ask together share a drain, which makes two PUTs; without news there is none; an own topic has none ever."""
    shared = await gateway.topic("t", commit_mode="shared", flush_ms=1, drain_ms=600_000)
    own = await gateway.topic("own", commit_mode="own", flush_ms=1)
    await gateway.append(shared, [b"0", b"1"])
    await gateway.append(own, [b"0"])
    assert shared.log.state.next_offsets.tolist() == [0]
    tables, before = gateway.engine.tables, puts(gateway)
    found = await asyncio.gather(*(tables.fresh("t") for _ in range(20)))
    assert {(one.state.next_offsets[0], one.as_of_ms) for one in found} == {(2, None)}
    assert puts(gateway) - before == 2
    assert (await tables.fresh("t")).as_of_ms is None
    assert (await tables.fresh("own")).state.next_offsets.tolist() == [1]
    assert puts(gateway) - before == 2


async def test_drains_are_at_least_a_pause_apart() -> None:
    """However often readers ask, a producer's topic is drained once in a pause; each reader has what came before it."""
    gateway = make_gateway()
    topic = await gateway.topic("t", commit_mode="shared", flush_ms=1, drain_ms=600_000)
    tables, loop = FreshTables(gateway.engine.topics, gateway.engine.clock, pause_s=0.2), asyncio.get_running_loop()
    began_s, versions = loop.time(), set()
    for number in range(12):
        await gateway.append(topic, [b"%d" % number])
        _, found = await asyncio.gather(tables.fresh("t"), tables.fresh("t"))
        assert found.state.next_offsets[0] > number
        versions.add(found.state.version)
    assert len(versions) <= (loop.time() - began_s) / 0.2 + 1
    await gateway.engine.drain()


async def test_a_drain_that_fails_says_as_of_when(gateway: Gateway) -> None:
    """A store that takes no commit of the table leaves it as it is: the answer has the time up to which it is whole."""
    topic = await gateway.topic("t", commit_mode="shared", flush_ms=1, drain_ms=600_000)
    await gateway.append(topic, [b"0"])

    def no_commit(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key.startswith(COMMITS):
            raise StoreUnavailable(key, "down", may_have_happened=False)

    gateway.store.before, working = no_commit, gateway.store.before
    stale = await gateway.engine.tables.fresh("t")
    assert stale.state.next_offsets.tolist() == [0]
    assert stale.as_of_ms == topic.state.undrained_since_ms
    gateway.store.before = working
    assert (await gateway.engine.tables.fresh("t")).as_of_ms is None
