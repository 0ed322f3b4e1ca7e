"""Readers of a topic's schemas in a gateway, while the registry can't be read."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.system_tables.schemas import LOOK_PAUSE_S
from log_format.errors import BackOff, RequestRefused, StoreUnavailable
from log_format.topic.config import Subjects
from tests.support.engine import make_gateway
from tests.support.records import records_of
from tests.support.registry import record
from tests.support.typed_topic import register_in

SUBJECTS = Subjects("t-value", "")


def fail_registry(_operation: str, key: str) -> None:
    """No request for the registry is answered."""
    if key.startswith("system/schemas/"):
        raise StoreUnavailable(key, "it is slow", may_have_happened=False)


async def test_nobody_is_refused_by_what_a_gateway_knew() -> None:
    """Records that fit a known schema are taken; about others, which a newer schema may allow, nothing is said for now."""
    gateway = make_gateway()
    register_in(gateway.store, "t-value", record("Order", id="long"))
    await gateway.topic("t", value_schema="t-value")
    readers = gateway.engine.schema_readers
    await readers.of(SUBJECTS)
    gateway.store.before = fail_registry
    known = await readers.of(SUBJECTS)
    assert known.typed(records_of([b'{"id":1}'], [None], 0))[1] == []
    misfits = known.typed(records_of([b'{"id":1,"note":"n"}'], [None], 0))[1]
    with pytest.raises(BackOff):
        await readers.newer(SUBJECTS, misfits, known)
    with pytest.raises(BackOff):
        await readers.of(Subjects("unknown-value", ""))


async def test_records_are_judged_again_when_another_request_has_looked_meanwhile() -> None:
    """A request whose records were found unfit by older readers is not refused, though the gateway knows the newer schema."""
    gateway = make_gateway()
    register_in(gateway.store, "t-value", record("Order", id="long"))
    await gateway.topic("t", value_schema="t-value")
    readers = gateway.engine.schema_readers
    known = await readers.of(SUBJECTS)
    records = records_of([b'{"id":1,"note":"n"}'], [None], 0)
    misfits = known.typed(records)[1]
    register_in(gateway.store, "t-value", record("Order", id="long", note=("string", "none")))
    await readers.know(SUBJECTS)
    newer = await readers.newer(SUBJECTS, misfits, known)
    assert newer is not None
    assert newer.typed(records)[1] == []
    assert await readers.newer(SUBJECTS, misfits, newer) is None


async def test_a_flood_of_unfit_records_costs_few_looks() -> None:
    """Eight senders of records that fit nothing, each as fast as it is refused, have four looks a second made."""
    gateway = make_gateway()
    register_in(gateway.store, "t-value", record("Order", id="long"))
    await gateway.topic("t", value_schema="t-value")
    readers, clock = gateway.engine.schema_readers, gateway.engine.clock
    known = await readers.of(SUBJECTS)
    misfits = known.typed(records_of([b"{}"], [None], 0))[1]
    before = len(gateway.store.requests)
    await readers.newer(SUBJECTS, misfits, known, clock.monotonic_ms())
    requests_of_a_look = len(gateway.store.requests) - before
    assert requests_of_a_look > 0
    refused = 0
    began = time.monotonic()

    async def send() -> None:
        nonlocal refused
        while time.monotonic() - began < 4 * LOOK_PAUSE_S:
            assert await readers.newer(SUBJECTS, misfits, known, clock.monotonic_ms()) is None
            refused += 1

    await asyncio.gather(*(send() for _ in range(8)))
    lasted = time.monotonic() - began
    assert refused >= 16
    looks = (len(gateway.store.requests) - before) / requests_of_a_look
    assert looks <= lasted / LOOK_PAUSE_S + 2, (looks, lasted)


async def test_a_schema_registered_a_moment_ago_counts_during_a_flood() -> None:
    """A record that fits only the newest schema is not refused, although a look was made just before it was registered."""
    gateway = make_gateway()
    register_in(gateway.store, "t-value", record("Order", id="long"))
    await gateway.topic("t", value_schema="t-value")
    readers = gateway.engine.schema_readers
    known = await readers.of(SUBJECTS)
    records = records_of([b'{"id":1,"note":"n"}'], [None], 0)
    misfits = known.typed(records)[1]
    assert await readers.newer(SUBJECTS, misfits, known, gateway.engine.clock.monotonic_ms()) is None
    register_in(gateway.store, "t-value", record("Order", id="long", note=("string", "none")))
    began = time.monotonic()
    newer = await readers.newer(SUBJECTS, misfits, known, gateway.engine.clock.monotonic_ms())
    assert newer is not None
    assert newer.typed(records)[1] == []
    assert time.monotonic() - began < 20 * LOOK_PAUSE_S


async def test_a_topic_whose_subject_has_no_schema_costs_few_looks() -> None:
    """Its records are refused before they are judged; a flood of them is as cheap."""
    gateway = make_gateway()
    register_in(gateway.store, "t-value", record("Order", id="long"))
    readers = gateway.engine.schema_readers
    await readers.of(SUBJECTS)
    before, began = len(gateway.store.requests), time.monotonic()
    for _ in range(4):
        with pytest.raises(RequestRefused):
            await readers.of(Subjects("unknown-value", ""))
    assert len(gateway.store.requests) - before <= 2 * (1 + (time.monotonic() - began) / LOOK_PAUSE_S)
    assert time.monotonic() - began >= 2 * LOOK_PAUSE_S
