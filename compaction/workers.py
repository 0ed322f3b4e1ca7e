"""The workers that run rewrites: in this process, or in Spark's executors (``spark_workers``). Both give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from compaction.layout_rewrite import LayoutTask, lay_out
from compaction.rewrite import RewriteTask, TaskResult, read_keys, rewrite
from log_format.ids import NewId, random_id
from log_format.store import ObjectStore
from log_format.topic.rewrite import NewSegment

TASKS_PER_WORKER: Final = 4
"""Tasks per worker in one wave of rewrites. Each takes some seconds, and its result is committed when the wave ends."""

Compactor = Callable[[Sequence[RewriteTask]], Iterator[TaskResult]]
"""Function that does tasks whose newest keys are known; results come in any order."""


class Workers(Protocol):
    """The protocol of workers, which rewrite segments and commit nothing."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run in parallel."""
        ...

    def rewrite(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskResult]:
        """Do the tasks, in any order. Raises ``CorruptData``, ``StoreUnavailable``, or an error of the engine."""
        ...

    def lay_out(self, tasks: Sequence[LayoutTask]) -> Sequence[Sequence[NewSegment]]:
        """Do the tasks; return the new files of each, in the order of the tasks. Raises the same as ``rewrite``; ``BackOff`` if
        there is no room for temporary files."""
        ...

    def compact_keys(self, tasks: Sequence[RewriteTask]) -> AbstractContextManager[Compactor]:
        """Find the newest record of each key, by partition, in all tasks. The result does some of them. Raises the same as
        ``rewrite``."""
        ...


def task_batches(tasks: Sequence[RewriteTask], workers: Workers) -> Iterator[Sequence[RewriteTask]]:
    """Yield a few tasks per worker, since uploads must be committed before they are too old."""
    first = 0
    while first < len(tasks):
        step = TASKS_PER_WORKER * workers.parallelism
        yield tasks[first : first + step]
        first += step


class LocalWorkers:
    """Workers in this process: one task after another. Compacting keys takes memory for the keys of one partition."""

    parallelism = 1

    def __init__(self, store: ObjectStore, *, new_id: NewId = random_id) -> None:
        self._store = store
        self._new_id = new_id

    def rewrite(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskResult]:
        """Do the tasks, as ``Workers.rewrite`` specifies."""
        for task in tasks:
            yield rewrite(self._store, task, new_id=self._new_id)

    def lay_out(self, tasks: Sequence[LayoutTask]) -> Sequence[Sequence[NewSegment]]:
        """Do the tasks, as ``Workers.lay_out`` specifies."""
        return [lay_out(self._store, task, self._new_id) for task in tasks]

    @contextmanager
    def compact_keys(self, tasks: Sequence[RewriteTask]) -> Iterator[Compactor]:
        """Find the newest records, as ``Workers.compact_keys`` specifies."""
        found = pa.concat_tables([table for task in tasks for table in read_keys(self._store, task)])
        newest_by_key = found.group_by(["partition", "key"]).aggregate([("offset", "max")])
        partitions = newest_by_key.column("partition").to_numpy()
        offsets = newest_by_key.column("offset_max").to_numpy()

        def compact(some: Sequence[RewriteTask]) -> Iterator[TaskResult]:
            for task in some:
                newest = np.sort(offsets[partitions == task.partition])
                yield rewrite(self._store, task, newest, new_id=self._new_id)

        yield compact
