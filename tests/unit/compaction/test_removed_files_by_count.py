"""Files that left a busy topic's table go by a count, and their tombstones behind them: no file is ever there without one."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from compaction.collection import DeletionReason
from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints import checkpoint
from log_format.delta.actions import Action, Txn
from log_format.delta.change import Proposal
from log_format.errors import StoreUnavailable
from log_format.segments.run import Run, SegmentRef
from log_format.topic.changes import AlterTopic
from log_format.topic.deleted_files import DELETED_FILES_APP_ID
from log_format.topic.rewrite import NewSegment, Rewrite, RewriteOutcome, UploadedFile
from log_format.topic.segment_tags import Rewritten, add_segment
from log_format.topic.state import TopicState
from tests.support.collected_events import CollectedEvents
from tests.support.faulty_store import FaultyStore
from tests.support.maintenance_bench import MaintenanceBench

MINUTE = 60_000
HOUR = 60 * MINUTE
STEP = 15 * MINUTE
FLUSHES = 90
"""Flushes of a step: a fortieth of four a second, and so are the counts below of what such a topic has."""
KEPT = 750
COLLECTS_ONLY = Policy(flushed_min=10**6, sources_max=10**6, idle_ms=10**15, fan_in=10**6, deletes_at_once=1)


@dataclass(frozen=True)
class Flushes:
    """Segments that are in the table without being read: one commit of them is as good as one each."""

    segments: list[tuple[SegmentRef, Run]]

    def propose(self, state: TopicState, now_ms: int) -> Proposal[None]:
        adds: list[Action] = [
            add_segment(segment, [run], modification_time_ms=now_ms, data_change=True) for segment, run in self.segments
        ]
        end = self.segments[-1][1].end_offset
        return Proposal(
            operation="WRITE", actions=[*adds, Txn(app_id="0", version=end, last_updated=now_ms)], result=None
        )


@dataclass
class BusyTopic:
    """A topic whose flushes are merged, its collector, and what a gateway writes of its checkpoints."""

    bench: MaintenanceBench = field(default_factory=MaintenanceBench)
    removed_at_ms: dict[str, int] = field(default_factory=dict)
    """By path: every file that ever left the table."""

    def __post_init__(self) -> None:
        self.collector = self.bench.job(COLLECTS_ONLY)

    def segment(self, path: str, base: int, end: int) -> tuple[SegmentRef, Run]:
        now_ms = self.bench.clock.now_ms()
        self.bench.store.put(f"topics/t/{path}", b"x")
        return SegmentRef(path, 100, 10, 0), Run(0, base, end, end - base, 1, now_ms, now_ms)

    def flush(self, count: int) -> None:
        base = self.bench.log.refresh().high_watermark(0)
        made = [
            self.segment(layout.segment_path(self.bench.new_id()), offset, offset + 1)
            for offset in range(base, base + count)
        ]
        self.bench.commit(Flushes(made))

    def merge(self) -> None:
        """All flushed segments become one."""
        state, now_ms = self.bench.log.refresh(), self.bench.clock.now_ms()
        sources = [each for each in state.manifest.segments() if each.path.startswith(layout.SEGMENTS)]
        path = layout.compacted_path(self.bench.new_id())
        end = state.high_watermark(0)
        segment, run = self.segment(path, end - len(sources), end)
        change = Rewrite(
            topic_id=state.topic_id or "",
            sources=sources,
            source_record_count=len(sources),
            added=[NewSegment(segment=segment, run=run, modification_time_ms=now_ms, rewritten=Rewritten(1))],
            uploaded=UploadedFile(path, now_ms),
        )
        assert self.bench.commit(change) is RewriteOutcome.COMMITTED
        self.removed_at_ms |= {source.path: now_ms for source in sources}

    def write_checkpoint(self) -> None:
        version = self.bench.log.refresh().version
        checkpoint.write_checkpoint(self.bench.store, "t", version, self.bench.clock.now_ms())

    def step(self) -> None:
        self.flush(FLUSHES)
        self.bench.clock.pass_ms(STEP)
        self.merge()
        self.write_checkpoint()

    def collect(self) -> None:
        assert self.collector.run_round(collect=True).failed_topics == 0

    def stored(self) -> set[str]:
        return {
            key.removeprefix("topics/t/") for below in ("segments/", "compacted/") for key in self.bench.stored(below)
        }

    def named(self) -> set[str]:
        version = self.bench.log.refresh().version
        table = checkpoint.reconcile_log(self.bench.store, "t", version, self.bench.clock.now_ms())
        assert table is not None
        return checkpoint.removed_paths(table)

    def assert_no_orphans(self) -> int:
        """How many tombstones there are."""
        live, named = {segment.path for segment in self.bench.log.refresh().manifest.segments()}, self.named()
        assert self.stored() - live <= named, "a removed file is there that no tombstone names"
        assert not [each for each in self.bench.events("delete") if each["why"] == DeletionReason.ORPHAN.value]
        return len(named)

    def assert_gone_by_count(self) -> None:
        """Just collected: the newest so many are there, with those of an hour; the others are not."""
        now_ms = self.bench.clock.now_ms()
        times = sorted(self.removed_at_ms.values(), reverse=True)
        limit_ms = min(times[KEPT - 1], now_ms - HOUR) if len(times) >= KEPT else 0
        kept = {
            path for path, removed_ms in self.removed_at_ms.items() if removed_ms >= max(limit_ms, now_ms - 24 * HOUR)
        }
        assert self.stored() & self.removed_at_ms.keys() == kept
        assert kept <= self.named()


@pytest.fixture
def topic() -> BusyTopic:
    """It keeps ``KEPT`` files."""
    made = BusyTopic()
    made.bench.create(1, deleted_file_retention_count=KEPT, retention_ms=-1)
    return made


def notes(topic: BusyTopic) -> list[str]:
    """The commits that say something of deleted files, as far as they are there."""
    store, commits = topic.bench.store, topic.bench.stored("_delta_log/")
    said = f'"{DELETED_FILES_APP_ID}"'.encode()
    return [key for key in commits if layout.commit_version(key) is not None and said in store.get(key)]


def test_a_busy_day(topic: BusyTopic) -> None:
    """Through a day at an even rate, a burst and some hours more: each file has its tombstone while it is there, goes by the
    count, and its tombstone goes with the next collection but one."""

    def goes_on(hours: int) -> int:
        """The most tombstones at once."""
        most = 0
        for _ in range(hours * HOUR // STEP):
            topic.step()
            most = max(most, topic.assert_no_orphans())
            topic.collect()
            topic.assert_gone_by_count()
        return most

    assert KEPT + FLUSHES <= goes_on(24) <= KEPT + 3 * FLUSHES
    topic.flush(50_000 // 40)
    goes_on(3)
    assert KEPT + FLUSHES <= goes_on(1) <= KEPT + 3 * FLUSHES


def test_a_quiet_topic_gets_no_commit(topic: BusyTopic) -> None:
    """While there are no more removed files than are kept, they go by age: collecting commits nothing."""
    topic.step()
    topic.bench.clock.pass_ms(24 * HOUR + 1)
    version = topic.bench.log.refresh().version
    topic.collect()
    assert len(topic.bench.events("delete")) >= FLUSHES
    topic.collect()
    assert topic.bench.log.refresh().version == version


def test_every_file_stays_on_demand(topic: BusyTopic) -> None:
    """-1 keeps them for ``deleted.file.retention.ms``, as it was before there was a count; so few again let them go."""
    topic.bench.commit(AlterTopic(partition_count=None, config={"deleted.file.retention.count": -1}))
    topic.flush(2 * KEPT)
    topic.merge()
    topic.bench.clock.pass_ms(23 * HOUR)
    topic.collect()
    assert topic.removed_at_ms.keys() <= topic.stored()
    topic.flush(KEPT)
    topic.merge()
    topic.bench.commit(AlterTopic(partition_count=None, config={"deleted.file.retention.count": KEPT}))
    topic.write_checkpoint()
    topic.assert_no_orphans()
    topic.bench.clock.pass_ms(MINUTE)
    topic.collect()
    assert len(topic.stored() & topic.removed_at_ms.keys()) == KEPT
    topic.assert_no_orphans()


def test_a_file_that_can_not_be_deleted_keeps_its_tombstone(topic: BusyTopic) -> None:
    """A round that fails in the middle has told the log of nothing that is still there; later ones go on."""
    for _ in range(2):
        topic.flush(KEPT)
        topic.merge()
        topic.bench.clock.pass_ms(2 * HOUR)
    stuck = f"topics/t/{min(topic.removed_at_ms)}"
    real = topic.bench.store.delete

    def delete(key: str) -> None:
        if key == stuck:
            raise StoreUnavailable(key, "it is refused", may_have_happened=False)
        real(key)

    topic.bench.store.delete = delete  # type: ignore[method-assign]
    for _ in range(3):
        assert topic.collector.run_round(collect=True).failed_topics == 1
        topic.write_checkpoint()
        topic.assert_no_orphans()
    topic.bench.store.delete = real  # type: ignore[method-assign]
    topic.collect()
    assert not notes(topic)
    topic.collect()
    assert len(notes(topic)) == 1
    topic.assert_gone_by_count()
    assert len(topic.named()) == KEPT


def test_a_collector_that_listed_before_another_one_deleted(topic: BusyTopic) -> None:
    """It finds the tombstones of what it has listed, though the files are gone: nothing is an orphan to it."""
    for age_hours in (30, 0):
        topic.flush(KEPT)
        topic.bench.clock.pass_ms(age_hours * HOUR)
        topic.merge()
        topic.bench.clock.pass_ms(2 * HOUR)
    listed = []

    def meanwhile(operation: str, key: str) -> None:
        if operation == "list":
            listed.append(key)
        elif listed[-1:] == ["topics/t/part-"]:
            listed.append("the other one")
            topic.collect()
            topic.write_checkpoint()

    store, report = FaultyStore(topic.bench.store, before=meanwhile), CollectedEvents()
    late = Job(
        store=store,
        workers=LocalWorkers(store),
        clock=topic.bench.clock,
        report=report,
        policy=COLLECTS_ONLY,
        only=["t"],
        new_id=topic.bench.new_id,
    )
    late.run_round(collect=True)
    assert "the other one" in listed
    whys = [fields["why"] for event, fields in report.events if event == "delete"]
    assert whys == [DeletionReason.REMOVED.value] * KEPT
