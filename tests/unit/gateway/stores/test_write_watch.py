"""A gateway that can't write knows since when and why, and that it is over."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from gateway.stores.write_watch import FailingWrites, WriteWatch
from log_format.errors import ObjectExists, StoreReason, StoreUnavailable
from log_format.stores.memory import MemoryStore
from tests.support.clocks import ManualClock


class Refusing(MemoryStore):
    """Refuses writes while it has a reason to."""

    reason: StoreReason | None = None

    def put(self, key: str, data: bytes) -> None:
        self._refuse(key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._refuse(key)
        super().put_if_absent(key, data)

    def copy_if_absent(self, source: str, target: str) -> None:
        self._refuse(target)
        super().copy_if_absent(source, target)

    def _refuse(self, key: str) -> None:
        if self.reason is not None:
            raise StoreUnavailable(key, "no", may_have_happened=False, reason=self.reason)


def test_failures_are_noted_until_a_write_succeeds() -> None:
    """Since the first of them, with the reason of the last; that an object exists is neither a failure nor a success."""
    store, clock = Refusing("s"), ManualClock()
    watch = WriteWatch(store, clock)
    watch.put_if_absent("there", b"1")
    with pytest.raises(ObjectExists):
        watch.put_if_absent("there", b"2")
    assert watch.failing() is None
    since_ms, store.reason = clock.now_ms(), StoreReason.BUSY
    with pytest.raises(StoreUnavailable):
        watch.put("a", b"")
    clock.sleep_ms(5_000)
    store.reason = StoreReason.NO_SPACE
    with pytest.raises(StoreUnavailable):
        watch.put_if_absent("a", b"")
    with pytest.raises(StoreUnavailable):
        watch.copy_all_if_absent([("there", "b")])
    assert watch.failing() == FailingWrites(since_ms=since_ms, reason=StoreReason.NO_SPACE)
    store.reason = None
    with pytest.raises(ObjectExists):
        watch.put_if_absent("there", b"2")
    assert watch.get("there") == b"1"
    assert watch.failing() is not None, "what is there says nothing of what could be written"
    watch.copy_if_absent("there", "b")
    assert watch.failing() is None


def test_the_metric_has_the_reason_while_writes_fail() -> None:
    """1 for the reason of the last failure, 0 for the others and once a write has succeeded."""
    store, registry = Refusing("s"), CollectorRegistry()
    watch = WriteWatch(store, ManualClock())
    watch.tell_in(registry)

    def failing() -> list[str]:
        metric = next(iter(registry.collect()))
        return [one.labels["reason"] for one in metric.samples if one.value]

    assert failing() == []
    for reason in (StoreReason.BUSY, StoreReason.READ_ONLY):
        store.reason = reason
        with pytest.raises(StoreUnavailable):
            watch.put("beat", b"1")
        assert failing() == [reason]
    store.reason = None
    watch.put("beat", b"1")
    assert failing() == []
