"""A group's offsets in transactions across crashes: every reader sees them with the records, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from log_format.errors import BackOff, OutcomeUnknown, RequestRefused, StoreUnavailable
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.transactions.staged_offsets import StagedOffset, StagedOffsets
from tests.support.all_allowed import all_allowed
from tests.support.engine import Gateway, batch_of, make_gateway, values_of

CRASHES = {
    "after the offsets are pending": ("put_if_absent", "system/transactions/_delta_log/"),
    "after the decision": ("put_if_absent", "topics/out/_delta_log/"),
    "before the offsets are the group's": ("put_if_absent", "system/consumer_offsets/_delta_log/"),
    "before the last row": ("put", "system/transactions/decisions"),
}
DECIDED = {name: name != "after the offsets are pending" for name in CRASHES}


async def _begun(gateway: Gateway) -> str:
    row = await gateway.engine.transactions.begin("mine", 60_000)
    await gateway.topic("in", flush_ms=0)
    topic = await gateway.topic("out", flush_ms=0)
    await gateway.engine.transactions.stage(row.transaction_id, "out", batch_of(topic, [b"result"]), None)
    offsets = StagedOffsets(
        group="g", member_id=None, generation=None, offsets=(StagedOffset(topic="in", partition=0, offset=0),)
    )
    await gateway.engine.transactions.stage_offsets(row.transaction_id, offsets)
    transaction_id: str = row.transaction_id
    return transaction_id


async def _committed(gateway: Gateway) -> dict[tuple[str, int], int]:
    rows = await gateway.engine.groups.committed.of_partitions("g", [("in", 0)])
    return {key: row.offset for key, row in rows.items() if row.offset is not None}


@pytest.mark.parametrize("crash", CRASHES)
async def test_whoever_reads_the_offsets_settles_them(crash: str) -> None:
    """Wherever the committing gateway dies, a reader at another gateway finds offsets and records both, or neither, for ever."""
    operation, prefix = CRASHES[crash]
    dying = make_gateway(pending_offsets_ms_max=0)
    transaction_id = await _begun(dying)
    pending = decided = False

    def die(current: str, key: str) -> None:
        is_due = decided if DECIDED[crash] else pending
        if is_due and current == operation and key.startswith(prefix):
            raise StoreUnavailable(key, "the gateway died", may_have_happened=False)

    def notice(current: str, key: str) -> None:
        nonlocal pending, decided
        if current == "put_if_absent" and key.startswith("system/consumer_offsets/_delta_log/"):
            pending = True
        if pending and current == "put_if_absent" and key.startswith("system/transactions/_delta_log/"):
            decided = True

    dying.store.before, dying.store.after = die, notice
    with pytest.raises((OutcomeUnknown, BackOff)):
        await dying.engine.transactions.commit(transaction_id, all_allowed)
    other = make_gateway(objects=dying.store.objects, pending_offsets_ms_max=0)
    assert other.engine.groups.table.log.state.version < 0, "it has not looked yet"
    expected = {("in", 0): 0} if DECIDED[crash] else {}
    assert await _committed(other) == expected
    values = values_of(await other.fetch(topic="out"))
    assert values == ([b"result"] if DECIDED[crash] else [])
    dying.store.come_back()
    if DECIDED[crash]:
        assert (await dying.engine.transactions.commit(transaction_id, all_allowed)).state == "committed"
    else:
        with pytest.raises(RequestRefused):
            await dying.engine.transactions.commit(transaction_id, all_allowed)
    assert await _committed(other) == expected
    assert await _committed(dying) == expected


async def test_a_reader_waits_for_a_transaction_that_is_being_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets that are pending for a moment only are waited for: their transaction is not aborted by a reader."""
    gateway = make_gateway()
    transaction_id = await _begun(gateway)
    other = make_gateway(objects=gateway.store.objects)
    asked = []

    async def impatient(one: str, *, aborts: bool) -> bool | None:
        asked.append(aborts)
        if len(asked) == 1:
            row = await gateway.engine.transactions.commit(transaction_id, all_allowed)
            assert row.state == "committed"
            return None
        return await find(one, aborts=aborts)

    preparing = gateway.engine.transactions._preparing
    staged = await gateway.engine.transactions._staging.read(
        transaction_id,
        [name.name for name in (await gateway.engine.transactions._staging.list_staged(transaction_id)).names],
    )
    await preparing.prepare(transaction_id, staged.offsets.values())
    pending = other.engine.groups.committed._pending
    find = pending._is_committed
    monkeypatch.setattr(pending, "_is_committed", impatient)
    assert await _committed(other) == {("in", 0): 0}
    assert asked[0] is False


async def test_a_reader_does_not_wait_for_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that turns out to be a repeat drops what it had prepared: a reader that waited for its decision goes on at
    once.
    """
    gateway = make_gateway(pending_offsets_ms_max=3_600_000)
    await gateway.topic("in", flush_ms=0)
    other = make_gateway(objects=gateway.store.objects, pending_offsets_ms_max=3_600_000)
    transaction_id = await gateway.engine.producer_ids.issue(TRANSACTIONAL)
    offsets = StagedOffsets(
        group="g", member_id=None, generation=None, offsets=(StagedOffset(topic="in", partition=0, offset=0),)
    )
    preparing = gateway.engine.transactions._preparing
    await preparing.prepare(transaction_id, [offsets])
    reads: list[asyncio.Task[Any]] = []
    for reading in (gateway, other):
        pending, asked = reading.engine.groups.committed._pending, asyncio.Event()

        async def find(one: str, *, aborts: bool, ask: Any = pending._is_committed, asked: Any = asked) -> bool | None:
            asked.set()
            assert not aborts
            found: bool | None = await ask(one, aborts=aborts)
            return found

        monkeypatch.setattr(pending, "_is_committed", find)
        reads.append(asyncio.create_task(_committed(reading)))
        await asked.wait()
    await preparing.drop(transaction_id, [offsets])
    assert await asyncio.gather(*reads) == [{}, {}]


async def test_offsets_of_an_aborted_transaction_are_swept() -> None:
    """The sweep drops an aborted transaction's pending offsets, also when no client reads the group."""
    gateway = make_gateway(left_alone_ms=-1)
    transaction_id = await _begun(gateway)
    transactions = gateway.engine.transactions
    names = [name.name for name in (await transactions._staging.list_staged(transaction_id)).names]
    staged = await transactions._staging.read(transaction_id, names)
    await transactions._preparing.prepare(transaction_id, staged.offsets.values())
    await transactions.abort(transaction_id)
    assert gateway.engine.groups.table.log.state.group("g").pending
    await gateway.engine.sweeping.sweep_once()
    assert not (await gateway.engine.groups.table.fresh()).group("g").pending
    assert await _committed(gateway) == {}
