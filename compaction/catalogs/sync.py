"""One run of a sync: read the topics and the catalog, plan, and carry out.

1. Before a table is altered or dropped it is asked for once more. One that is not as it was listed is left alone: somebody else,
   or another run, which may know more of the topic, changed it since. Catalogs have no calls with a condition, so what is changed
   between these two calls, some milliseconds, is not seen.
2. A table that is refused is reported, and the others go on. If the catalog is gone, the run ends.
3. Each step is one call, or a drop and a creation; the next run does what is missing. So two runs at once do no harm.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from compaction.catalogs.catalog import Catalog, TableRefused, TableTaken
from compaction.catalogs.topics import Topics
from compaction.report import Reporter
from log_format.catalogs.plan import Act, Action, Plan, plan_sync
from log_format.catalogs.table import ListedTable, TopicTable, hadoop_address, topic_table, topics_root


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What a run did. ``done``: tables by act. ``problems``: conflicts, refusals and topics that can't be read."""

    unchanged: int = 0
    done: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Act, 0))
    problems: int = 0

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {**self.done, "unchanged": self.unchanged, "problems": self.problems}


class CatalogSync:
    """The sync of one store's topics to one schema of a catalog. ``store_uri``: the store's address for the catalog's readers."""

    def __init__(self, topics: Topics, catalog: Catalog, report: Reporter, *, store_uri: str) -> None:
        self.topics = topics
        self.catalog = catalog
        self._report = report
        self.root = topics_root(hadoop_address(store_uri) if catalog.has_hadoop_addresses else store_uri)

    def plan(self) -> tuple[Plan, dict[str, str]]:
        """Return what is to be done, and the problem of each topic that could not be read.

        Raises ``CatalogError``, ``StoreUnavailable``.
        """
        read = self.topics.read()
        wanted = [topic_table(topic, self.root) for topic in read.existing]
        return plan_sync(wanted, self.catalog.list_tables(), root=self.root, unread=read.unread), read.unread

    def run(self, *, is_dry_run: bool = False) -> Outcome:
        """Bring the catalog up to date, or say what that would do. Raises ``CatalogError``, ``StoreUnavailable``."""
        plan, unread = self.plan()
        outcome = Outcome(unchanged=len(plan.unchanged))
        for topic, problem in unread.items():
            self._problem(outcome, topic, "", problem)
        for conflict in plan.conflicts:
            self._problem(outcome, conflict.topic, conflict.name, conflict.reason)
        if is_dry_run:
            for action in plan.actions:
                self._report.event(f"would {action.act}", table=action.name, topic=action.topic)
                outcome.done[action.act] += 1
            return outcome
        with ThreadPoolExecutor(self.catalog.parallelism, thread_name_prefix="catalog") as pool:
            # As many at a time as there are threads, so that few are begun after the catalog is gone.
            for first in range(0, len(plan.actions), self.catalog.parallelism):
                some = plan.actions[first : first + self.catalog.parallelism]
                for action, refusal in zip(some, pool.map(self._carry_out, some), strict=True):
                    if refusal is None:
                        outcome.done[action.act] += 1
                    else:
                        self._problem(outcome, action.topic, action.name, refusal)
        return outcome

    def _problem(self, outcome: Outcome, topic: str, table: str, problem: str) -> None:
        outcome.problems += 1
        self._report.event("failed", topic=topic, table=table, problem=problem)

    def _carry_out(self, action: Action) -> str | None:
        """Return the problem of a table that is refused, or None."""
        self._report.event(action.act, table=action.name, topic=action.topic)
        try:
            there = None if action.listed is None else self.catalog.get_table(action.name)
            if there is not None and (action.listed is None or not self._is_as(there, action.listed)):
                return self._why_not(there, action)
            try:
                self._change(action, there)
            except TableTaken:
                return self._why_not(self.catalog.get_table(action.name), action)
        except TableRefused as problem:
            return str(problem)
        return None

    def _change(self, action: Action, there: ListedTable | None) -> None:
        if action.act is Act.ALTER and there is not None and action.table is not None:
            self.catalog.alter(action.table, there)
            return
        if there is not None:
            self.catalog.drop(action.name)
        if action.table is not None:
            self.catalog.create(action.table)

    def _is_as(self, there: ListedTable, other: ListedTable | TopicTable) -> bool:
        return there.is_of_store(self.root) and there.marks == other.marks

    def _why_not(self, there: ListedTable | None, action: Action) -> str | None:
        """Return why the action is not carried out, since the table changed after the listing; None if it is as it should be."""
        if there is not None and action.table is not None and self._is_as(there, action.table):
            return None
        if there is None or there.is_of_store(self.root):
            return "another run changed this table just now: the next run looks at it again"
        return "somebody else made a table of this name just now"
