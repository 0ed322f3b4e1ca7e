"""Where rewrites run: in this process, or in Spark's executors (``spark_workers``). The same work, the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import numpy as np
import pyarrow as pa

from compaction.rewrite import Done, Task, keys, rewrite
from log_format.store import ObjectStore

Compactor = Callable[[Sequence[Task]], Iterator[Done]]
"""Does tasks once their newest keys are known; in any order."""


class Workers(Protocol):
    """Rewrites segments; commits nothing."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""
        ...

    def rewrite(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Do the tasks, in any order. Raises ``CorruptData``, ``StoreUnavailable``, or what the engine raises for them."""
        ...

    def compact_keys(self, tasks: Sequence[Task]) -> AbstractContextManager[Compactor]:
        """Find the newest record of each key, by partition, in all tasks; the result does some of them. Raises as ``rewrite``."""
        ...


class InThisProcess:
    """Runs one task after another. Compacting keys takes memory for the keys of one partition."""

    parallelism = 1

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def rewrite(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """As ``Workers.rewrite``."""
        for task in tasks:
            yield rewrite(self._store, task)

    @contextmanager
    def compact_keys(self, tasks: Sequence[Task]) -> Iterator[Compactor]:
        """As ``Workers.compact_keys``."""
        found = pa.concat_tables([table for task in tasks for table in keys(self._store, task)])
        newest_by_key = found.group_by(["partition", "key"]).aggregate([("offset", "max")])
        partitions = newest_by_key.column("partition").to_numpy()
        offsets = newest_by_key.column("offset_max").to_numpy()

        def compact(some: Sequence[Task]) -> Iterator[Done]:
            for task in some:
                yield rewrite(self._store, task, np.sort(offsets[partitions == task.partition]))

        yield compact
