"""What integration tests share: one JVM for all tests of Spark, topics written by the format's own committer, HTTP shells.

``spark``         the session: it reads directories and the session's MinIO server
``topic_writer``  makes a topic in a store and appends to it, commit by commit
``stub``          the HTTP shell around a stub engine, as a process; one for each module
``start``         starts such processes of a test's own, with settings
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA, TIMESTAMP
from log_format.stores import open_store
from log_format.topic.append import Append, Batch
from log_format.topic.changes import CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producers import ProducerStamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Sent = tuple[int, int, bytes | None, bytes | None]
"""partition, timestamp in milliseconds, key, value"""


class TopicWriter:
    """One topic, as a gateway would write it: each ``append`` is one segment and one commit."""

    def __init__(self, store_uri: str, topic: str, *, partition_count: int = 2, config: dict[str, str] | None = None):
        self.log = TopicLog(open_store(store_uri), topic, SystemClock())
        self.committer = Committer(self.log, new_id=_new_id)
        self.committer.commit(
            CreateTopic(
                name=topic, partition_count=partition_count, config=TopicConfig.parse(config or {}), topic_id=_new_id()
            )
        )

    def append(self, records: Sequence[Sent], *, stamp: ProducerStamp | None = None) -> None:
        """One commit with these records, as the request of a producer if there is a stamp."""
        table = pa.table(
            {
                "timestamp": pa.array([sent[1] for sent in records], pa.timestamp("ms", tz="UTC")).cast(TIMESTAMP),
                "key": pa.array([sent[2] for sent in records], pa.binary()),
                "value": pa.array([sent[3] for sent in records], pa.binary()),
                "headers": pa.nulls(len(records), BATCH_SCHEMA.field("headers").type),
            },
            schema=BATCH_SCHEMA,
        )
        self.append_table(table, [sent[0] for sent in records], stamp=stamp)

    def append_table(self, table: pa.Table, partitions: Sequence[int], *, stamp: ProducerStamp | None = None) -> None:
        """One commit with a table of ``BATCH_SCHEMA``."""
        topic_id = self.log.state.topic_id
        assert topic_id is not None
        batch = Batch(
            topic_id=topic_id,
            records=table,
            partitions=np.array(partitions, dtype=np.int32),
            record_bytes_max=1,
            stamp=stamp,
        )
        committed = self.committer.commit(Append([batch], _new_id))
        assert not isinstance(committed.result[0], Exception)

    def delete_records(self, before: dict[int, int]) -> None:
        """One commit that moves log starts, and removes the segments that hold nothing to read any more."""
        self.committer.commit(DeleteRecords(before=before))

    def delete(self) -> None:
        """One commit that deletes the topic."""
        self.committer.commit(DeleteTopic())


def _new_id() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def topic_writer() -> Callable[..., TopicWriter]:
    """The class, so that tests need not import this file."""
    return TopicWriter


@pytest.fixture(scope="session")
def spark(minio_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session for directories and for MinIO; the JVM is started once."""
    from spark_pipeline import session

    warehouse = tmp_path_factory.mktemp("warehouse")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in minio_environment.items():
            patch.setenv(name, value)
        # Many short queries: compiling them fast costs less than compiling them well.
        patch.setenv("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
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


STUB = Path(__file__).with_name("stub_gateway.py")
MEBIBYTE = 1024 * 1024


class StubProcess:
    """A running stub gateway."""

    def __init__(self, log_path: Path, *settings: str, drain_seconds: float = 0.0) -> None:
        self.log_path = log_path
        self.command = (sys.executable, "-W", "error", str(STUB))
        environment = os.environ | {"STUB_DRAIN_SECONDS": str(drain_seconds)}
        with log_path.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.command, *settings],
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        assert self.url.startswith(("http://127.0.0.1:", "https://127.0.0.1:")), self.log()
        self.port = int(self.url.rpartition(":")[2])

    def log(self) -> str:
        return self.log_path.read_text()

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def connection_count(self) -> int:
        found = psutil.Process(self.process.pid).net_connections("tcp")
        return sum(connection.status != "LISTEN" for connection in found)

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers, timeout=20)

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StubProcess]:
    """One for the tests that leave nothing behind."""
    found = StubProcess(
        tmp_path_factory.mktemp("stub") / "log",
        *("--body-idle-ms", "1500", "--header-idle-ms", "1500", "--write-stall-ms", "1500"),
        *("--in-flight-bytes-max", str(20 * MEBIBYTE), "--connections-max", "50"),
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
