"""The writer ahead of its commits: full flushes are encoded and uploaded before their turn comes, and keep their order."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gateway.engine.bounds import FLUSHES_AHEAD_MAX, PARALLEL_ENCODE_BYTES_MIN
from log_format.errors import BackOff, StoreUnavailable
from log_format.journal.append import JournalAppend
from log_format.topic.append import Append
from log_format.topic.append_outcome import AppendedRange
from tests.support.engine import Gateway, values_of
from tests.support.faulty_store import Gate


def _full(number: int) -> list[bytes]:
    """One record that is a flush by itself where ``flush.bytes`` is 4,096."""
    return [b"%d" % number + b"x" * 8_192]


def _segment_keys(gateway: Gateway) -> list[str]:
    return [key for operation, key in gateway.store.requests if operation == "put" and key.endswith(".parquet")]


async def _until_on_their_way(gateway: Gateway, count: int) -> None:
    async with asyncio.timeout(10):
        while True:
            if len(_segment_keys(gateway)) >= count:
                return
            await asyncio.sleep(0.001)


async def test_full_flushes_are_uploaded_side_by_side_and_committed_in_order(gateway: Gateway) -> None:
    """While the upload of the first segment hangs those behind it are uploaded, too.

    Nothing is acknowledged out of turn (G1, G2). Each was encoded for the offsets that it got, so none is uploaded twice.
    """
    topic = await gateway.topic(flush_ms=60_000, flush_bytes=4_096)
    with Gate(gateway.store, "put") as gate:
        pending = []
        for number in range(FLUSHES_AHEAD_MAX):
            pending.append(gateway.submit(topic, _full(number)))
            await _until_on_their_way(gateway, number + 1)
        last = gateway.submit(topic, _full(FLUSHES_AHEAD_MAX))
        await asyncio.sleep(0.05)
        assert len(_segment_keys(gateway)) == FLUSHES_AHEAD_MAX, "more flushes are ahead than there may be"
        assert not any(one.settled.done() for one in pending)
        gate.open()
        await asyncio.wait([one.settled for one in (*pending, last)])
    assert [one.settled.result() for one in (*pending, last)] == [
        (AppendedRange(0, number, 1),) for number in range(FLUSHES_AHEAD_MAX + 1)
    ]
    assert len(_segment_keys(gateway)) == FLUSHES_AHEAD_MAX + 1


@pytest.mark.parametrize("mode", ["own", "shared"])
async def test_large_flushes_are_encoded_side_by_side(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The encoding of the first waits for that of the second: together they get their offsets in order (G2)."""
    topic = await gateway.topic(flush_ms=60_000, flush_bytes=4_096, commit_mode=mode)
    encoders = threading.Barrier(2)

    def slowly(encode: Any) -> Any:
        def together(*arguments: Any) -> Any:
            encoders.wait(10)
            return encode(*arguments)

        return together

    for flush in (Append, JournalAppend):
        monkeypatch.setattr(flush, "stage", slowly(flush.stage))
    values = [[bytes([letter]) * PARALLEL_ENCODE_BYTES_MIN] for letter in b"ab"]
    pending = [gateway.submit(topic, values[0])]
    await asyncio.sleep(0.05)
    pending.append(gateway.submit(topic, values[1]))
    await asyncio.wait([one.settled for one in pending])
    assert [one.settled.result() for one in pending] == [(AppendedRange(0, 0, 1),), (AppendedRange(0, 1, 1),)]
    fetched = await gateway.fetch(bytes_max=1 << 23)
    assert values_of(fetched) == [value for (value,) in values]


async def test_a_later_upload_that_is_faster_waits_for_its_turn(gateway: Gateway) -> None:
    """The second segment is up long before the first: its records come behind those of the first all the same (G2)."""
    topic = await gateway.topic(flush_ms=60_000, flush_bytes=4_096)
    first_up, second_up = threading.Event(), threading.Event()

    def before(operation: str, key: str) -> None:
        if operation == "put" and key == _segment_keys(gateway)[0]:
            assert first_up.wait(20), "the first segment was never let through"

    def after(operation: str, key: str) -> None:
        if operation == "put" and key != _segment_keys(gateway)[0]:
            second_up.set()

    gateway.store.before, gateway.store.after = before, after
    first = gateway.submit(topic, _full(1))
    await _until_on_their_way(gateway, 1)
    second = gateway.submit(topic, _full(2))
    assert await asyncio.to_thread(second_up.wait, 10)
    await asyncio.sleep(0.05)
    assert not second.settled.done()
    first_up.set()
    await asyncio.wait([first.settled, second.settled])
    assert first.settled.result() == (AppendedRange(0, 0, 1),)
    assert second.settled.result() == (AppendedRange(0, 1, 1),)


async def test_a_segment_that_can_not_be_uploaded_costs_its_flush_alone(gateway: Gateway) -> None:
    """Its batches are refused and never appear; those behind it, encoded for offsets after it, are written without a gap."""
    topic = await gateway.topic(flush_ms=60_000, flush_bytes=4_096)
    with Gate(gateway.store, "put_if_absent") as gate:
        first = gateway.submit(topic, _full(1))
        await gate.wait_until_reached()
        hang = gateway.store.before

        def fail_the_second(operation: str, key: str) -> None:
            if operation == "put" and key == _segment_keys(gateway)[1]:
                raise StoreUnavailable(key, "full", may_have_happened=False)
            hang(operation, key)

        gateway.store.before = fail_the_second
        refused = gateway.submit(topic, _full(2))
        await _until_on_their_way(gateway, 2)
        third = gateway.submit(topic, _full(3))
        await _until_on_their_way(gateway, 3)
        gate.open()
        await asyncio.wait([first.settled, refused.settled, third.settled])
    assert first.settled.result() == (AppendedRange(0, 0, 1),)
    assert isinstance(refused.settled.exception(), BackOff)
    assert third.settled.result() == (AppendedRange(0, 1, 1),)
    assert [value[:1] for value in values_of(await gateway.fetch())] == [b"1", b"3"]
