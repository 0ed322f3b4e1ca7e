"""The cost of a long history, maintained and not; the speed of maintenance, and its memory.

``python -m benchmarks maintenance`` takes some minutes, most of them to make the history. ``maintenance-memory`` is its last
table with ten times as much input.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks import (
    maintenance_cost,
    maintenance_memory,
    maintenance_picture,
    maintenance_spark,
    maintenance_throughput,
)
from benchmarks.maintenance_history import build, describe
from benchmarks.report import Table
from log_format import limits

COMMITS: Final = 200_000
FEW: Final = 100
LOAD_SECONDS: Final = 90.0


def measure(commits: int = COMMITS) -> Iterator[Table]:
    """All tables, and ``maintenance.png``."""
    yield from maintenance_throughput.merging()
    yield from flat_cost(commits, draws=True)
    yield from maintenance_throughput.keeping_up(LOAD_SECONDS)
    yield from maintenance_memory.measure(1, "512m")


def large() -> Iterator[Table]:
    """Ten times the input, in the default heap of a local session."""
    yield from maintenance_memory.measure(10, "1g")


def flat_cost(commits: int, *, draws: bool) -> Iterator[Table]:
    """A short history, a long maintained one, and a long one without maintenance; ``draws``: with the picture."""
    directory = Path(tempfile.mkdtemp(prefix="tidelog-bench-"))
    try:
        histories = build(directory, commits, FEW, lambda progress: print(f"  {progress}", flush=True))
        names = {
            f"{FEW} commits": histories.few,
            "kept for an hour": histories.an_hour,
            "kept by default": histories.by_default,
            "files of a day": histories.files_of_a_day,
            "files and commits of a day": histories.a_day_whole,
            "not maintained": histories.unmaintained,
        }
        facts = {name: describe(path) for name, path in names.items()}
        costs = maintenance_cost.measure(histories, names, directory) | maintenance_spark.measure(histories, names)
        if draws:
            maintenance_picture.draw(costs, list(names))
        title = f"A history of {commits:,} commits"
        first, second = maintenance_cost.tables(costs, list(names), facts, title)
        first.notes.append(
            f"{commits:,} commits are {commits / 4 / 3600:.0f} hours at `flush.ms` 250. Kept for an hour: "
            "`deleted.file.retention.ms`. By default: of more than "
            f"{limits.DELETED_FILES_KEPT:,} removed files only those, of more than {limits.COMMITS_KEPT:,} commits those of an "
            "hour. Of a day: without the first limit; without both. Directory store, without network. "
            f"Spark is given {maintenance_spark.QUERY_SECONDS_MAX} s for a query."
        )
        second.notes.append(
            f"Each record was rewritten {histories.rewrites_per_record:.2f} times on average, {histories.rewrites_max} at most. "
            f"The history took {histories.build_seconds:.0f} s to make."
        )
        yield first
        yield second
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def main() -> None:
    """Print the cost of a history alone, with the picture; or of a shorter one: ``python -m benchmarks.maintenance 20000``."""
    commits = int(sys.argv[1].replace("_", "")) if len(sys.argv) > 1 else COMMITS
    for table in flat_cost(commits, draws=commits == COMMITS):
        print(table.markdown())


if __name__ == "__main__":
    main()
