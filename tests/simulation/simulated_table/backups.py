"""Backups of a store with topics as tables, and their restoration by the requests to erase that the original knows of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compaction.job import Job
from compaction.workers import LocalWorkers
from log_format.checkpoints.archive_rows import archived_files
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.actions import plain_path
from log_format.inspection.backup import copy_log
from log_format.inspection.restored_erasures import EraseAgain
from log_format.layout import topic_root
from log_format.stores.memory import MemoryStore
from tests.simulation.simulated.truth import Place, Violation
from tests.simulation.simulated_table.table import Row, Table, read_rows
from tests.support.collected_events import CollectedEvents


class Backups:
    """Copies of ``objects``, which are restored at the end."""

    def __init__(self, objects: MemoryStore, clock: Clock, new_id: Callable[[], str]) -> None:
        self._objects = objects
        self._clock = clock
        self._new_id = new_id
        self.made: list[MemoryStore] = []

    def make(self, topic: str) -> bool:
        """Copy everything; return whether the topic is in the copy."""
        target = MemoryStore("backup", clock=self._clock)
        problems = [one.problems for one in copy_log(self._objects, target, self._clock) if one.problems]
        if problems:
            raise Violation(f"a backup has {problems}")
        if not TopicLog(target, topic, self._clock).refresh().exists:
            return False
        self.made.append(target)
        return True

    def check(self, table: Table) -> int:
        """Restore each copy: nothing is there that a request means, and all else is. Return how many rows were erased again."""
        erased = 0
        for backup in self.made:
            before, after = rows_in(backup, table.topic, self._clock), self._restored(backup, table.topic)
            for at, row in {**after, **before}.items():
                kept = after.get(at)
                if not table.meant_by(at, row):
                    if kept != row:
                        raise Violation(f"a backup has {row} at {at}, and the restored copy {kept}")
                elif kept is not None and kept.value is not None:
                    raise Violation(f"a restored copy has {kept} at {at}, which was erased")
                else:
                    erased += row.value is not None
        return erased

    def _restored(self, backup: MemoryStore, topic: str) -> dict[Place, Row]:
        """The rows of the topic's table in a restored copy, erased by what the original was asked."""
        target = MemoryStore("restored", clock=self._clock)

        def carry_out(topics: Sequence[str]) -> None:
            job = Job(
                store=target,
                workers=LocalWorkers(target, new_id=self._new_id),
                clock=self._clock,
                report=CollectedEvents(),
                only=topics,
                erases_only=True,
                new_id=self._new_id,
            )
            totals = job.run_round(collect=True)
            if totals.failed_topics:
                raise Violation(f"what was erased can't be erased in a restored copy: {totals}")

        erase = EraseAgain([self._objects], carry_out, self._new_id)
        problems = [one.problems for one in copy_log(backup, target, self._clock, erase=erase) if one.problems]
        if problems:
            raise Violation(f"a restored copy has {problems}")
        return rows_in(target, topic, self._clock)


def rows_in(store: MemoryStore, topic: str, clock: Clock) -> dict[Place, Row]:
    """The rows of the log and of the archive."""
    state = TopicLog(store, topic, clock).refresh()
    paths = [segment.path for segment in state.manifest.segments()]
    archived = archived_files(store, state, clock.now_ms()).column("path").to_pylist()
    paths += [plain_path(path) for path in archived]
    found: dict[Place, Row] = {}
    for path in paths:
        found |= read_rows(store.get(f"{topic_root(topic)}{path}"), state.existing_id)
    return found
