"""An engine on a store in memory whose calls can be counted, held up and made to fail."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.bounds import EngineBounds
from gateway.engine.fetching import FetchAnswer, Fetched, FetchFrom, FetchLimits, StartWord
from gateway.engine.open_topic import OpenTopic
from gateway.engine.writer import PendingBatch
from gateway.log_engine import LogEngine
from gateway.memory_budget import MemoryBudget
from log_format.clock import SystemClock
from log_format.errors import StoreUnavailable
from log_format.records.schema import BATCH_SCHEMA
from log_format.store import ObjectInfo
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Batch


class FaultyStore:
    """A store in memory. ``before`` is called with each operation and key, and may raise or wait; ``calls`` counts them."""

    def __init__(self, objects: MemoryStore | None = None) -> None:
        self.objects = objects or MemoryStore()
        self.calls: Counter[str] = Counter()
        self.keys: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.after: Callable[[str, str], None] = lambda operation, key: None
        self.uri = self.objects.uri
        self.lists_from_key = self.objects.lists_from_key

    def _do(self, operation: str, key: str, *arguments: Any, **more: Any) -> Any:
        self.calls[operation] += 1
        self.keys.append((operation, key))
        self.before(operation, key)
        result = getattr(self.objects, operation)(key, *arguments, **more)
        self.after(operation, key)
        return result

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        data: bytes = self._do("get", key)
        return data

    def get_range(self, key: str, start: int, end: int) -> bytes:
        data: bytes = self._do("get_range", key, start, end)
        return data

    def put(self, key: str, data: bytes) -> None:
        self._do("put", key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._do("put_if_absent", key, data)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        listing: Iterator[ObjectInfo] = self._do("list", prefix, start_after=start_after)
        return listing

    def list_directories(self, prefix: str) -> Iterator[str]:
        listing: Iterator[str] = self._do("list_directories", prefix)
        return listing

    def delete(self, key: str) -> None:
        self._do("delete", key)

    def head(self, key: str) -> ObjectInfo:
        info: ObjectInfo = self._do("head", key)
        return info

    def go_down(self) -> None:
        """Refuse everything from now on."""

        def refuse(_operation: str, key: str) -> None:
            raise StoreUnavailable(key, "the store is down", may_have_happened=False)

        self.before = refuse

    def come_back(self) -> None:
        """Do everything again."""
        self.before = self.after = lambda operation, key: None


class Gate:
    """Holds up the operations of one kind until it is opened; a context manager, so that no thread stays behind."""

    def __init__(self, store: FaultyStore, operation: str, suffix: str = "") -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()
        self._store = store

        def wait(current: str, key: str) -> None:
            if current == operation and key.endswith(suffix):
                self.reached.set()
                assert self._opened.wait(20), "the gate was never opened"

        store.before = wait

    async def wait_until_reached(self) -> None:
        """Until somebody stands before the gate."""
        assert await asyncio.to_thread(self.reached.wait, 10)

    def open(self) -> None:
        self._opened.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._store.come_back()


def batch_of(
    topic: OpenTopic,
    values: Sequence[bytes | None],
    partitions: list[int] | int = 0,
    timestamp_ms: int = 1000,
    keys: list[bytes] | None = None,
) -> Batch:
    """Records with these values, routed for the topic as it is known."""
    topic_id = topic.state.topic_id
    assert topic_id is not None
    count = len(values)
    records = pa.table(
        {
            "timestamp": pa.array([timestamp_ms * 1000] * count, BATCH_SCHEMA.field("timestamp").type),
            "key": pa.nulls(count, pa.binary()) if keys is None else pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(count, BATCH_SCHEMA.field("headers").type),
        },
        schema=BATCH_SCHEMA,
    )
    places = [partitions] * count if isinstance(partitions, int) else partitions
    return Batch(
        topic_id=topic_id,
        records=records,
        partitions=np.array(places, np.int32),
        record_bytes_max=max(len(value or b"") for value in values),
    )


@dataclass
class Gateway:
    """An engine and what tests ask of it."""

    store: FaultyStore
    engine: LogEngine
    request_memory: MemoryBudget
    memory: MemoryBudget = field(default_factory=lambda: MemoryBudget(1 << 28, "answers"))

    async def topic(self, name: str = "t", partition_count: int = 1, **config: object) -> OpenTopic:
        """A topic, made; settings with underscores for dots."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        administration = self.engine.administration
        await administration.create(name, partition_count, administration.parse_config(given))
        return await self.engine.open_topic(name)

    def submit(
        self,
        topic: OpenTopic,
        values: Sequence[bytes | None],
        partitions: list[int] | int = 0,
        *,
        keys: list[bytes] | None = None,
    ) -> PendingBatch:
        return self.engine.append(topic, batch_of(topic, values, partitions, keys=keys), None)

    async def append(
        self,
        topic: OpenTopic,
        values: Sequence[bytes | None],
        partitions: list[int] | int = 0,
        *,
        keys: list[bytes] | None = None,
    ) -> Any:
        return await self.engine.acknowledged(topic, self.submit(topic, values, partitions, keys=keys))

    async def fetch_all(
        self,
        wanted: list[FetchFrom],
        *,
        records: int = 500,
        bytes_max: int = 1 << 20,
        bytes_min: int = 1,
        wait_ms: int = 0,
    ) -> FetchAnswer:
        limits = FetchLimits(records_max=records, bytes_max=bytes_max, bytes_min=bytes_min, wait_ms_max=wait_ms)
        return await self.engine.fetching.fetch(wanted, limits, self.memory, self.engine.clock.monotonic_ms())

    async def fetch(
        self, offset: int | StartWord = "earliest", partition: int = 0, topic: str = "t", **limits: int
    ) -> Fetched:
        """One partition; raises its error."""
        answer = await self.fetch_all([FetchFrom(topic=topic, partition=partition, offset=offset)], **limits)
        answer.reservation.release()
        (part,) = answer.parts
        if not isinstance(part, Fetched):
            raise part
        return part

    def forget_tail(self) -> None:
        """Everything is read from the store from now on."""
        tail = self.engine._tail
        tail.bytes_max = 0
        while tail._flushes:
            tail._evict()


def values_of(fetched: Fetched) -> list[bytes]:
    """The values that came."""
    return [value for table in fetched.records.tables for value in table.column("value").to_pylist()]


def offsets_of(fetched: Fetched) -> list[int]:
    """The offsets that came."""
    return [offset for table in fetched.records.tables for offset in table.column("offset").to_pylist()]


class Tools:
    """What test modules use; they can't import this file."""

    batch_of = staticmethod(batch_of)
    values_of = staticmethod(values_of)
    offsets_of = staticmethod(offsets_of)
    Gate = Gate

    @staticmethod
    def gateway(
        store: FaultyStore | None = None,
        objects: MemoryStore | None = None,
        ownership: Ownership | None = None,
        **bounds: int,
    ) -> Gateway:
        """A gateway of its own; several may share ``objects``."""
        store = store or FaultyStore(objects)
        clock, request_memory = SystemClock(), MemoryBudget(1 << 30, "tests")
        engine = LogEngine(
            store,
            store,
            bounds=EngineBounds(write_threads=4, read_threads=4, **bounds),
            ownership=ownership or Ownership("a", Peers(clock), "preferred"),
            clock=clock,
            registry=CollectorRegistry(),
            request_memory=request_memory,
        )
        return Gateway(store, engine, request_memory)

    @staticmethod
    def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a test's coroutine; it must end within 30 seconds."""

        async def bounded() -> None:
            async with asyncio.timeout(30):
                await work()

        asyncio.run(bounded())


@pytest.fixture
def tools() -> Tools:
    """Tools for engine tests."""
    return Tools()
