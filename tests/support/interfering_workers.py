"""Workers of maintenance between whose rewrites and commits something else happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from compaction.rewrite import RewriteTask, TaskResult, rewrite
from compaction.workers import LocalWorkers
from log_format.store import ObjectStore


class InterferingWorkers(LocalWorkers):
    """After each of the first tasks one of ``happens`` is called, before the task's commit. ``calls`` counts the rewrites."""

    def __init__(self, store: ObjectStore, *happens: Callable[[], object]) -> None:
        super().__init__(store)
        self._rewritten_in = store
        self._happens = iter(happens)
        self.calls = 0

    def rewrite(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskResult]:
        self.calls += 1
        for task in tasks:
            done = rewrite(self._rewritten_in, task)
            next(self._happens, lambda: None)()
            yield done
