"""Readers of a topic's schemas in a gateway, while the registry can't be read."""

from __future__ import annotations

import pytest

from log_format.errors import BackOff, StoreUnavailable
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
