"""A topic under maintenance, in any order with everything else that happens to it, against a plain model of lists.

What is read, by gateways' way (manifest, ranges) and by a Delta reader's (every row of every live file), is what the model
allows: records are never invented, doubled, reordered or brought back; only retention, a deletion or a later record of the same
key lets one go; a repeated request stays recognized.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.checkpoints import checkpoint
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.errors import RequestRefused, TidelogError
from log_format.inspection.verify import verify_topic
from log_format.segments.reader import SegmentReader
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic import producer_id
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import Duplicate
from log_format.topic.archiving import ArchivedFile, RemoveArchived
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producers import ProducerStamp
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of
from tests.support.table_rows import rows_by_log

PARTITIONS = 2
HOUR_MS = 3_600_000
POLICY = Policy(removes_max=2, target_bytes=9_000, sources_max=5, flushed_min=2, fan_in=2, dirty_ratio=0.3)


@dataclass
class Kept:
    """A record of the model."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    appended_ms: int


@dataclass
class ModelPartition:
    """All records that ever were, and which of them may still be read."""

    records: list[Kept] = field(default_factory=list)
    log_start: int = 0
    present: set[int] = field(default_factory=set)
    archived: set[int] = field(default_factory=set)
    """Offsets below the log start whose rows must be in the table."""


class Killed(BaseException):
    """The process ends here."""


class MortalStore(FaultyStore):
    """The store as a process has it that is killed after so many requests."""

    def __init__(self, objects: ObjectStore, requests: int) -> None:
        super().__init__(objects, before=self._count)
        self._left = requests

    def _count(self, _operation: str, _key: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


class MaintenanceMachine(RuleBasedStateMachine):
    """One gateway writes; two maintainers, which know of each other only by the store, do their rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock, lists_from_key=False)
        self.numbers = count(1)
        self.producer = producer_id.issue(producer_id.PLAIN, self.clock.now_ms(), "0" * 20, b"key")
        self.open_gateway()
        self.jobs = [self.new_job() for _ in range(2)]
        self.last: tuple[Batch, Any] | None = None

    @initialize(keeps_rows=st.booleans())
    def create(self, keeps_rows: bool = True) -> None:
        """With an archive from the beginning, or perhaps later."""
        self.model = [ModelPartition() for _ in range(PARTITIONS)]
        self.sequence = 0
        archive = {"retention.ms": 2 * HOUR_MS, "table.retention.ms": -1} if keeps_rows else {}
        config = TopicConfig.parse(
            {"deleted.file.retention.ms": HOUR_MS, "producer.id.expiration.ms": 10**12, **archive}
        )
        change = CreateTopic(name="t", partition_count=PARTITIONS, config=config, topic_id=self.new_id())
        assert self.committer.commit(change).result is True
        self.last = None

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def new_job(self, store: ObjectStore | None = None) -> Job:
        return Job(
            store=store or self.store,
            workers=LocalWorkers(store or self.store),
            clock=self.clock,
            report=CollectedEvents(),
            policy=POLICY,
            new_id=self.new_id,
        )

    def open_gateway(self) -> None:
        self.log = TopicLog(self.store, "t", self.clock)
        self.committer = Committer(self.log, new_id=self.new_id, jitter=lambda: 1.0)

    @rule(
        flushes=st.lists(
            st.lists(
                st.tuples(st.integers(0, PARTITIONS - 1), st.integers(-1, 2), st.booleans()), min_size=1, max_size=4
            ),
            min_size=1,
            max_size=6,
        ),
        late_hours=st.integers(0, 30),
    )
    def produce(self, flushes: list[list[tuple[int, int, bool]]], late_hours: int) -> None:
        """Each flush is a request; a key of -1 is none, True a tombstone."""
        for rows in flushes:
            timestamp_ms = self.clock.now_ms() - late_hours * HOUR_MS
            batch = self.batch(rows, timestamp_ms)
            (outcome,) = self.committer.commit(Append([batch], self.new_id)).result
            if self.log.state.config.needs_keys and any(key < 0 for _, key, _ in rows):
                assert isinstance(outcome, RequestRefused)
                self.sequence -= 1  # it is not used up
                continue
            assert not isinstance(outcome, TidelogError | Duplicate)
            for place in outcome:
                of_partition = self.model[place.partition]
                assert place.base_offset == len(of_partition.records)
            for row, (partition, _, _) in enumerate(rows):
                of_partition = self.model[partition]
                offset = len(of_partition.records)
                key, value = (batch.records.column(name)[row].as_py() for name in ("key", "value"))
                of_partition.records.append(Kept(offset, key, value, timestamp_ms, self.clock.now_ms()))
                of_partition.present.add(offset)
            self.last = (batch, outcome)

    @precondition(lambda self: self.last is not None)
    @rule()
    def repeat_a_request(self) -> None:
        """G5, through everything that rewriting does to the segments that brought it."""
        assert self.last is not None
        batch, places = self.last
        (outcome,) = self.committer.commit(Append([batch], self.new_id)).result
        assert isinstance(outcome, Duplicate)
        assert outcome.offset_ranges == places

    @rule(partition=st.integers(0, PARTITIONS - 1), part=st.floats(0, 1))
    def delete_records(self, partition: int, part: float) -> None:
        of_partition = self.model[partition]
        offset = int(part * len(of_partition.records))
        self.committer.commit(DeleteRecords(before={partition: offset}, removes_max=2))
        self.moved(partition, max(offset, of_partition.log_start))

    @rule(
        policy=st.sampled_from(["delete", "compact", "compact,delete"]),
        retention_hours=st.sampled_from([-1, 2, 20]),
        retention_bytes=st.sampled_from([-1, 3_000]),
        lag_hours=st.sampled_from([0, 2]),
        delete_retention_hours=st.sampled_from([0, 5]),
        commits_kept=st.sampled_from([-1, 0, 3]),
        files_kept_hours=st.sampled_from([1, 20]),
        files_kept=st.sampled_from([-1, 0, 3]),
        table_hours=st.sampled_from([None, -1, 30]),
        table_bytes=st.sampled_from([None, -1, 9_000]),
    )
    def configure(
        self,
        policy: str,
        retention_hours: int,
        retention_bytes: int,
        lag_hours: int,
        delete_retention_hours: int,
        commits_kept: int,
        files_kept_hours: int,
        files_kept: int,
        table_hours: int | None,
        table_bytes: int | None,
    ) -> None:
        config: dict[str, int | str | None] = {
            "cleanup.policy": policy,
            "retention.ms": retention_hours * HOUR_MS if retention_hours >= 0 else -1,
            "retention.bytes": retention_bytes,
            "min.compaction.lag.ms": lag_hours * HOUR_MS,
            "delete.retention.ms": delete_retention_hours * HOUR_MS,
            "commit.retention.count": commits_kept,
            "deleted.file.retention.ms": files_kept_hours * HOUR_MS,
            "deleted.file.retention.count": files_kept,
            "table.retention.ms": "log" if table_hours is None else max(-1, table_hours * HOUR_MS),
            "table.retention.bytes": "log" if table_bytes is None else table_bytes,
        }
        self.committer.commit(AlterTopic(partition_count=None, config=config))

    @rule(hours=st.sampled_from([1, 3, 30]))
    def time_passes(self, hours: int) -> None:
        self.clock.pass_ms(hours * HOUR_MS + 1)

    @rule(who=st.integers(0, 1), collect=st.booleans(), killed_after=st.one_of(st.none(), st.integers(0, 120)))
    def maintain(self, who: int, collect: bool, killed_after: int | None) -> None:
        """A round, or one by a process that is killed after so many requests."""
        job = self.jobs[who] if killed_after is None else self.new_job(MortalStore(self.store, killed_after))
        self.log.refresh()
        stored = [self.stored_runs(partition) for partition in range(PARTITIONS)]
        with suppress(Killed):
            totals = job.run_round(collect=collect)
            assert totals.failed_topics == 0, job.report
        self.log.refresh()
        for partition in range(PARTITIONS):
            self.expired(partition, self.log.state.log_start(partition), stored[partition])
        self.compacted()
        self.left_the_table()

    @rule()
    def write_checkpoint(self) -> None:
        self.log.refresh()
        checkpoint.write_checkpoint(self.store, "t", self.log.state.version, self.clock.now_ms())

    @rule()
    def restart(self) -> None:
        self.open_gateway()
        self.jobs = [self.new_job() for _ in range(2)]

    @rule()
    def make_anew(self) -> None:
        self.log.refresh()
        state, files = self.log.state, archived_files(self.store, self.log.state, self.clock.now_ms())
        gone = [ArchivedFile(*file) for file in zip(*(each.to_pylist() for each in files.columns), strict=True)]
        change = RemoveArchived(topic_id=state.existing_id, archive_version=state.archive.version, files=gone)
        assert self.committer.commit(change).result
        self.committer.commit(DeleteTopic())
        assert rows_by_log(self.store, "t", self.clock) == []
        self.create()
        self.producer = producer_id.issue(producer_id.PLAIN, self.clock.now_ms(), f"{next(self.numbers):020x}", b"key")

    @invariant()
    def every_reader_agrees(self) -> None:
        for partition in range(PARTITIONS):
            of_partition = self.model[partition]
            expected = [self.row(of_partition.records[offset]) for offset in sorted(of_partition.present)]
            assert self.read_by_offset(partition) == expected
        rows = self.read_every_row()
        for partition in range(PARTITIONS):
            of_partition = self.model[partition]
            visible = [row for row in rows[partition] if row[0] >= of_partition.log_start]
            assert visible == [self.row(of_partition.records[offset]) for offset in sorted(of_partition.present)]
            below = [row for row in rows[partition] if row[0] < of_partition.log_start]
            assert below == [self.row(of_partition.records[offset]) for offset in sorted({row[0] for row in below})]
            assert of_partition.archived <= {row[0] for row in below}
        assert TopicLog(self.store, "t", self.clock).refresh().archive.counts == self.log.state.archive.counts

    def teardown(self) -> None:
        report = verify_topic(self.store, "t", clock=self.clock)
        assert report.problems == ()
        assert report.record_count == sum(len(of_partition.present) for of_partition in self.model)

    def moved(self, partition: int, log_start: int) -> None:
        of_partition = self.model[partition]
        of_partition.log_start = log_start
        if self.log.state.config.table_retention.keeps_archive:
            of_partition.archived |= {offset for offset in of_partition.present if offset < log_start}
        of_partition.present = {offset for offset in of_partition.present if offset >= log_start}

    def stored_runs(self, partition: int) -> list[tuple[int, int]]:
        """(end offset, stored bytes) of each run: retention is judged by what there is before a round's merges."""
        runs = self.log.state.manifest._partitions.get(partition)
        return [] if runs is None else list(zip(runs.ends, runs.sizes, strict=True))

    def expired(self, partition: int, log_start: int, stored: list[tuple[int, int]]) -> None:
        """What maintenance let go of by age and size, it might."""
        of_partition = self.model[partition]
        assert log_start >= of_partition.log_start
        gone = of_partition.records[of_partition.log_start : log_start]
        config = self.log.state.config
        retention_ms, retention_bytes = (config.integer(f"retention.{unit}") for unit in ("ms", "bytes"))
        if gone:
            assert "delete" in config.choice("cleanup.policy")
            left_bytes = sum(size_bytes for end, size_bytes in stored if end > log_start)
            by_size = 0 <= retention_bytes <= left_bytes
            oldest_ms = self.clock.now_ms() - retention_ms
            by_age = retention_ms >= 0 and all(
                record.timestamp_ms < oldest_ms for record in gone if record.offset in of_partition.present
            )
            assert by_age or by_size
        self.moved(partition, log_start)

    def compacted(self) -> None:
        """What key compaction let go of, it might; and it brought nothing back."""
        config = self.log.state.config
        delete_retention_ms = config.integer("delete.retention.ms")
        lag_ms = config.integer("min.compaction.lag.ms")
        for partition, of_partition in enumerate(self.model):
            found = {offset for offset, *_ in self.read_by_offset(partition)}
            assert found <= of_partition.present
            newest = {record.key: record.offset for record in of_partition.records}
            for offset in of_partition.present - found:
                record = of_partition.records[offset]
                assert "compact" in config.choice("cleanup.policy")
                assert record.key is not None
                superseded = newest[record.key] > offset
                expired = record.value is None and self.clock.now_ms() - record.appended_ms >= delete_retention_ms
                assert superseded or expired
                assert offset != of_partition.records[-1].offset
                assert lag_ms == 0 or self.clock.now_ms() - record.timestamp_ms >= lag_ms
            of_partition.present = found

    def left_the_table(self) -> None:
        """What left the table after it had left the log, it might."""
        config = self.log.state.config
        retention_ms, retention_bytes = config.table_retention
        rows = self.read_every_row()
        for partition, of_partition in enumerate(self.model):
            found = {row[0] for row in rows[partition]}
            newest = {record.key: record.offset for record in of_partition.records}
            for offset in of_partition.archived - found:
                record = of_partition.records[offset]
                by_age = retention_ms is not None and 0 <= retention_ms < self.clock.now_ms() - record.timestamp_ms
                by_size = retention_bytes is not None and retention_bytes >= 0
                by_key = "compact" in config.choice("cleanup.policy") and record.key is not None
                superseded = by_key and (newest[record.key] > offset or record.value is None)
                assert by_age or by_size or superseded or not config.table_retention.keeps_archive
            of_partition.archived &= found

    def read_by_offset(self, partition: int) -> list[tuple[int, bytes | None, bytes | None]]:
        """As a gateway that has just started reads."""
        log = TopicLog(self.store, "t", self.clock)
        state, reader = log.refresh(), SegmentReader(self.store)
        found, offset = [], state.log_start(partition)
        while (at := state.manifest.find(partition, offset)) is not None:
            table = reader.read("t", at.segment, partition, offset, bytes_max=1 << 30, records_max=1 << 30)
            found += list(zip(*(table.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True))
            offset = at.end_offset
        return found

    def read_every_row(self) -> list[list[tuple[int, bytes | None, bytes | None]]]:
        """As a Delta reader does: all live files, ordered by their modification times, whatever the log starts are."""
        rows: list[list[tuple[int, bytes | None, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        self.log.refresh()
        for partition, offset, key, value in rows_by_log(self.store, "t", self.clock):
            rows[partition].append((offset, key, value))
        return rows

    def row(self, record: Kept) -> tuple[int, bytes | None, bytes | None]:
        return (record.offset, record.key, record.value)

    def batch(self, rows: list[tuple[int, int, bool]], timestamp_ms: int) -> Batch:
        self.sequence += 1
        return batch_of(
            self.log.state.topic_id,
            [None if dead else b"v%d" % next(self.numbers) for _, _, dead in rows],
            [partition for partition, _, _ in rows],
            keys=[None if key < 0 else b"k%d" % key for _, key, _ in rows],
            timestamps_ms=timestamp_ms,
            record_bytes_max=10,
            stamp=ProducerStamp(self.producer, 0, self.sequence - 1),
        )


class TestMaintenance(MaintenanceMachine.TestCase):  # type: ignore[misc,valid-type]
    """Whatever maintenance does in between, every reader sees what the model allows."""

    # Not explained: for that Python before 3.12 traces every line, which takes longer than a test may.
    settings = settings(max_examples=25, stateful_step_count=25, phases={*Phase} - {Phase.explain})
