"""Aggregates over windows of event time, each in a Delta table.

1. A row of the table is a window as currently known. It changes until the watermark has passed the window's end, never after.
2. Rows are upserted by their key with whole values, not increments: a repeated micro-batch changes nothing.
3. Rows of silver that come later than the watermark allows are in silver only; the report counts them.
4. With ``unique``, an event sent more than once counts once: equal values of those columns within the watermark are one event.
   The checkpoint has the events seen, so a restart does not forget them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, expr
from pyspark.sql.functions import window as window_

from spark_pipeline.jobs.pipeline.record_schema import quote_column

WINDOW: Final = ("window_start", "window_end")
"""First columns of every table, timestamps: the window's range of event time, the end excluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gold:
    """One aggregate. ``window`` and ``watermark`` are Spark's intervals (``1 hour``)."""

    name: str
    event_time: str
    """Column of silver that is never null."""
    watermark: str
    """Maximum delay behind the newest event with which an event still counts."""
    window: str
    group_by: tuple[str, ...]
    """Columns of silver by which rows are grouped."""
    columns: Mapping[str, str]
    """Name -> SQL aggregate over silver's columns, ``count(*)``."""
    unique: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """Columns that identify a row."""
        return (*WINDOW, *self.group_by)


def aggregate(silver: DataFrame, gold: Gold) -> DataFrame:
    """Aggregate rows of silver to ``WINDOW``, ``gold.group_by``, ``gold.columns``."""
    events = silver.withWatermark(gold.event_time, gold.watermark)
    if gold.unique:
        events = events.dropDuplicatesWithinWatermark(list(gold.unique))
    groups = events.groupBy(
        window_(col(quote_column(gold.event_time)), gold.window), *[col(quote_column(name)) for name in gold.group_by]
    )
    summed = groups.agg(*[expr(text).alias(name) for name, text in gold.columns.items()])
    edges = [col(f"window.{edge}").alias(name) for edge, name in zip(("start", "end"), WINDOW, strict=True)]
    return summed.select(*edges, *[quote_column(name) for name in (*gold.group_by, *gold.columns)])


def upsert(changed: DataFrame, path: str, gold: Gold) -> None:
    """Replace the windows' previous rows by the current ones."""
    matches = " AND ".join(f"kept.{quote_column(name)} <=> changed.{quote_column(name)}" for name in gold.key)
    view = f"changed_{gold.name}"
    changed.createOrReplaceTempView(view)
    changed.sparkSession.sql(
        f"MERGE INTO delta.{quote_column(path)} AS kept USING {view} AS changed ON {matches} "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
