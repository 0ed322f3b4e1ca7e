"""What tests of all readers share: gateways as processes, and one round of maintenance in this one."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import InThisProcess
from log_format.clock import SystemClock
from log_format.stores import open_store
from tests.support.collected_events import CollectedEvents


@pytest.fixture
def maintain() -> Callable[[str], CollectedEvents]:
    """One round over a store, with thresholds at which a few commits are worth it; what it reported."""

    def run(store_uri: str) -> CollectedEvents:
        store = open_store(store_uri)
        report = CollectedEvents()
        policy = Policy(flushed_min=2, sources_max=9, fan_in=9, dirty_ratio=0.01)
        job = Job(
            store=store,
            workers=InThisProcess(store),
            clock=SystemClock(),
            report=report,
            policy=policy,
            new_id=lambda: uuid.uuid4().hex,
        )
        totals = job.run_round(collect=False)
        assert totals.failed_topics == 0, report.events
        return report

    return run
