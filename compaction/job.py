"""Maintenance of all topics, journals and system tables, round after round."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final

from compaction.abandoned_transactions import finish_abandoned
from compaction.collection import Deletion, parse_transaction_id, plan_probes, plan_staged
from compaction.delayed_records import ObjectWithoutNotice, find_without_notice, plan_scheduled
from compaction.deletions import delete_all
from compaction.journals import JournalUpkeep
from compaction.policy import Policy
from compaction.report import STEP, Reporter, Totals
from compaction.system_tables import TABLES, plan_journal, plan_table
from compaction.topic_upkeep import TopicUpkeep
from compaction.workers import Workers
from log_format import layout, limits
from log_format.checkpoints.journal_log import list_journals
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.committer import Committer
from log_format.delta.fence import Fence, store_time_ms
from log_format.delta.table import NO_LOG
from log_format.errors import StoreError, TidelogError
from log_format.store import ObjectStore

TOPICS_REMEMBERED_MAX: Final = 512
"""Most topics whose state is kept between rounds; others are loaded again."""


@dataclass(slots=True, kw_only=True)
class Job:
    """The maintenance of one store.

    ``only``: if given, just these topics are drained and maintained, and no system tables. ``erases_only``: requests to erase are
    carried out, and nothing else is done.
    """

    store: ObjectStore
    workers: Workers
    clock: Clock
    report: Reporter
    policy: Policy = field(default_factory=Policy)
    only: Sequence[str] = ()
    is_dry_run: bool = False
    erases_only: bool = False
    new_id: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    _topics: OrderedDict[str, TopicUpkeep] = field(default_factory=OrderedDict)
    _journals: dict[int, JournalUpkeep] = field(default_factory=dict)
    _daily_ms: int | None = None
    """Monotonic time of the last daily listings."""

    def run_round(self, *, collect: bool) -> Totals:
        """Maintain every topic once, those with the most segments first. A failed topic is reported, and the others go on.

        ``collect``: also delete unneeded objects. Raises ``StoreUnavailable`` if topics can't be listed.
        """
        totals = Totals()
        is_daily = collect and self._is_daily()
        for number in () if self.erases_only else list_journals(self.store):
            self.report.event(STEP)
            # Before the topics, so that drained records are merged in the same round.
            journal = self._journal(number)
            run = partial(journal.run, totals, collect=collect, only=frozenset(self.only))
            self._run_and_report(f"journal {number}", totals, run)
        names = list(self.only) or list(self.store.list_directories(layout.TOPICS))
        names.sort(key=lambda name: -self._topics[name].segment_count if name in self._topics else -1)
        for done, name in enumerate(names):
            self.report.event(STEP, done=done, total=len(names))
            self._run_and_report(name, totals, partial(self._run_topic, name, totals, collect=collect, strays=is_daily))
            totals.topics += 1
        if collect and not self.only and not self.erases_only:
            self._collect_system(totals)
            if is_daily:
                self._run_and_report("delayed records", totals, lambda: self._collect_scheduled(totals))
        return totals

    def _run_and_report(self, what: str, totals: Totals, act: Callable[[], None]) -> None:
        try:
            act()
        except (TidelogError, StoreError) as problem:
            totals.failed_topics += 1
            self.report.event("failed", topic=what, problem=str(problem))

    def _is_daily(self) -> bool:
        """Return whether it is time for the daily listings, which are costly, and find what has waited for a day already."""
        now_ms = self.clock.monotonic_ms()
        if self._daily_ms is not None and now_ms - self._daily_ms < limits.ORPHAN_GRACE_MS:
            return False
        self._daily_ms = now_ms
        return True

    def _run_topic(self, name: str, totals: Totals, *, collect: bool, strays: bool) -> None:
        upkeep = self._upkeep(name)
        if self.erases_only:
            upkeep.erase(totals)
            return
        try:
            upkeep.run(totals, collect=collect, strays=strays)
        finally:
            upkeep.count_waiting(totals)

    def _upkeep(self, name: str) -> TopicUpkeep:
        known = self._topics.pop(name, None)
        if known is None:
            known = TopicUpkeep(
                self.store,
                name,
                self.workers,
                clock=self.clock,
                new_id=self.new_id,
                policy=self.policy,
                report=self.report,
                is_dry_run=self.is_dry_run,
            )
        self._topics[name] = known
        while len(self._topics) > TOPICS_REMEMBERED_MAX:
            self._topics.popitem(last=False)
        return known

    def _journal(self, number: int) -> JournalUpkeep:
        known = self._journals.get(number)
        if known is None:
            known = self._journals[number] = JournalUpkeep(
                self.store,
                number,
                clock=self.clock,
                new_id=self.new_id,
                report=self.report,
                is_dry_run=self.is_dry_run,
            )
        return known

    def _collect_system(self, totals: Totals) -> None:
        """Delete leftovers of transactions, and old files and commits of the system tables. A failure is reported, and the rest
        goes on."""
        self._run_and_report("staged records", totals, lambda: self._collect_staged(totals))
        self._run_and_report("probes", totals, lambda: self._collect_probes(totals))
        rest = (self.clock, self.new_id)
        for table, folders in TABLES:
            plan = partial(plan_table, self.store, table, folders, *rest, is_dry_run=self.is_dry_run)
            self._run_and_report(table.label, totals, partial(self._collect, plan, totals))
        for number in self._journals:
            plan = partial(plan_journal, self.store, number, *rest, is_dry_run=self.is_dry_run)
            self._run_and_report(f"journal {number}", totals, partial(self._collect, plan, totals))

    def _collect_staged(self, totals: Totals) -> None:
        now_ms = self.clock.now_ms()
        staged = list(self.store.list(f"{layout.TRANSACTIONS_ROOT}staged/"))
        if not staged:
            return
        old = plan_staged(staged, committing=(), now_ms=now_ms)
        state = finish_abandoned(
            self.store,
            self.clock,
            self.new_id,
            self.report,
            to_forbid=dict.fromkeys(map(parse_transaction_id, old)),
            is_dry_run=self.is_dry_run,
        )
        committing = {name for name, row in state.transactions.items() if not row.has_ended}
        self._delete(plan_staged(staged, committing=committing, now_ms=now_ms), totals)

    def _collect_scheduled(self, totals: Totals) -> None:
        names = self.store.list_directories(layout.TOPICS)
        found = sorted(find_without_notice(self.store, names, self.clock.now_ms()), key=lambda each: each.topic)
        for topic, some in groupby(found, key=lambda each: each.topic):
            self._run_and_report(topic, totals, partial(self._collect_without_notice, topic, list(some), totals))

    def _collect_without_notice(self, topic: str, found: Sequence[ObjectWithoutNotice], totals: Totals) -> None:
        log = TopicLog(self.store, topic, self.clock)
        state, now_ms = log.refresh(), self.clock.now_ms()
        if state.version == NO_LOG:
            return
        if not self.is_dry_run:
            committer = Committer(log, new_id=self.new_id, engine="tidelog-maintenance")
            state = committer.commit(Fence(version=state.version)).state
            now_ms = min(now_ms, store_time_ms(self.store, log.table.root, state.version))
        rest = (state.topic_id, self.clock, self.new_id)
        self._delete(plan_scheduled(self.store, found, *rest, now_ms=now_ms, is_dry_run=self.is_dry_run), totals)

    def _collect_probes(self, totals: Totals) -> None:
        self._delete(plan_probes(self.store.list(layout.PROBES), now_ms=self.clock.now_ms()), totals)

    def _collect(self, plan: Callable[[], Sequence[Deletion]], totals: Totals) -> None:
        """Delete what ``plan`` returns."""
        self._delete(plan(), totals)

    def _delete(self, deletions: Sequence[Deletion], totals: Totals) -> None:
        delete_all(
            self.store,
            deletions,
            report=self.report,
            totals=totals,
            at_once=self.policy.deletes_at_once,
            is_dry_run=self.is_dry_run,
        )
