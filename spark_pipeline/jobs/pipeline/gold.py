"""Aggregates over windows of event time, each in a Delta table.

1. A row of the table is a window as known now. It changes until the watermark has passed the window's end, never after.
2. Rows are written by their key with whole values, not increments: a repeated micro-batch changes nothing.
3. Rows of silver that come later than the watermark allows are in silver only; the report counts them.
4. With ``unique`` an event that was sent more than once counts once: equal values of those columns within the watermark are one
   event. The checkpoint has the events seen, so a restart does not forget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr
from pyspark.sql.functions import window as window_

from spark_pipeline.jobs.pipeline.record_schema import quoted

WINDOW: Final = ("window_start", "window_end")
"""The first columns of every table, timestamps: the range of event time, the end excluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """One aggregate. ``window`` and ``watermark`` are Spark's intervals (``1 hour``)."""

    name: str
    event_time: str
    """A column of silver that is never null."""
    watermark: str
    """How far behind the newest event an event may be and still count."""
    window: str
    group_by: tuple[str, ...]
    """Columns of silver."""
    columns: Mapping[str, str]
    """Name -> SQL aggregate over silver's columns, ``count(*)``."""
    unique: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that name a row."""
        return (*WINDOW, *self.group_by)


def aggregate(silver: DataFrame, gold: Gold) -> DataFrame:
    """Rows of silver -> ``WINDOW``, ``gold.group_by``, ``gold.columns``."""
    events = silver.withWatermark(gold.event_time, gold.watermark)
    if gold.unique:
        events = events.dropDuplicatesWithinWatermark(list(gold.unique))
    groups = events.groupBy(
        window_(col(quoted(gold.event_time)), gold.window), *[col(quoted(name)) for name in gold.group_by]
    )
    summed = groups.agg(*[expr(text).alias(name) for name, text in gold.columns.items()])
    edges = [col(f"window.{edge}").alias(name) for edge, name in zip(("start", "end"), WINDOW, strict=True)]
    return summed.select(*edges, *[quoted(name) for name in (*gold.group_by, *gold.columns)])


def upsert(changed: DataFrame, path: str, gold: Gold) -> None:
    """Write what the windows are now over what they were."""
    matches = " AND ".join(f"kept.{quoted(name)} <=> changed.{quoted(name)}" for name in gold.key)
    view = f"changed_{gold.name}"
    changed.createOrReplaceTempView(view)
    changed.sparkSession.sql(
        f"MERGE INTO delta.{quoted(path)} AS kept USING {view} AS changed ON {matches} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
