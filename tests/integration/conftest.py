"""Fixtures of integration tests: one JVM for all tests of Spark, gateways and HTTP shells as processes.

``spark``           the session: it reads directories and the session's MinIO server
``maintain``        a round of maintenance in this process
``start_gateway``   starts gateways of a test's own, which end with it
``client_of``       makes clients with a token
``stub``            the HTTP shell around a stub engine, as a process; one for each module
``start``           starts such processes of a test's own, with settings
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from compaction.job import Job
from compaction.policy import Policy
from compaction.workers import LocalWorkers
from log_format.clock import SystemClock
from log_format.stores import open_store
from tests.support.access import Client
from tests.support.collected_events import CollectedEvents
from tests.support.gateway_process import GatewayProcess, StartGateway, running_gateways
from tests.support.stub_process import MEBIBYTE, StubProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def maintain() -> Callable[[str], CollectedEvents]:
    """One round over a store, with thresholds at which a few commits are worth it; what it reported."""

    def run(store_uri: str) -> CollectedEvents:
        store = open_store(store_uri)
        report = CollectedEvents()
        policy = Policy(flushed_min=2, sources_max=9, fan_in=9, dirty_ratio=0.01)
        job = Job(
            store=store,
            workers=LocalWorkers(store),
            clock=SystemClock(),
            report=report,
            policy=policy,
            new_id=lambda: uuid.uuid4().hex,
        )
        totals = job.run_round(collect=False)
        assert totals.failed_topics == 0, report.events
        return report

    return run


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """Start gateways of a test's own; a test that leaves one running wants it to end well."""
    with running_gateways() as started:

        def start(store: str, *settings: str, **more: Any) -> GatewayProcess:
            started.append(GatewayProcess(store, tmp_path / f"gateway-{len(started)}.log", *settings, **more))
            return started[-1]

        yield start


@pytest.fixture
def client_of() -> Iterator[Callable[..., Client]]:
    """Make clients of gateways with ``auth=on``: of a URL, with a token."""
    with ExitStack() as ended:

        def make(url: str, token: str | None, **more: Any) -> Client:
            made = Client(url, token, **more)
            ended.callback(made.http.close)
            return made

        yield make


@pytest.fixture(scope="session")
def spark(minio_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session for directories and for MinIO; the JVM is started once."""
    from spark_pipeline import session

    if "PYTEST_XDIST_WORKER" in os.environ:
        # All workers have this directory, and a second session would fail to make it: tests/support/spread.py gave way.
        (tmp_path_factory.getbasetemp().parent / "the only Spark session").mkdir()
    warehouse = tmp_path_factory.mktemp("warehouse")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in minio_environment.items():
            patch.setenv(name, value)
        started = session(
            "s3://unused",
            app_name="tests",
            master="local[2]",
            config={
                "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": "2",
                "spark.sql.warehouse.dir": Path(warehouse).as_uri(),
                "spark.sql.streaming.checkpointFileManagerClass": (
                    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
                ),
            },
        )
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ
    yield started
    started.stop()


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubProcess]:
    """One for the tests that leave nothing behind. To a program all its modules' warnings are errors."""
    found = StubProcess(
        tmp_path_factory.mktemp("stub") / "log",
        *("--body-idle-ms", "1500", "--header-idle-ms", "1500", "--write-stall-ms", "1500"),
        *("--in-flight-bytes-max", str(20 * MEBIBYTE), "--connections-max", "50"),
        as_program=True,
    )
    yield found
    assert found.end() == 0, found.log()
    lines = [json.loads(line) for line in found.log().splitlines()]
    assert {line["event"] for line in lines if line["level"] == "error"} <= {"unforeseen error"}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., StubProcess]]:
    """Start stubs of a test's own."""
    started: list[StubProcess] = []

    def begin(*settings: str, drain_seconds: float = 0.0) -> StubProcess:
        started.append(StubProcess(tmp_path / f"log{len(started)}", *settings, drain_seconds=drain_seconds))
        return started[-1]

    yield begin
    for one in started:
        one.end()
