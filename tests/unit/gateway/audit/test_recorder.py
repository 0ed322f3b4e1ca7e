"""Audit events are records of ``__audit``, each once, also over an outage of the store."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from gateway.audit.event import AuditEvent
from gateway.audit.recorder import AuditRecorder
from gateway.audit.trail import AuditTrail
from log_format.errors import BackOff, StoreUnavailable
from log_format.layout import AUDIT_TOPIC
from tests.support.engine import Gateway, values_of
from tests.support.waiting import until


def event(request_id: str) -> AuditEvent:
    return AuditEvent(
        time=1_763_683_200_000,
        kind="administration",
        principal="User:a",
        operation="Create",
        resource_type="topic",
        resource="t",
        method="POST",
        route="/v1/topics",
        request_id=request_id,
        source="192.0.2.1",
    )


def recording_of(gateway: Gateway) -> tuple[AuditTrail, AuditRecorder]:
    engine = gateway.engine
    trail = AuditTrail(clock=engine.clock, registry=CollectorRegistry())
    return trail, AuditRecorder(
        trail, engine.topics, engine.administration, engine.producer_ids, clock=engine.clock, back_off_ms=20
    )


async def read(gateway: Gateway) -> list[str]:
    found = await gateway.fetch(topic=AUDIT_TOPIC)
    return [msgspec.json.decode(value)["request_id"] for value in values_of(found)]


async def test_the_topic_is_made_at_the_start_and_events_become_its_records(gateway: Gateway) -> None:
    """In the order in which they came."""
    trail, work = recording_of(gateway)
    work.start()
    await asyncio.to_thread(until, lambda: gateway.engine.topics.known(AUDIT_TOPIC) is not None)
    for number in range(3):
        trail.note(event(str(number)))
    await work.record_durably(event("last"))
    assert await read(gateway) == ["0", "1", "2", "last"]
    assert trail.size_bytes == 0
    await work.stop()


async def test_events_of_an_outage_are_written_once_it_is_over_each_once(gateway: Gateway) -> None:
    """Also the batch whose outcome was lost with the store."""
    trail, work = recording_of(gateway)
    work.start()
    await work.record_durably(event("before"))
    lost = False

    def lose_the_answer(operation: str, key: str) -> None:
        nonlocal lost
        if operation == "put_if_absent" and "_delta_log" in key and not lost:
            lost = True
            gateway.store.go_down()
            raise StoreUnavailable(key, "the answer is lost", may_have_happened=True)

    gateway.store.after = lose_the_answer
    for number in range(5):
        trail.note(event(str(number)))
    await asyncio.to_thread(until, lambda: lost)
    await asyncio.sleep(0.1)
    gateway.store.come_back()
    await work.record_durably(event("after"))
    assert await read(gateway) == ["before", "0", "1", "2", "3", "4", "after"]
    await work.stop()


async def test_what_must_be_recorded_is_refused_while_it_cannot_be(gateway: Gateway) -> None:
    """Administration does not hang on a store that is down, and goes on once it is back."""
    _trail, work = recording_of(gateway)
    work.start()
    await work.record_durably(event("before"))
    gateway.store.go_down()
    with pytest.raises(BackOff):
        await asyncio.wait_for(work.record_durably(event("refused")), 30)
    gateway.store.come_back()
    await work.record_durably(event("after"))
    assert (await read(gateway))[-1] == "after"
    await work.stop()


async def test_the_last_events_are_written_after_the_drain(gateway: Gateway) -> None:
    """What the last requests did is recorded, too."""
    trail, work = recording_of(gateway)
    work.start()
    await work.record_durably(event("first"))
    await gateway.engine.drain()
    trail.note(event("last"))
    await work.stop()
    assert trail.size_bytes == 0
