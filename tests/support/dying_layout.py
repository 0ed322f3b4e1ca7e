"""A worker of the archive's layout that dies once, at the worst moment: its files are in the store, and nobody knows of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from compaction.layout_rewrite import LayoutTask
from compaction.spark_workers import SparkWorkers
from log_format.topic.rewrite import NewSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class DyingTask(LayoutTask):
    """A task that kills its process once all files are put, unless ``died`` is there."""

    died: str

    @property
    def record_count(self) -> int:
        """As before; a rewrite compares it last."""
        if not Path(self.died).exists():
            Path(self.died).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return sum(run.record_count for source in self.sources for run in source.runs)


class DyingWorkers(SparkWorkers):
    """Workers of Spark of which the one that has the last of the first tasks dies. ``died``: a file's name."""

    died: Path

    def lay_out(self, tasks: Sequence[LayoutTask]) -> Sequence[Sequence[NewSegment]]:
        """As always, with a task that kills."""
        last = {field.name: getattr(tasks[-1], field.name) for field in fields(LayoutTask)}
        return super().lay_out([*tasks[:-1], DyingTask(died=str(self.died), **last)])
