"""Spark's first query of a topic with a long history: by ``format("tidelog")`` and by Delta's own reader.

This is what a new job pays: Delta's cache of tables is cleared before each query. A query reads 20 records from a known offset,
so its time is planning and the floor of every query.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from benchmarks.maintenance.gateway_costs import Costs, Measured
from benchmarks.maintenance.histories import RECORDS, TOPIC, Histories
from spark_pipeline import Way, read_topic, session

WARM_UPS: Final = 3
RUNS: Final = 9
QUERY_SECONDS_MAX: Final = 60
"""A query is given up after that."""
HISTORY_SECONDS_MAX: Final = 60
"""A history whose queries have taken so long is not queried again."""

Query = Callable[[SparkSession, str, int], int]


def measure(histories: Histories, names: Mapping[str, Path]) -> Costs:
    """Measure both readers on every history, in turn."""
    some = next(iter(names.values())).as_uri()
    spark = session(some, app_name="benchmarks", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    queries: dict[str, Query] = {
        'Spark, format("tidelog"): first query': _tidelog,
        "Spark, Delta (native): first query": _delta,
    }
    costs: Costs = {operation: {name: Measured() for name in names} for operation in queries}
    warming = [histories.few, histories.an_hour]
    try:
        for operation, query in queries.items():
            for path in warming * WARM_UPS:
                _timed(query, spark, path.as_uri(), 0)
            spent_seconds = dict.fromkeys(names, 0.0)
            for run in range(RUNS):
                for name, path in names.items():
                    if spent_seconds[name] > HISTORY_SECONDS_MAX:
                        continue
                    place = 0 if path == histories.few else histories.read_from[run % len(histories.read_from)]
                    began = time.perf_counter()
                    milliseconds = _timed(query, spark, path.as_uri(), place)
                    spent_seconds[name] += time.perf_counter() - began
                    if milliseconds is not None:
                        costs[operation][name].note(milliseconds)
    finally:
        spark.stop()
    return costs


def _timed(query: Query, spark: SparkSession, store: str, place: int) -> float | None:
    """Return milliseconds; None if the query was given up."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]
    found: list[int] = []
    failed: list[PySparkException | Py4JError] = []

    def ask() -> None:
        try:
            found.append(query(spark, store, place))
        except (PySparkException, Py4JError) as problem:
            failed.append(problem)

    began = time.perf_counter()
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(QUERY_SECONDS_MAX)
    milliseconds = (time.perf_counter() - began) * 1000
    if asking.is_alive():
        spark.sparkContext.cancelAllJobs()
        asking.join(QUERY_SECONDS_MAX)
        return None
    if failed:
        raise failed[0]
    if found != [RECORDS]:
        raise RuntimeError(f"a query of {store} gave {found} records, not {RECORDS}")
    return milliseconds


def _tidelog(spark: SparkSession, store: str, place: int) -> int:
    starting, ending = (json.dumps({TOPIC: {"0": offset}}) for offset in (place, place + RECORDS))
    reader = spark.read.format("tidelog").options(
        store=store, subscribe=TOPIC, startingOffsets=starting, endingOffsets=ending
    )
    return len(reader.load().select("value").collect())


def _delta(spark: SparkSession, store: str, place: int) -> int:
    wanted = (F.col("partition") == 0) & F.col("offset").between(place, place + RECORDS - 1)
    return len(read_topic(spark, store, TOPIC, way=Way.DELTA).where(wanted).select("value").collect())
