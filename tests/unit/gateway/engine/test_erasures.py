"""Requests to erase at gateways: recorded about what the topic has, and no old value is served once they are carried out."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from gateway.engine.read_records import ReadLimits
from log_format.checkpoints.erasure_notes import read_notes
from log_format.clock import SystemClock
from log_format.cluster.identity import load_cluster
from log_format.errors import BackOff, OutcomeUnknown, RequestRefused, StoreUnavailable, UnknownTopic
from log_format.ids import random_id
from log_format.inspection.backup import copy_log
from log_format.inspection.restored_erasures import EraseAgain
from log_format.segments.key_filters import hash_key
from log_format.stores.memory import MemoryStore
from tests.support.collected_events import CollectedEvents
from tests.support.engine import Gateway, make_gateway, values_of

QUIET = Policy(flushed_min=2_000, flushed_bytes_min=1 << 40, fan_in=10_000, quiet_fan_in=10_000)


def maintain(objects: Any) -> None:
    """A round of another process, which merges nothing."""
    job = Job(
        store=objects,
        workers=LocalWorkers(objects),
        clock=SystemClock(),
        report=CollectedEvents(),
        policy=QUIET,
        new_id=lambda: uuid.uuid4().hex,
    )
    assert not job.run_round(collect=True).failed_topics


async def filled(gateway: Gateway, **config: Any) -> Any:
    """A topic with records of two people in two flushes, one of which has only Bo's."""
    topic = await gateway.topic(flush_ms=0, retention_ms=-1, **config)
    await gateway.append(topic, [b"anna-1", b"bo-1"], keys=[b"anna", b"bo"])
    await gateway.append(topic, [b"bo-2"], keys=[b"bo"])
    return topic


@pytest.mark.parametrize("mode", ["own", "shared"])
async def test_no_old_value_is_served(mode: str) -> None:
    """Neither from the tail of the gateway that wrote it nor of one that read it, nor after a drain; what came later is."""
    objects = MemoryStore()
    gateway, other = make_gateway(objects=objects, erasing_look_ms=0), make_gateway(objects=objects, erasing_look_ms=0)
    topic = await filled(gateway, commit_mode=mode)
    assert values_of(await other.fetch()) == [b"anna-1", b"bo-1", b"bo-2"]
    asked = await gateway.engine.erasures.request("t", [b"anna"], [], None)
    assert asked.erasure.ends == (3,)
    await gateway.append(topic, [b"anna-2"], keys=[b"anna"])
    assert values_of(await gateway.fetch()) == [b"anna-1", b"bo-1", b"bo-2", b"anna-2"]
    await asyncio.to_thread(maintain, objects)
    for reader in (gateway, other):
        assert values_of(await reader.fetch()) == [None, b"bo-1", b"bo-2", b"anna-2"]
        assert values_of(await reader.fetch(1)) == [b"bo-1", b"bo-2", b"anna-2"]
    (found,) = await other.engine.erasures.list("t")
    assert (found.erasure.record_count, found.erasure.is_rewritten) == (1, True)
    assert await other.engine.erasures.find("t", asked.erasure.erasure_id) == found
    await gateway.engine.drain()
    await other.engine.drain()


async def test_a_request_by_keys_only_can_be_answered_by_filters() -> None:
    """It has the hash of each key once; with a header, or with keys that take long to hash, it has to be looked for."""
    objects = MemoryStore()
    gateway = make_gateway(objects=objects)
    await filled(gateway)
    secret = load_cluster(objects, random_id).producer_key
    asked = await gateway.engine.erasures.request("t", [b"anna", b"bo", b"anna"], [], None)
    assert asked.erasure.key_hashes(secret) == [hash_key(b"anna"), hash_key(b"bo")]
    for keys, headers in (([b"anna"], [("name", b"anna")]), ([b"k" * 70_000], [])):
        asked = await gateway.engine.erasures.request("t", keys, headers, None)
        assert asked.erasure.key_hashes(secret) is None
    await gateway.engine.drain()


async def test_memory_is_given_back() -> None:
    """A quiet gateway does not keep for ever what was erased: the flush leaves the tail, the others stay."""
    gateway = make_gateway()
    await filled(gateway)
    quiet = await gateway.topic("other", flush_ms=0, retention_ms=-1)
    await gateway.append(quiet, [b"x"])
    tail = gateway.engine._tail
    await gateway.engine.erasures.request("t", [b"anna"], [], None)
    assert len(tail._flushes) == 3
    await asyncio.to_thread(maintain, gateway.store.objects)
    await gateway.fetch()
    assert [flush.records.column("value").to_pylist() for flush in tail._flushes] == [[b"x"]]
    assert tail.size_bytes == sum(flush.size_bytes for flush in tail._flushes)
    await gateway.engine.drain()


async def test_what_was_read_ahead_is_not_served() -> None:
    """A piece of a segment that left the table is dropped, though its offsets are all there."""
    gateway = make_gateway()
    topic = await gateway.topic(flush_ms=0, retention_ms=-1)
    await gateway.append(topic, [b"bo-1", b"anna-1", b"bo-2"], keys=[b"bo", b"anna", b"bo"])
    gateway.forget_tail()
    one = ReadLimits(records_max=1, bytes_max=1 << 20)
    await gateway.engine.reader.read(topic, topic.state, 0, 0, one)
    await gateway.engine.erasures.request("t", [b"anna"], [], None)
    await asyncio.to_thread(maintain, gateway.store.objects)
    assert values_of(await gateway.fetch(1)) == [None, b"bo-2"]
    await gateway.engine.drain()


async def test_a_request_to_a_topic_at_a_journal_is_about_all_that_it_has() -> None:
    """What only the journal has is in the table first; a later drain brings nothing of it back."""
    objects = MemoryStore()
    gateway = make_gateway(objects=objects, erasing_look_ms=0)
    topic = await filled(gateway, commit_mode="shared")
    assert int(topic.log.state.next_offsets[0]) == 0
    await gateway.engine.erasures.request("t", [b"anna", b"bo"], [], None)
    await gateway.append(topic, [b"anna-2"], keys=[b"anna"])
    await asyncio.to_thread(maintain, objects)
    await topic.moving.drain_all()
    await asyncio.to_thread(maintain, objects)
    assert values_of(await gateway.fetch()) == [None, None, None, b"anna-2"]
    await gateway.engine.drain()


async def test_a_gateway_looks_more_often_while_a_request_is_open() -> None:
    """The table of a topic at a journal, which it would look at every few minutes."""
    gateway = make_gateway()
    topic = await filled(gateway, commit_mode="shared")
    bounds = gateway.engine.bounds
    assert bounds.table_look_ms(topic.log.state) == bounds.own_look_ms
    await gateway.engine.erasures.request("t", [b"anna"], [], None)
    assert bounds.table_look_ms(topic.log.state) == bounds.erasing_look_ms <= 60_000
    await gateway.engine.drain()


async def test_a_request_has_a_note_before_it_is_recorded() -> None:
    """The note outlives the topic. None is left of a request that was refused; what may be there is told."""
    gateway = make_gateway()
    topic = await filled(gateway)
    topic_id, objects = topic.log.state.existing_id, gateway.store.objects
    asked = await gateway.engine.erasures.request("t", [b"anna"], [], None)
    (note,) = read_notes(objects, "t", topic_id)
    assert (note.erasure.erasure_id, note.erasure.wanted) == (asked.erasure.erasure_id, asked.erasure.wanted)

    def refusing(part: str, operation: str, *, may: bool) -> None:
        def refuse(current: str, key: str) -> None:
            if current == operation and part in key:
                raise StoreUnavailable(key, "it does not answer", may_have_happened=may)

        gateway.store.before = refuse

    async def ask() -> None:
        await gateway.engine.erasures.request("t", [b"bo"], [], None)

    refusing("_erasures/", "put_if_absent", may=False)
    with pytest.raises(BackOff, match="did not take the note"):
        await ask()
    refusing("_erasures/", "put_if_absent", may=True)
    with pytest.raises(OutcomeUnknown, match="did not take the note"):
        await ask()
    refusing("_delta_log/", "put_if_absent", may=False)
    with pytest.raises(BackOff):
        await ask()
    gateway.store.come_back()
    assert [one.erasure_id for one in (await topic.fresh_with_table()).erasures] == [asked.erasure.erasure_id]
    assert len(list(read_notes(objects, "t", topic_id))) == 1
    await gateway.engine.drain()


async def test_a_restored_topic_at_a_journal_is_erased() -> None:
    """What only the journal of the backup has is in the restored table, and in no reader's hands."""
    objects, copied, restored = MemoryStore(), MemoryStore(), MemoryStore()
    gateway = make_gateway(objects=objects)
    await filled(gateway, commit_mode="shared")
    assert all(not one.problems for one in copy_log(objects, copied, SystemClock()))
    await gateway.engine.erasures.request("t", [b"anna"], [], None)
    await gateway.engine.drain()
    erase = EraseAgain([objects], lambda _: maintain(restored), random_id)
    told = await asyncio.to_thread(lambda: list(copy_log(copied, restored, SystemClock(), erase=erase)))
    assert [one.problems for one in told] == [()]
    other = make_gateway(objects=restored)
    topic = await other.engine.open_topic("t")
    assert values_of(await other.fetch()) == [None, b"bo-1", b"bo-2"]
    await other.append(topic, [b"anna-2"], keys=[b"anna"])
    assert values_of(await other.fetch()) == [None, b"bo-1", b"bo-2", b"anna-2"]
    await other.engine.drain()


async def test_requests_that_can_not_be_made() -> None:
    """No topic, nothing to erase, an unknown id."""
    gateway = make_gateway()
    with pytest.raises(UnknownTopic):
        await gateway.engine.erasures.request("none", [b"a"], [], None)
    await gateway.topic()
    with pytest.raises(RequestRefused, match="names 1 to"):
        await gateway.engine.erasures.request("t", [], [], None)
    with pytest.raises(RequestRefused, match="has no request to erase"):
        await gateway.engine.erasures.find("t", "e1")
    await gateway.engine.drain()
