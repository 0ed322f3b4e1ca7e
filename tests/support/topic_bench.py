"""A topic in a store in memory, with what reads and writes it, and a clock that moves only when told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committed, Committer
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState
from tests.support.clocks import EPOCH_MS, ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of


def counted_ids() -> Callable[[], str]:
    """``id-1``, ``id-2``, …"""
    numbers = count(1)
    return lambda: f"id-{next(numbers)}"


@dataclass
class TopicUser:
    """Reads and writes the topic as a gateway does."""

    log: TopicLog
    committer: Committer[TopicState]


@dataclass
class TopicBench:
    """A topic, its store, its clock; ids are ``id-1``, ``id-2``, …"""

    store: FaultyStore
    clock: ManualClock
    name: str = "flights"
    new_id: Callable[[], str] = field(default_factory=counted_ids)

    def gateway(self) -> TopicUser:
        """One more, which knows nothing yet."""
        log = TopicLog(self.store, self.name, self.clock)
        return TopicUser(log, Committer(log, new_id=self.new_id, jitter=lambda: 1.0))

    def create(self, partition_count: int = 2, *, topic_id: str | None = None, **config: Any) -> TopicUser:
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

    def batch(self, gateway: TopicUser, values: dict[int, list[bytes]], *, timestamp_ms: int = EPOCH_MS) -> Batch:
        """One request's records; the timestamps count up from ``timestamp_ms``, in the order of the dictionary."""
        partitions = [partition for partition, of_partition in values.items() for _ in of_partition]
        flat = [value for of_partition in values.values() for value in of_partition]
        times = range(timestamp_ms, timestamp_ms + len(flat))
        return batch_of(gateway.log.state.topic_id or "none", flat, partitions, timestamps_ms=times)

    def append(self, gateway: TopicUser, *batches: dict[int, list[bytes]]) -> Committed[Any, Any]:
        """Append batches in one flush."""
        return gateway.committer.commit(Append([self.batch(gateway, values) for values in batches], self.new_id))

    def append_values(self, gateway: TopicUser, values: dict[int, list[bytes]]) -> tuple[AppendedRange, ...]:
        """Append one batch; where it is."""
        places: tuple[AppendedRange, ...] = self.append(gateway, values).result[0]
        return places

    def key(self, name: str) -> str:
        """An object of the topic's log."""
        return f"topics/{self.name}/_delta_log/{name}"
