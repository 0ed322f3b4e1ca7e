"""Pins beside maintenance, in any order: a pinned version has its commit, a checkpoint that names exactly the files that it had,
and all of these files, until the pin ends.

Files are never changed, so the same names are the same bytes. What a version had is known from the commits alone, by applying
their actions as the Delta protocol says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from unittest import mock

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from compaction.job import Job
from compaction.log_cleanup import plan_log
from compaction.pin_upkeep import PinUpkeep
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.pinned_versions import keep_version, look_at_version, pinned_paths
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.actions import decode_commit, plain_path
from log_format.delta.committer import Committer
from log_format.errors import BackOff, CorruptData, ErrorCode, ObjectMissing, RequestRefused
from log_format.inspection.verify import verify_topic
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.changes import AlterTopic, CreateTopic, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.pin_changes import CreatePin, DeletePin
from log_format.topic.pins import Pin
from tests.support.clocks import ManualClock
from tests.support.collected_events import CollectedEvents
from tests.support.records import batch_of

HOUR_MS = 3_600_000
POLICY = Policy(removes_max=2, target_bytes=9_000, sources_max=5, flushed_min=2, fan_in=2)
REFUSALS = {ErrorCode.VERSION_GONE, ErrorCode.INVALID_REQUEST, ErrorCode.PIN_ALREADY_EXISTS}


class Killed(Exception):
    """The process that used the store ends here."""


class WatchedStore(MemoryStore):
    """Knows which files each version of the topic's table has, ends maintenance after so many writes, and lets something happen
    before a deletion."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock, lists_from_key=False)
        self.live: dict[int, frozenset[str]] = {-1: frozenset()}
        self.writes_left: int | None = None
        self.before_delete: Callable[[], None] | None = None
        self._happening = threading.RLock()

    def put_if_absent(self, key: str, data: bytes) -> None:
        self._count_write()
        super().put_if_absent(key, data)
        version = layout.commit_version(key) if key.startswith(layout.log_prefix("t")) else None
        if version is not None:
            commit = decode_commit(data, key)
            removed = {plain_path(remove.path) for remove in commit.removes}
            added = {plain_path(add.path) for add in commit.adds}
            self.live[version] = (self.live[version - 1] - removed) | added

    def put(self, key: str, data: bytes) -> None:
        self._count_write()
        super().put(key, data)

    def delete(self, key: str) -> None:
        with self._happening:
            happening, self.before_delete = self.before_delete, None
            if happening is not None:
                happening()
        self._count_write()
        super().delete(key)

    def _count_write(self) -> None:
        if self.writes_left is not None:
            if self.writes_left <= 0:
                raise Killed
            self.writes_left -= 1


class PinsMachine(RuleBasedStateMachine):
    """One gateway writes and pins; two maintainers, which know of each other only by the store, do their rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = WatchedStore(self.clock)
        self.numbers = count(1)
        self.log = TopicLog(self.store, "t", self.clock)
        self.committer = Committer(self.log, new_id=self.new_id, jitter=lambda: 1.0)
        self.jobs = [self.new_job() for _ in range(2)]
        self.pins: dict[str, Pin] = {}

    def new_id(self) -> str:
        return f"id-{next(self.numbers)}"

    def new_job(self) -> Job:
        return Job(
            store=self.store,
            workers=LocalWorkers(self.store),
            clock=self.clock,
            report=CollectedEvents(),
            policy=POLICY,
            new_id=self.new_id,
        )

    @initialize()
    def create(self) -> None:
        config = TopicConfig.parse({"deleted.file.retention.ms": HOUR_MS, "retention.ms": 3 * HOUR_MS})
        self.committer.commit(CreateTopic(name="t", partition_count=1, config=config, topic_id=self.new_id()))

    @rule(flushes=st.integers(1, 6))
    def produce(self, flushes: int) -> None:
        for _ in range(flushes):
            topic_id = self.log.refresh().existing_id
            batch = batch_of(topic_id, [b"v%d" % next(self.numbers)], [0], timestamps_ms=self.clock.now_ms())
            self.committer.commit(Append([batch], self.new_id))

    @rule(
        retention_hours=st.sampled_from([0, 3, -1]),
        files_hours=st.sampled_from([1, 20]),
        files_kept=st.sampled_from([-1, 0, 3]),
        commits_kept=st.sampled_from([-1, 0, 3]),
        table=st.sampled_from(["log", -1, 30 * HOUR_MS]),
    )
    def configure(
        self, retention_hours: int, files_hours: int, files_kept: int, commits_kept: int, table: int | str
    ) -> None:
        config: dict[str, int | str | None] = {
            "retention.ms": max(-1, retention_hours * HOUR_MS),
            "deleted.file.retention.ms": files_hours * HOUR_MS,
            "deleted.file.retention.count": files_kept,
            "commit.retention.count": commits_kept,
            "table.retention.ms": table,
        }
        self.committer.commit(AlterTopic(partition_count=None, config=config))

    @rule(hours=st.sampled_from([1, 3]))
    def time_passes(self, hours: int) -> None:
        self.clock.pass_ms(hours * HOUR_MS + 1)

    @rule(days=st.integers(1, 3))
    def days_pass(self, days: int) -> None:
        """After each day what nobody needs goes: files, commits, tombstones."""
        for _ in range(days):
            self.produce(4)
            self.maintain(0, collect=False)
            self.checkpoint()
            self.clock.pass_ms(30 * HOUR_MS)
            self.maintain(1, collect=True)

    @rule()
    def checkpoint(self) -> None:
        write_checkpoint(self.store, "t", self.log.refresh().version, self.clock.now_ms())

    @rule(who=st.integers(0, 1), collect=st.booleans())
    def maintain(self, who: int, collect: bool) -> None:
        job = self.jobs[who]
        totals = job.run_round(collect=collect)
        assert totals.failed_topics == 0, job.report
        self.forget_expired()

    @rule(who=st.integers(0, 1), writes=st.integers(0, 12))
    def maintenance_is_killed(self, who: int, writes: int) -> None:
        self.store.writes_left = writes
        with suppress(Killed):
            self.jobs[who].run_round(collect=True)
        self.store.writes_left = None
        self.jobs[who] = self.new_job()
        self.forget_expired()

    @rule(who=st.integers(0, 1), back=st.integers(0, 12))
    def a_pin_comes_between_a_plan_and_its_deletions(self, who: int, back: int) -> None:
        self.store.before_delete = lambda: self.pin_older(back, None)
        job = self.jobs[who]
        totals = job.run_round(collect=True)
        self.store.before_delete = None
        assert totals.failed_topics == 0, job.report
        self.forget_expired()

    @rule(hours=st.sampled_from([None, 1, 40]), dies=st.booleans())
    def pin_now(self, hours: int | None, dies: bool) -> None:
        """A pinner that dies has made its commit, and no checkpoint."""
        self.pin(CreatePin(name=self.new_name(), expires_at_ms=self.after(hours), topic_id=self.topic_id()), dies)

    @rule(back=st.integers(0, 20), hours=st.sampled_from([None, 1, 40]))
    def pin_older(self, back: int, hours: int | None) -> None:
        state = self.log.refresh()
        version = max(0, state.version - back)
        try:
            older = look_at_version(self.store, "t", state, version, self.clock.now_ms())
            change = CreatePin(
                name=self.new_name(), expires_at_ms=self.after(hours), topic_id=state.existing_id, older=older
            )
            self.pin(change, dies=False)
        except BackOff:
            return
        except RequestRefused as refused:
            if refused.code not in REFUSALS:
                raise

    @rule(data=st.data())
    def unpin(self, data: st.DataObject) -> None:
        if self.pins:
            name = data.draw(st.sampled_from(sorted(self.pins)))
            self.committer.commit(DeletePin(name=name, topic_id=self.topic_id()))
            del self.pins[name]

    @rule()
    def make_anew(self) -> None:
        if self.log.refresh().archive.segment_count:
            return
        self.committer.commit(DeleteTopic(force=True))
        self.pins.clear()
        self.create()

    @invariant()
    def pinned_versions_are_whole(self) -> None:
        state = self.log.refresh()
        assert {pin.name: pin for pin in state.pins} == self.pins
        root = layout.topic_root("t")
        stored = {info.key.removeprefix(root) for info in self.store.list(root)}
        for pin in state.pins:
            self.store.get(layout.table_commit_key(root, pin.version))
            assert self.store.live[pin.version] <= stored, pin
            keys = layout.table_checkpoint_keys(root, pin.version)
            store: MemoryStore = self.store
            if not any(key.removeprefix(root) in stored for key in keys):
                store = self.copy()
                keep_version(store, "t", pin.version, self.clock.now_ms())
            assert pinned_paths(store, "t", pin.version) == self.store.live[pin.version]

    def teardown(self) -> None:
        if self.log.refresh().version >= 0:
            assert verify_topic(self.store, "t", clock=self.clock).problems == ()

    def pin(self, change: CreatePin, dies: bool) -> None:
        made, _ = self.committer.commit(change).result
        self.pins = {name: pin for name, pin in self.pins.items() if not pin.is_expired(self.clock.now_ms())}
        self.pins[made.name] = made
        if not dies:
            keep_version(self.store, "t", made.version, self.clock.now_ms())

    def copy(self) -> MemoryStore:
        """The log as it is, for a checkpoint that a pinner who died would still have put."""
        copied = MemoryStore(clock=self.clock)
        for info in self.store.list(layout.log_prefix("t")):
            copied.put(info.key, self.store.get(info.key))
        return copied

    def forget_expired(self) -> None:
        """A pin that has expired may be gone, and no other."""
        present = {pin.name for pin in self.log.refresh().pins}
        gone = [name for name, pin in self.pins.items() if name not in present]
        assert all(self.pins[name].is_expired(self.clock.now_ms()) for name in gone)
        for name in gone:
            del self.pins[name]

    def new_name(self) -> str:
        return f"p{next(self.numbers)}"

    def topic_id(self) -> str:
        return self.log.refresh().existing_id

    def after(self, hours: int | None) -> int | None:
        return None if hours is None else self.clock.now_ms() + hours * HOUR_MS


Step = tuple[str, dict[str, Any]]
STORIES: dict[str, list[Step]] = {
    "old": [
        ("produce", {"flushes": 4}),
        ("checkpoint", {}),
        ("pin_now", {"hours": None, "dies": False}),
        ("days_pass", {"days": 2}),
        ("maintenance_is_killed", {"who": 0, "writes": 2}),
        ("days_pass", {"days": 1}),
    ],
    "its pinner died": [
        ("produce", {"flushes": 3}),
        ("pin_now", {"hours": None, "dies": True}),
        ("produce", {"flushes": 3}),
        ("days_pass", {"days": 2}),
    ],
    "it expires": [
        ("produce", {"flushes": 3}),
        ("pin_now", {"hours": 40, "dies": False}),
        ("days_pass", {"days": 2}),
    ],
    "of an older version": [
        ("produce", {"flushes": 5}),
        ("pin_older", {"back": 2, "hours": None}),
        ("maintain", {"who": 0, "collect": False}),
        ("days_pass", {"days": 2}),
    ],
    "between a plan and its deletions": [
        ("produce", {"flushes": 5}),
        ("maintain", {"who": 0, "collect": False}),
        ("time_passes", {"hours": 1}),
        *(
            ("a_pin_comes_between_a_plan_and_its_deletions", {"who": who, "back": back})
            for who in (0, 1)
            for back in (3, 2)
        ),
    ],
}
"""What befalls a pinned version, step by step."""


def tell(story: str) -> None:
    """Let a story happen, and look at the pins after each step."""
    machine = PinsMachine()
    machine.create()
    for step, how in STORIES[story]:
        getattr(machine, step)(**how)
        machine.pinned_versions_are_whole()
    machine.teardown()


@pytest.mark.parametrize("story", STORIES)
def test_a_pinned_version_is_whole(story: str) -> None:
    """Whatever these stories, in which each planted fault shows, do to it."""
    tell(story)


def cleans_up_pins(*stored: Any, **how: Any) -> Any:
    """Clean-up of a log without pins."""
    return plan_log(*stored, **(how | {"pinned": ()}))


def expires_early(self: PinUpkeep, *, is_dry_run: bool) -> None:
    """By a clock that is a day ahead."""
    del is_dry_run
    state = self._log.state
    for pin in state.pins:
        if pin.is_expired(self._log.clock.now_ms() + 24 * HOUR_MS):
            self._committer.commit(DeletePin(name=pin.name, topic_id=state.existing_id))


PLANTED: dict[str, tuple[str, str, Any]] = {
    "clean-up forgets pins": ("old", "compaction.topic_upkeep.plan_log", cleans_up_pins),
    "the collector forgets pins": ("old", "compaction.pin_upkeep.PinUpkeep.paths", lambda *_: set()),
    "nobody puts what a dead pinner did not": (
        "its pinner died",
        "compaction.pin_upkeep.PinUpkeep._put_checkpoints",
        lambda *_: None,
    ),
    "pins expire early": ("it expires", "compaction.pin_upkeep.PinUpkeep.run", expires_early),
    "an older version is lost to maintenance": (
        "of an older version",
        "compaction.pin_upkeep.PinUpkeep.paths",
        lambda *_: set(),
    ),
    "what is about to be deleted is pinned": (
        "between a plan and its deletions",
        "log_format.checkpoints.pinned_versions.deletable_before",
        lambda *_, **__: 0,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """Each of these defects, planted into the real code, breaks a pinned version in its story."""
    story, target, replacement = PLANTED[name]
    with mock.patch(target, replacement), pytest.raises((AssertionError, CorruptData, ObjectMissing)):
        tell(story)


class TestPins(PinsMachine.TestCase):  # type: ignore[misc,valid-type]
    """Whatever maintenance does in between, a pinned version is whole."""

    settings = settings(max_examples=12, stateful_step_count=20, phases={*Phase} - {Phase.explain})
