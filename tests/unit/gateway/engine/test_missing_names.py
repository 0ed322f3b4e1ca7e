"""A call that names very many topics that are not there costs the store a bounded number of requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.call import begin_call
from gateway.engine.fetch_answer import FetchFrom
from gateway.engine.open_topics import MISSING_LOOKS_MAX
from log_format.errors import UnknownTopic
from log_format.store import ObjectInfo
from log_format.stores.memory import MemoryStore
from tests.support.engine import make_gateway

NAMED = 5_000


class Counting(MemoryStore):
    """``count``: requests, a listing's being one."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        self.count += 1
        return super().get(key, bytes_max=bytes_max)

    def head(self, key: str) -> ObjectInfo:
        self.count += 1
        return super().head(key)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        self.count += 1
        return super().list(prefix, start_after=start_after)

    def list_directories(self, prefix: str) -> Iterator[str]:
        self.count += 1
        return super().list_directories(prefix)


@pytest.mark.parametrize("at_once", [True, False])
async def test_looks_at_missing_names_are_bounded(at_once: bool) -> None:
    """Beside each other, as in Metadata, and one after another, as in Produce. Topics that are there are found among them all,
    also those that are not open here."""
    store = Counting()
    other = make_gateway(objects=store)
    for number in range(3):
        await other.topic(f"there-{number}")
    await other.engine.drain()
    gateway = make_gateway(objects=store)
    names = [f"missing-{number}" for number in range(NAMED)] + [f"there-{number}" for number in range(3)]
    begin_call()
    before, arrival_ms = store.count, gateway.engine.clock.monotonic_ms()
    if at_once:
        looked = await gateway.engine.start_resolver.fresh(
            [FetchFrom(topic=name, partition=0) for name in names], arrival_ms
        )
        found = [name for name, topic in looked.items() if not isinstance(topic, Exception) and topic.state.exists]
    else:
        found = []
        for name in names:
            try:
                found.append((await gateway.engine.administration.describe(name)).topic)
            except UnknownTopic:
                continue
    assert sorted(found) == [f"there-{number}" for number in range(3)]
    assert store.count - before < 5 * MISSING_LOOKS_MAX
    begin_call()
    before = store.count
    with pytest.raises(UnknownTopic):
        await gateway.engine.administration.describe("missing-0")
    assert store.count > before, "another call looks by itself"
    await gateway.engine.drain()
