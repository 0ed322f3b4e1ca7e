"""A topic through everything that may be done to it, by two gateways that share it, against a plain model of lists."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import OffsetOutOfRange, RequestRefused, TidelogError, TopicReplaced, UnknownTopic
from log_format.inspection.verify import verify_topic
from log_format.segments.reader import SegmentReader
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from tests.support.records import batch_of

gateways = st.integers(0, 1)


class ModelTopic:
    """What a topic is: a list of values per partition, and where each begins."""

    def __init__(self, topic_id: str, partition_count: int) -> None:
        self.topic_id = topic_id
        self.values: list[list[bytes]] = [[] for _ in range(partition_count)]
        self.log_starts = [0] * partition_count


class TopicMachine(RuleBasedStateMachine):
    """Every rule does the same to the topic, by one of two gateways, and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.numbers = count(1)
        self.logs = [TopicLog(self.store, "t", SystemClock()) for _ in range(2)]
        self.committers = [Committer(log, new_id=self.new_id) for log in self.logs]
        self.reader = SegmentReader(self.store)
        self.model: ModelTopic | None = None
        self.stale: Batch | None = None
        """A batch for an incarnation that may be gone."""

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    @rule(gateway=gateways, partition_count=st.integers(1, 3))
    def create(self, gateway: int, partition_count: int) -> None:
        topic_id = self.new_id()
        change = CreateTopic(name="t", partition_count=partition_count, config=TopicConfig.parse({}), topic_id=topic_id)
        if self.model is None:
            assert self.committers[gateway].commit(change).result is True
            self.model = ModelTopic(topic_id, partition_count)
        elif len(self.model.values) == partition_count:
            assert self.committers[gateway].commit(change).result is False
        else:
            refused(RequestRefused, lambda: self.committers[gateway].commit(change))

    @rule(gateway=gateways)
    def delete(self, gateway: int) -> None:
        if self.model is None:
            refused(UnknownTopic, lambda: self.committers[gateway].commit(DeleteTopic()))
        else:
            self.committers[gateway].commit(DeleteTopic())
            self.model = None

    @precondition(lambda self: self.model is not None)
    @rule(gateway=gateways, more=st.integers(0, 1))
    def add_partitions(self, gateway: int, more: int) -> None:
        assert self.model is not None
        self.committers[gateway].commit(AlterTopic(partition_count=len(self.model.values) + more, config={}))
        self.model.values += [[]] * more
        self.model.log_starts += [0] * more
        self.model.values = [list(values) for values in self.model.values]

    @precondition(lambda self: self.model is not None)
    @rule(
        gateway=gateways, requests=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=3)
    )
    def append(self, gateway: int, requests: list[list[int]]) -> None:
        assert self.model is not None
        batches, expected = [], []
        for request in requests:
            partitions = [partition % len(self.model.values) for partition in request]
            values = [f"v{next(self.numbers)}".encode() for _ in partitions]
            batches.append(self.batch(partitions, values))
            places = []
            for partition in sorted(set(partitions)):
                places.append((partition, len(self.model.values[partition]), partitions.count(partition)))
                self.model.values[partition] += [v for p, v in zip(partitions, values, strict=True) if p == partition]
            expected.append(places)
        result = self.committers[gateway].commit(Append(batches, self.new_id)).result
        assert [
            []
            if isinstance(places, TidelogError | Duplicate)
            else [(p.partition, p.base_offset, p.count) for p in places]
            for places in result
        ] == expected
        self.stale = batches[0]

    @precondition(lambda self: self.stale is not None)
    @rule(gateway=gateways)
    def append_for_another_incarnation(self, gateway: int) -> None:
        assert self.stale is not None
        if self.model is not None and self.model.topic_id == self.stale.topic_id:
            return
        (outcome,) = self.committers[gateway].commit(Append([self.stale], self.new_id)).result
        assert isinstance(outcome, UnknownTopic if self.model is None else TopicReplaced)

    @precondition(lambda self: self.model is not None)
    @rule(gateway=gateways, partition=st.integers(0, 3), offset=st.integers(-1, 12))
    def delete_records(self, gateway: int, partition: int, offset: int) -> None:
        assert self.model is not None
        partition %= len(self.model.values)
        end = len(self.model.values[partition])
        change = DeleteRecords(before={partition: offset})
        if offset > end:
            refused(OffsetOutOfRange, lambda: self.committers[gateway].commit(change))
            return
        log_start = max(self.model.log_starts[partition], end if offset == -1 else offset)
        assert self.committers[gateway].commit(change).result == {partition: log_start}
        self.model.log_starts[partition] = log_start

    @precondition(lambda self: self.logs[0].state.version >= 0)
    @rule(gateway=gateways)
    def checkpoint(self, gateway: int) -> None:
        version = self.logs[gateway].state.version
        if version >= 0:
            write_checkpoint(self.store, "t", version, SystemClock().now_ms())

    @rule(gateway=gateways)
    def restart(self, gateway: int) -> None:
        self.logs[gateway] = TopicLog(self.store, "t", SystemClock())
        self.committers[gateway] = Committer(self.logs[gateway], new_id=self.new_id)

    @invariant()
    def both_see_the_model(self) -> None:
        for log in self.logs:
            state = log.refresh()
            if self.model is None:
                assert not state.exists
                continue
            assert state.topic_id == self.model.topic_id
            assert state.next_offsets.tolist() == [len(values) for values in self.model.values]
            assert state.log_starts.tolist() == self.model.log_starts

    def teardown(self) -> None:
        """At the end every record is read, and the topic verified."""
        if self.model is None:
            refused(UnknownTopic, lambda: verify_topic(self.store, "t"))
            return
        state = self.logs[0].refresh()
        for partition, values in enumerate(self.model.values):
            found: list[bytes] = []
            offset = self.model.log_starts[partition]
            while (at := state.manifest.find(partition, offset)) is not None:
                table = self.reader.read("t", at.segment, partition, offset, bytes_max=1 << 30, records_max=1 << 30)
                found += table["value"].to_pylist()
                offset = at.end_offset
            assert found == values[self.model.log_starts[partition] :]
        report = verify_topic(self.store, "t")
        assert report.problems == ()
        assert report.record_count == sum(map(len, self.model.values)) - sum(self.model.log_starts)

    def batch(self, partitions: list[int], values: list[bytes]) -> Batch:
        assert self.model is not None
        return batch_of(self.model.topic_id, values, partitions, record_bytes_max=10)


def refused(kind: type[TidelogError], act: Callable[[], object]) -> None:
    """The act is refused with such an error, which says that nothing happened."""
    with pytest.raises(kind) as caught:
        act()
    assert not caught.value.may_have_happened


class TestTopic(TopicMachine.TestCase):  # type: ignore[misc,valid-type]
    """Whatever is done by whom in which order, both gateways and the log agree with the model."""

    settings = settings(max_examples=40, stateful_step_count=25)
