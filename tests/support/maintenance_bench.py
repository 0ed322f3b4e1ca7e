"""A topic in a memory store with a clock that moves only when told, what writes it, and a maintenance job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.cleaned_log import cleaned_below
from log_format.delta.committer import Committer
from log_format.inspection.verify import verify_topic
from log_format.segments.reader import SegmentReader
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.change import Change
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents
from tests.support.records import batch_of

SMALL = Policy(flushed_min=2, sources_max=4, fan_in=2)


class NotedStore(MemoryStore):
    """Sees to it that before a commit is deleted a note says so: a reader of a log that does not list it relies on that."""

    def delete(self, key: str) -> None:
        root, is_log, name = key.partition("_delta_log/")
        version = layout.commit_version(name) if is_log else None
        assert version is None or version < cleaned_below(self, root), f"{key} is deleted, and nothing says so"
        super().delete(key)

    def take_over(self, other: NotedStore) -> None:
        """Have the objects that the other one has."""
        self._objects, self._keys = other._objects.copy(), other._keys.copy()


@dataclass
class MaintenanceBench:
    """Topic ``t``. ``job``: maintenance in this process, with a small policy."""

    clock: ManualClock = field(default_factory=ManualClock)
    numbers: Any = field(default_factory=lambda: count(1))
    report: CollectedEvents = field(default_factory=CollectedEvents)
    lists_from_key: bool = True
    make_store: type[NotedStore] = NotedStore

    def __post_init__(self) -> None:
        self.store = self.make_store(clock=self.clock, lists_from_key=self.lists_from_key)
        self.log = TopicLog(self.store, "t", self.clock)
        self.committer = Committer(self.log, new_id=self.new_id, jitter=lambda: 1.0)

    def copied(self) -> MaintenanceBench:
        """One of which all is as it is here now: what happens to either is nothing to the other."""
        number, clock = next(self.numbers), ManualClock()
        self.numbers = count(number)
        clock.pass_ms(self.clock.elapsed_ms)
        other = replace(self, clock=clock, numbers=count(number), report=CollectedEvents())
        other.store.take_over(self.store)
        other.log.refresh()
        return other

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def create(self, partition_count: int = 1, **config: Any) -> None:
        """Settings have underscores for dots."""
        settings = TopicConfig.parse({name.replace("_", "."): value for name, value in config.items()})
        self.commit(CreateTopic(name="t", partition_count=partition_count, config=settings, topic_id=self.new_id()))

    def commit(self, change: Change[Any]) -> Any:
        return self.committer.commit(change).result

    def append(self, *records: tuple[int, bytes | None, bytes | None], timestamp_ms: int | None = None) -> None:
        """One flush of (partition, key, value)."""
        time_ms = self.clock.now_ms() if timestamp_ms is None else timestamp_ms
        self.log.refresh()
        batch = batch_of(
            self.log.state.topic_id or "none",
            [value for _, _, value in records],
            [partition for partition, _, _ in records],
            keys=[key for _, key, _ in records],
            timestamps_ms=time_ms,
            record_bytes_max=10,
        )
        (outcome,) = self.commit(Append([batch], self.new_id))
        assert not isinstance(outcome, Exception)

    def job(self, policy: Policy = SMALL, **more: Any) -> Job:
        return Job(
            store=self.store,
            workers=LocalWorkers(self.store),
            clock=self.clock,
            report=self.report,
            policy=policy,
            new_id=self.new_id,
            **more,
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.report.events if event == name]

    def read(self, partition: int = 0, state: TopicState | None = None) -> list[tuple[int, bytes | None]]:
        """Offset and value of every record, as a reader that has just started; or at a state, which may be another topic's."""
        state, reader = state or TopicLog(self.store, "t", self.clock).refresh(), SegmentReader(self.store)
        if partition >= state.partition_count:
            return []
        found, offset = [], state.log_start(partition)
        while (at := state.manifest.find(partition, offset)) is not None:
            table = reader.read(state.topic, at.segment, partition, offset, bytes_max=1 << 30, records_max=1 << 30)
            found += list(zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True))
            offset = at.end_offset
        return found

    def stored(self, below: str) -> Sequence[str]:
        return [info.key for info in self.store.list(f"topics/t/{below}")]

    def assert_whole(self) -> None:
        problems = verify_topic(self.store, "t", clock=self.clock).problems
        assert problems == (), problems
