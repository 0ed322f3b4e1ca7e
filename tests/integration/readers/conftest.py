"""What tests of all readers share: gateways as processes, and one round of maintenance in this one."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import InThisProcess
from log_format.clock import SystemClock
from log_format.stores import open_store
from tests.support.collected_events import CollectedEvents

END_SECONDS_MAX = 60


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts a gateway on a store and says its URL; all have to end in order."""
    started: list[subprocess.Popen[bytes]] = []

    def start(store: str) -> str:
        command = [sys.executable, "-m", "gateway", "--store", store, "--port", "0", "--log-level", "warning"]
        with (tmp_path / f"gateway-{len(started)}.log").open("wb") as log:
            started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=dict(os.environ)))
        output = started[-1].stdout
        assert output is not None
        line = output.readline().decode()
        assert " listens on http://127.0.0.1:" in line, line
        return line.split(" listens on ")[1].split()[0]

    yield start
    for process in started:
        process.terminate()
    try:
        codes = [process.wait(END_SECONDS_MAX) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    assert codes == [0] * len(started)


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
