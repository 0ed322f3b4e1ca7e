"""What integration tests share: one JVM for all tests of Spark, and topics written by the format's own committer.

``spark``         the session: it reads directories and the session's MinIO server
``topic_writer``  makes a topic in a store and appends to it, commit by commit
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from log_format.append import Append, Batch
from log_format.clock import SystemClock
from log_format.committer import Committer
from log_format.producers import ProducerStamp
from log_format.records import BATCH_SCHEMA, TIMESTAMP
from log_format.stores import open_store
from log_format.topic_changes import CreateTopic, DeleteRecords, DeleteTopic
from log_format.topic_config import TopicConfig
from log_format.topic_log import TopicLog

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
