"""Transactions across gateways and crashes: what one gateway decided another finishes, and nothing is in a topic twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, StoreUnavailable
from log_format.transactions.staged_records import StagedRecords
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, batch_of, make_gateway, values_of
from tests.support.faulty_store import Gate

CRASHES = {
    "before the first topic": ("put_if_absent", "topics/a/_delta_log"),
    "between two topics": ("put_if_absent", "topics/b/_delta_log"),
    "before the last row": ("put", "system/transactions/decisions"),
}


async def _begun(gateway: Gateway) -> str:
    row = await gateway.engine.transactions.begin("mine", 60_000)
    for name in ("a", "b"):
        topic = await gateway.topic(name, flush_ms=0)
        batch = batch_of(topic, [name.encode()])
        await gateway.engine.transactions.stage(row.transaction_id, name, batch, None)
    transaction_id: str = row.transaction_id
    return transaction_id


async def _values(gateway: Gateway) -> list[list[bytes]]:
    return [values_of(await gateway.fetch(topic=name)) for name in ("a", "b")]


@pytest.mark.parametrize("crash", CRASHES)
@pytest.mark.parametrize("how", ["commit", "sweep"])
async def test_another_gateway_finishes_what_was_decided(crash: str, how: str) -> None:
    """Wherever a gateway dies after the decision, the next look at the transaction shows all of its records, each once."""
    operation, prefix = CRASHES[crash]
    dying = make_gateway()
    transaction_id = await _begun(dying)
    decided = False

    def die(current: str, key: str) -> None:
        if decided and current == operation and key.startswith(prefix):
            raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

    def notice(current: str, key: str) -> None:
        nonlocal decided
        decided = decided or (current == "put_if_absent" and key.startswith("system/transactions/_delta_log/"))

    dying.store.before, dying.store.after = die, notice
    with pytest.raises(OutcomeUnknown):
        await dying.engine.transactions.commit(transaction_id, all_allowed)
    other = make_gateway(objects=dying.store.objects, left_alone_ms=-1)
    if how == "sweep":
        await other.engine.sweeping.sweep_once()
        assert (await other.engine.transactions.look(transaction_id)).state == "committed"
    row = await other.engine.transactions.commit(transaction_id, all_allowed)
    assert [(place.topic, place.base_offset, place.record_count) for place in row.places] == [
        ("a", 0, 1),
        ("b", 0, 1),
    ]
    assert await _values(other) == [[b"a"], [b"b"]]
    assert (
        await make_gateway(objects=dying.store.objects).engine.transactions.commit(transaction_id, all_allowed)
    ) == row


async def test_a_crash_before_the_decision_leaves_nothing(gateway: Gateway) -> None:
    """A commit that could not be decided is open still: nothing of it shows, and it may be aborted."""
    transaction_id = await _begun(gateway)

    def die(current: str, key: str) -> None:
        if current.startswith("put") and key.startswith("system/transactions/"):
            raise StoreUnavailable(key, "the store is down", may_have_happened=False)

    gateway.store.before = die
    with pytest.raises(Exception, match="store"):
        await gateway.engine.transactions.commit(transaction_id, all_allowed)
    gateway.store.come_back()
    assert (await gateway.engine.transactions.abort(transaction_id)).state == "aborted"
    assert await _values(gateway) == [[], []]
    await gateway.engine.drain()  # what is staged is deleted behind the answer
    assert not list(gateway.store.list(f"system/transactions/staged/{transaction_id}/"))


async def test_a_topic_deleted_between_decision_and_apply() -> None:
    """Records for a topic that goes after the decision go with it; the others appear, and the transaction ends."""
    dying, transaction_id = await _left_in_the_middle()
    other = make_gateway(objects=dying.store.objects)
    await other.engine.administration.delete("b")
    row = await other.engine.transactions.commit(transaction_id, all_allowed)
    assert [place.topic for place in row.places] == ["a"]


async def test_fenced_at_one_gateway_is_fenced_at_all() -> None:
    """A gateway that has not seen the new epoch yet looks before it stages or decides; what was staged is deleted."""
    first = make_gateway()
    transaction_id = await _begun(first)
    second = make_gateway(objects=first.store.objects, left_alone_ms=-1)
    await second.engine.transactions.begin("mine", 60_000)
    batch = batch_of(await first.engine.open_topic("a"), [b"late"])
    for call in (
        first.engine.transactions.stage(transaction_id, "a", batch, None),
        first.engine.transactions.commit(transaction_id, all_allowed),
        first.engine.transactions.abort(transaction_id),
    ):
        with pytest.raises(RequestRefused) as refusal:
            await call
        assert refusal.value.code is ErrorCode.FENCED_PRODUCER
    assert await _values(second) == [[], []]
    await second.engine.sweeping.sweep_once()
    assert not list(first.store.list("system/transactions/staged/"))


async def _left_in_the_middle() -> tuple[Any, str]:
    """A gateway that died between the decision and the topics."""
    dying = make_gateway()
    transaction_id = await _begun(dying)

    def die(current: str, key: str) -> None:
        if current == "put_if_absent" and key.startswith("topics/"):
            raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

    dying.store.before = die
    with pytest.raises(OutcomeUnknown):
        await dying.engine.transactions.commit(transaction_id, all_allowed)
    return dying, transaction_id


async def test_a_start_finishes_what_was_decided() -> None:
    """A gateway that starts again makes everything visible that it had decided, without being asked and without waiting."""
    dying, transaction_id = await _left_in_the_middle()
    other = make_gateway(objects=dying.store.objects)
    other.engine.sweeping.start()
    async with asyncio.timeout(30):
        state = "committing"
        while state != "committed":
            await asyncio.sleep(0.01)
            state = (await other.engine.transactions.look(transaction_id)).state
    other.engine.sweeping.stop()
    assert await _values(other) == [[b"a"], [b"b"]]


async def test_the_next_transaction_comes_behind_the_one_before() -> None:
    """One producer's records keep their order: a new transaction, or a new epoch, begins when what was decided is visible."""
    for begin in ("begin", "new_epoch"):
        dying, transaction_id = await _left_in_the_middle()
        other = make_gateway(objects=dying.store.objects)
        arguments = ("mine", 60_000) if begin == "begin" else ("mine",)
        row = await getattr(other.engine.transactions, begin)(*arguments)
        assert row.epoch == 1
        assert (await other.engine.transactions.look(transaction_id)).state == "committed"
        assert await _values(other) == [[b"a"], [b"b"]]


async def test_what_is_staged_for_a_request_under_way_is_collected_only_when_it_can_not_be_decided(
    gateway: Gateway,
) -> None:
    """A sweep that finds objects without a row first sees to it that they never get one: a late decision is refused."""
    topic = await gateway.topic("a", flush_ms=0)
    batch = batch_of(topic, [b"x"])
    records = [StagedRecords(topic="a", topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)]
    for left_alone_ms, is_decided in ((60_000, True), (-1, False)):
        other = make_gateway(objects=gateway.store.objects, left_alone_ms=left_alone_ms)
        with Gate(gateway.store, "put", ".parquet") as gate:
            commit = asyncio.create_task(gateway.engine.one_request.commit(records, [], None))
            await gate.wait_until_reached()
            await other.engine.sweeping.sweep_once()
            gate.open()
            if is_decided:
                assert (await commit).row.state == "committed"
            else:
                with pytest.raises(BackOff):
                    await commit
    assert values_of(await other.fetch(topic="a")) == [b"x"]
    await gateway.engine.drain()
    assert not list(gateway.store.objects.list("system/transactions/staged/"))


async def test_staged_records_are_counted_as_memory(gateway: Gateway) -> None:
    """A commit waits until there is memory for what was staged, and gives it back."""
    transaction_id = await _begun(gateway)
    memory = gateway.request_memory
    with memory.reserve(memory.bytes_max):
        commit = asyncio.create_task(gateway.engine.transactions.commit(transaction_id, all_allowed))
        waiting = 0
        while not waiting:
            await asyncio.sleep(0)
            waiting = memory.waiting_count
        assert (await gateway.engine.transactions.look(transaction_id)).state == "open"
    assert (await commit).state == "committed"
    assert memory.used_bytes == 0
