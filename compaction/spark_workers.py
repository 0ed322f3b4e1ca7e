"""Spark's executors as workers.

Executors open the store by its URI, and read and write segments by ``log_format``, including checksums. So a session needs
neither Delta's jars nor Hadoop's for S3, and credentials come from each executor's environment. Executors must have this package
and its dependencies installed. Spark itself only distributes the work and groups the keys, which spills to disk and uses the
whole cluster.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from compaction.layout_rewrite import LayoutTask, lay_out
from compaction.rewrite import RewriteTask, TaskResult, read_keys, rewrite
from compaction.workers import Compactor
from log_format.errors import BackOff, RequestRefused
from log_format.ids import random_id
from log_format.stores import open_store
from log_format.topic.rewrite import NewSegment

DoneT = TypeVar("DoneT")

_KEYS: Final = "number int, partition int, key binary, offset long"
_DONE: Final = "done binary"
_NO_OFFSET: Final = -1
"""Offset of an extra row of each task, so that a task without a surviving key is done, too."""


def session() -> SparkSession:
    """Return the session of ``spark-submit``, or a local one on all cores that listens on the loopback address only.

    Raises ``RequestRefused`` if Java is missing.
    """
    builder = SparkSession.builder.appName("tidelog maintenance")
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        home = os.environ.get("JAVA_HOME")
        if shutil.which("java", path=f"{home}/bin" if home else None) is None:
            raise RequestRefused("Spark needs Java 17 or newer, and there is none. Install it, or use --workers local.")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master("local[*]")
        for name, value in _LOCAL.items():
            builder = builder.config(name, value)
    ends_by = signal.getsignal(signal.SIGINT)
    started = builder.getOrCreate()
    if threading.current_thread() is threading.main_thread():
        # pyspark installs its own handler, with which Ctrl-C shows a traceback.
        signal.signal(signal.SIGINT, ends_by)
    started.sparkContext.setLogLevel("ERROR")
    return started


_LOCAL: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class SparkWorkers:
    """Workers on Spark. The session is started by the first task, so that a round without tasks needs no Spark."""

    def __init__(self, store_uri: str, start: Callable[[], SparkSession] = session) -> None:
        self._store_uri = store_uri
        self._start = start
        self._session: SparkSession | None = None

    @property
    def parallelism(self) -> int:
        """Number of tasks that the session runs in parallel."""
        return int(self._spark().sparkContext.defaultParallelism)

    def rewrite(self, tasks: Sequence[RewriteTask]) -> Iterator[TaskResult]:
        """Do the tasks, as ``Workers.rewrite`` specifies."""
        yield from self._each(_rewrite, tasks)

    def lay_out(self, tasks: Sequence[LayoutTask]) -> Sequence[Sequence[NewSegment]]:
        """Do the tasks, as ``Workers.lay_out`` specifies."""
        return self._each(_lay_out, tasks)

    def _each(self, work: Callable[[str, bytes], DoneT], tasks: Sequence[object]) -> list[DoneT]:
        """Do ``work`` with the store's URI and each task, pickled; return the results in the order of the tasks.

        Spark repeats a task whose executor died, and may run a slow one twice. Each has one result all the same, and only files
        that a result names are committed; those of other attempts are orphans.
        """
        pickled = self._spark().sparkContext.parallelize([pickle.dumps(task) for task in tasks], max(1, len(tasks)))
        with _errors_as_back_off():
            return list(pickled.map(partial(work, self._store_uri)).collect())

    @contextmanager
    def compact_keys(self, tasks: Sequence[RewriteTask]) -> Iterator[Compactor]:
        """Find the newest records, as ``Workers.compact_keys`` specifies. The executors' disks keep the surviving offsets
        meanwhile."""
        spark = self._spark()
        pickled = {task.number: pickle.dumps(task) for task in tasks}
        newest = _newest(_tasks(spark, pickled), self._store_uri).persist(StorageLevel.DISK_ONLY)

        def compact(some: Sequence[RewriteTask]) -> Iterator[TaskResult]:
            numbers = [task.number for task in some]
            every = spark.createDataFrame([(number, _NO_OFFSET) for number in numbers], "number int, offset long")
            rows = newest.where(F.col("number").isin(numbers)).unionByName(every)
            some_pickled = {number: pickled[number] for number in numbers}
            store_uri = self._store_uri

            def work(rows: pa.Table) -> pa.Table:
                return _compact(store_uri, some_pickled, rows)

            with _errors_as_back_off():
                done = rows.groupBy("number").applyInArrow(work, _DONE).collect()
            yield from (pickle.loads(row["done"]) for row in done)  # noqa: S301 - from our own executors

        try:
            yield compact
        finally:
            newest.unpersist()

    def stop(self) -> None:
        """End the session if it was started."""
        if self._session is not None:
            self._session.stop()

    def _spark(self) -> SparkSession:
        if self._session is None:
            self._session = self._start()
        return self._session


@contextmanager
def _errors_as_back_off() -> Iterator[None]:
    """Turn Spark's error about a failed job into ``BackOff``: the next round tries again."""
    try:
        yield
    except (PySparkException, Py4JError) as problem:
        said = str(problem).partition("\n\tat ")[0]  # without Java's stack, which follows the worker's error
        last = said.strip().rpartition("\n")[2]
        raise BackOff(f"Spark did not finish a rewrite: {last}") from problem


def _tasks(spark: SparkSession, pickled: dict[int, bytes]) -> DataFrame:
    rows = [(number, bytearray(task)) for number, task in pickled.items()]
    return spark.createDataFrame(rows, "number int, task binary").repartition(max(1, len(rows)), "number")


def _newest(tasks: DataFrame, store_uri: str) -> DataFrame:
    """Return the task's number and the offset of the newest record of each key, by partition."""
    found = tasks.mapInArrow(partial(_keys, store_uri), _KEYS)
    newest = found.groupBy("partition", "key").agg(F.max(F.struct("offset", "number")).alias("newest"))
    return newest.select("newest.number", "newest.offset")


def _rewrite(store_uri: str, pickled: bytes) -> TaskResult:
    return rewrite(open_store(store_uri), pickle.loads(pickled))  # noqa: S301 - from our own driver


def _lay_out(store_uri: str, pickled: bytes) -> list[NewSegment]:
    return lay_out(open_store(store_uri), pickle.loads(pickled), random_id)  # noqa: S301 - from our own driver


def _keys(store_uri: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    store = open_store(store_uri)
    for batch in batches:
        for pickled in batch.column("task").to_pylist():
            task: RewriteTask = pickle.loads(pickled)  # noqa: S301 - from our own driver
            for table in read_keys(store, task):
                numbers = pa.array(np.full(table.num_rows, task.number, np.int32))
                yield from table.add_column(0, "number", numbers).to_batches()


def _compact(store_uri: str, pickled: dict[int, bytes], rows: pa.Table) -> pa.Table:
    task: RewriteTask = pickle.loads(pickled[rows.column("number")[0].as_py()])  # noqa: S301 - from our own driver
    newest = np.sort(rows.column("offset").to_numpy())
    done = rewrite(open_store(store_uri), task, newest[newest != _NO_OFFSET])
    return pa.table({"done": pa.array([pickle.dumps(done)], pa.binary())})
