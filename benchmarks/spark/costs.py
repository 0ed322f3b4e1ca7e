"""The cost of a query, a segment and a record in each way of ``read_topic``: the figures of ``spark_pipeline/way.py``.

Three topics: a nearly empty one, one of many small segments, and one of many records in large ones. CPU seconds over all
processes are linear in segments and records, so the three topics give the three costs. The time of an answer from the smallest
topic is the fixed wait of a query.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.harness.report import Table
from benchmarks.spark.rates import cpu_seconds
from benchmarks.spark.sources import COUNTS, MANY, SEGMENT_RECORDS, copy
from spark_pipeline import Way, read_topic

TINY: Final = "tiny"
SCATTERED: Final = "scattered"
SCATTERED_SEGMENTS: Final = 400
SEGMENT_RECORDS_FEW: Final = 250
WARM_UPS: Final = 2
RUNS: Final = 3
SECONDS_MAX: Final = 60
"""No further turn begins after that."""
NEEDED: Final = ("count(key)", "sum(length(value))", "max(partition)", "max(offset)", "max(timestamp)")
"""Every column except the headers: these records have none."""


def costs(spark: SparkSession, store: str, records: pa.Table) -> Table:
    """Measure the existing topic ``MANY``, and two made of the first of ``records``."""
    for topic, segments in ((TINY, 1), (SCATTERED, SCATTERED_SEGMENTS)):
        copy(records.slice(0, segments * SEGMENT_RECORDS_FEW), store, topic, segment_records=SEGMENT_RECORDS_FEW)
    shape = {
        TINY: (1, SEGMENT_RECORDS_FEW),
        SCATTERED: (SCATTERED_SEGMENTS, SCATTERED_SEGMENTS * SEGMENT_RECORDS_FEW),
        MANY: (COUNTS[MANY] // SEGMENT_RECORDS, COUNTS[MANY]),
    }
    turns: dict[tuple[Way, str], list[tuple[float, float]]] = {(way, topic): [] for way in Way for topic in shape}
    began = time.monotonic()
    for turn in range(WARM_UPS + RUNS):
        if turn > WARM_UPS and time.monotonic() - began > SECONDS_MAX:
            break
        for (way, topic), taken in turns.items():
            before, at = cpu_seconds(), time.perf_counter()
            read_topic(spark, store, topic, way=way).selectExpr(*NEEDED).collect()
            taken.append((time.perf_counter() - at, cpu_seconds() - before))
    table = Table(
        "What read_topic reckons with (spark_pipeline/way.py): all columns, local[2], directory store",
        ["way", "a query, s", "CPU of a query, s", "CPU of a segment, ms", "CPU of a record, us"],
        notes=["The minimum of alternating runs of the ways."],
    )
    factors = np.array([[1, *shape[topic]] for topic in shape], dtype=float)
    for way in Way:
        seconds, _ = _least(turns[way, TINY])
        spent = [_least(turns[way, topic])[1] for topic in shape]
        query, segment, record = np.linalg.solve(factors, np.array(spent)).tolist()
        table.add(way, f"{seconds:.2f}", f"{query:.2f}", f"{segment * 1e3:.2f}", f"{record * 1e6:.2f}")
    return table


def _least(taken: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the least of each: other work on the machine, and the JVM's compiler, only add."""
    seconds, cpu = zip(*taken[WARM_UPS:], strict=True)
    return min(seconds), min(cpu)
