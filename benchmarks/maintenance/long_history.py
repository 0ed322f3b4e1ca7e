"""The cost of a long history: a short one, a long maintained one, and a long one without maintenance, asked for the same."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.harness.options import Options
from benchmarks.harness.report import Table
from benchmarks.maintenance import gateway_costs, spark_costs
from benchmarks.maintenance.histories import build, describe
from log_format import limits

FEW: Final = 100


def measure(options: Options) -> Iterator[Table]:
    """Yield two tables: times, and requests and CPU. It takes some minutes, most of them to make the history."""
    commits = options.commits
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
        costs = gateway_costs.measure(histories, names, directory) | spark_costs.measure(histories, names)
        title = f"A history of {commits:,} commits"
        first, second = gateway_costs.tables(costs, list(names), facts, title)
        first.notes.append(
            f"{commits:,} commits are {commits / 4 / 3600:.0f} hours at `flush.ms` 250. Kept for an hour: "
            "by `deleted.file.retention.ms`. By default: at most "
            f"{limits.DELETED_FILES_KEPT:,} removed files; of more than {limits.COMMITS_KEPT:,} commits only those of the last "
            "hour. Of a day: without the limit of files; without both limits. Directory store, without network. "
            f"A query by Spark may take {spark_costs.QUERY_SECONDS_MAX} s."
        )
        second.notes.append(
            f"Each record was rewritten {histories.rewrites_per_record:.2f} times on average, {histories.rewrites_max} at most. "
            f"The history took {histories.build_seconds:.0f} s to make."
        )
        yield first
        yield second
    finally:
        shutil.rmtree(directory, ignore_errors=True)
