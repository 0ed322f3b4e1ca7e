"""Several workers lay out an archive at the same time: each rewrite is a commit of its own, and another maintenance may interfere
before the first one or between two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from compaction.job import Job
from compaction.layout_rewrite import LayoutTask
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.store import ObjectStore
from log_format.topic.rewrite import NewSegment
from tests.support.collected_events import CollectedEvents
from tests.support.maintenance_bench import MaintenanceBench
from tests.support.table_rows import rows_by_log

HOUR = 3_600_000
FOURS = Policy(flushed_min=4, sources_max=4, idle_ms=10**12, fan_in=4)
"""Four files of the archive become a run, so eight are two rewrites."""


class TwoWorkers(LocalWorkers):
    """Workers that get two rewrites at a time. ``interfere``: called once after they are done, before they are committed."""

    parallelism = 2

    def __init__(self, store: ObjectStore, interfere: Callable[[], object] | None = None) -> None:
        super().__init__(store)
        self.waves: list[int] = []
        self._interfere = interfere

    def lay_out(self, tasks: Sequence[LayoutTask]) -> Sequence[Sequence[NewSegment]]:
        """As always; each task is done twice, as Spark does with one that a dying executor had done."""
        self.waves.append(len(tasks))
        super().lay_out(tasks)
        done = super().lay_out(tasks)
        if self._interfere is not None:
            self._interfere()
            self._interfere = None
        return done


class Interrupted(CollectedEvents):
    """A reporter that calls something after the first rewrite was committed."""

    def __init__(self, interfere: Callable[[], object]) -> None:
        super().__init__()
        self._interfere: Callable[[], object] | None = interfere

    def event(self, event: str, **fields: str | float) -> None:
        """Collect it."""
        super().event(event, **fields)
        if event == "lay out" and self._interfere is not None:
            interfere, self._interfere = self._interfere, None
            interfere()


@pytest.fixture
def archived(bench: MaintenanceBench) -> MaintenanceBench:
    """A topic with eight flushes that are due to be archived, and a young one."""
    bench.create(2, retention_ms=HOUR, table_retention_ms=-1, table_cluster_by="key")
    for number in range(8):
        bench.append((number % 2, b"k%d" % (number * 7 % 10), b"v%d" % number), (0, None, b"w%d" % number))
    bench.clock.pass_ms(2 * HOUR)
    bench.append((0, b"k", b"v"), (1, b"k", b"v"))
    return bench


def outcomes(report: CollectedEvents) -> list[Any]:
    return [fields["outcome"] for event, fields in report.events if event == "lay out"]


def lay_out(bench: MaintenanceBench, workers: TwoWorkers, report: CollectedEvents) -> None:
    """A round of these workers; then all is as it was, and a further round finds nothing to do."""
    before = sorted(rows_by_log(bench.store, "t", bench.clock), key=str)
    job = Job(store=bench.store, workers=workers, clock=bench.clock, report=report, policy=FOURS, new_id=bench.new_id)
    assert job.run_round(collect=False).failed_topics == 0, report.events
    bench.assert_whole()
    assert sorted(rows_by_log(bench.store, "t", bench.clock), key=str) == before
    rival = bench.job(FOURS)
    rival.run_round(collect=False)
    assert rival.run_round(collect=False).rewrites == 0


def test_rewrites_of_a_wave_are_committed_one_after_another(archived: MaintenanceBench) -> None:
    """The second one is valid, although the first has changed the archive since they were planned. Files of an earlier attempt
    are in the table of nobody."""
    workers, report = TwoWorkers(archived.store), CollectedEvents()
    lay_out(archived, workers, report)
    assert (workers.waves, outcomes(report)) == ([2], ["committed", "committed"])


def test_another_maintenance_voids_the_wave(archived: MaintenanceBench) -> None:
    """It has laid out the same files meanwhile, so the first commit does nothing, and no second one is tried."""
    workers = TwoWorkers(archived.store, lambda: archived.job(FOURS).run_round(collect=False))
    report = CollectedEvents()
    lay_out(archived, workers, report)
    assert outcomes(report) == ["overtaken"]


def test_another_maintenance_voids_the_rest_of_the_wave(archived: MaintenanceBench) -> None:
    """It has laid out what the first commit left: the second one, whose sources are gone, does nothing."""
    report = Interrupted(lambda: archived.job(FOURS).run_round(collect=False))
    lay_out(archived, TwoWorkers(archived.store), report)
    assert outcomes(report) == ["committed", "overtaken"]
