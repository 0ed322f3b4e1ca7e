"""A topic in a memory store, with everything that reads and writes it, and a clock that moves only when told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committed, Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append, Batch
from log_format.topic.appended import Appended
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig

EPOCH_MS = 1_763_683_200_000


class ManualClock:
    """Time stands still but for ``sleep_ms`` and ``pass_ms``; ``slept`` notes every sleep."""

    def __init__(self) -> None:
        self.elapsed_ms = 0
        self.slept: list[int] = []

    def now_ms(self) -> int:
        return EPOCH_MS + self.elapsed_ms

    def monotonic_ms(self) -> int:
        return self.elapsed_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.slept.append(duration_ms)
        self.elapsed_ms += duration_ms

    def pass_ms(self, duration_ms: int) -> None:
        self.elapsed_ms += duration_ms


class ScriptedStore(MemoryStore):
    """A memory store that does something else for the next operations of a name, and notes all operations.

    ``script["put_if_absent"]`` holds what to do instead, first one first: an exception to raise, or a function of the real
    operation and its arguments. ``None``: the real operation.
    """

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.script: dict[str, list[Any]] = {}
        self.requests: list[tuple[str, str]] = []

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        real = super().get
        return self._perform("get", lambda key: real(key, bytes_max=bytes_max), key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._perform("get_range", super().get_range, key, start, end)

    def head(self, key: str) -> Any:
        return self._perform("head", super().head, key)

    def put(self, key: str, data: bytes) -> None:
        self._perform("put", super().put, key, data)

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._perform("put_if_absent", super().put_if_absent, key, data)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Any]:
        real = super().list
        return self._perform("list", lambda key: real(key, start_after=start_after), prefix)

    def _perform(self, name: str, real: Callable[..., Any], key: str, *arguments: Any) -> Any:
        self.requests.append((name, key.rpartition("/")[2]))
        steps = self.script.get(name)
        step = steps.pop(0) if steps else None
        if step is None:
            return real(key, *arguments)
        if isinstance(step, BaseException):
            raise step
        return step(real, key, *arguments)


@dataclass
class Gateway:
    """One who reads and writes the topic."""

    log: TopicLog
    committer: Committer


@dataclass
class TopicBench:
    """A topic, its store, its clock; ids are ``id-1``, ``id-2``, …"""

    store: ScriptedStore
    clock: ManualClock
    name: str = "flights"
    _ids: Iterator[int] = field(default_factory=lambda: count(1))

    def new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def gateway(self) -> Gateway:
        """Somebody who knows nothing yet."""
        log = TopicLog(self.store, self.name, self.clock)
        return Gateway(log, Committer(log, new_id=self.new_id, jitter=lambda: 1.0))

    def create(self, partition_count: int = 2, *, topic_id: str | None = None, **config: Any) -> Gateway:
        """Make the topic; settings have underscores for dots."""
        gateway = self.gateway()
        settings = {name.replace("_", "."): value for name, value in config.items()}
        gateway.committer.commit(
            CreateTopic(
                name=self.name,
                partition_count=partition_count,
                config=TopicConfig.parse(settings),
                topic_id=topic_id if topic_id is not None else self.new_id(),
            )
        )
        return gateway

    def batch(self, gateway: Gateway, values: dict[int, list[bytes]], *, timestamp_ms: int = EPOCH_MS) -> Batch:
        """One request's records; the timestamps count up from ``timestamp_ms``, in the order of the dictionary."""
        partitions = [partition for partition, of_partition in values.items() for _ in of_partition]
        flat = [value for of_partition in values.values() for value in of_partition]
        columns = [
            pa.array([(timestamp_ms + n) * 1000 for n in range(len(flat))], BATCH_SCHEMA.field("timestamp").type),
            pa.nulls(len(flat), pa.binary()),
            pa.array(flat, pa.binary()),
            pa.nulls(len(flat), BATCH_SCHEMA.field("headers").type),
        ]
        return Batch(
            topic_id=gateway.log.state.topic_id or "none",
            records=pa.table(columns, schema=BATCH_SCHEMA),
            partitions=np.array(partitions, np.int32),
            record_bytes_max=max(map(len, flat)),
        )

    def append(self, gateway: Gateway, *batches: dict[int, list[bytes]]) -> Committed[Any]:
        """Append batches in one flush."""
        return gateway.committer.commit(Append([self.batch(gateway, values) for values in batches], self.new_id))

    def append_values(self, gateway: Gateway, values: dict[int, list[bytes]]) -> tuple[Appended, ...]:
        """Append one batch; where it is."""
        places: tuple[Appended, ...] = self.append(gateway, values).result[0]
        return places

    def key(self, name: str) -> str:
        """An object of the topic's log."""
        return f"topics/{self.name}/_delta_log/{name}"


@pytest.fixture
def bench() -> TopicBench:
    """A topic that does not exist yet."""
    clock = ManualClock()
    return TopicBench(ScriptedStore(clock), clock)
