"""Queries of a pipeline: one from the topic to silver and the dead letters, and one from silver to each aggregate.

A new pipeline begins at the topic's beginning and catches up, micro-batch by micro-batch, while producers continue. It is one
query, so event time advances with the records, and no record is late because another query read ahead. To rebuild silver with
other rules while the old one is in use, run a second pipeline with another ``output``, and switch when it has caught up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit
from pyspark.sql.streaming.query import StreamingQuery

from spark_pipeline.jobs.pipeline import silver
from spark_pipeline.jobs.pipeline.dead_letters import dead_letter_bytes, ensure_topic, send
from spark_pipeline.jobs.pipeline.gold import Gold, aggregate, upsert
from spark_pipeline.jobs.pipeline.json_schema import from_json_schema
from spark_pipeline.jobs.pipeline.judge import REASON, judge
from spark_pipeline.jobs.pipeline.needed import advice
from spark_pipeline.jobs.pipeline.record_schema import RecordSchema, from_ddl
from spark_pipeline.jobs.pipeline.report import REASONS_MAX, GoldListener, Report
from spark_pipeline.jobs.pipeline.settings import Settings
from spark_pipeline.option_refused import OptionRefused

LOOK_SECONDS: Final = 0.2
"""Interval at which the driver checks whether a query has failed or ``stopping`` is set."""


class Pipeline:
    """One pipeline in a session. Its construction creates missing tables and the dead-letter topic."""

    def __init__(self, spark: SparkSession, settings: Settings, report: Report) -> None:
        """Create missing tables and the dead-letter topic.

        Raises ``OptionRefused``, ``UnknownTopic`` and, for a table with other columns, Spark's ``AnalysisException``.
        """
        self._spark = spark
        self._settings = settings
        self._report = report
        self._schema = record_schema(settings)
        self._rules = self._schema.fingerprint()
        self._checked = False
        self._queries: list[StreamingQuery] = []
        self._advice = advice(settings, ensure_topic(settings.store, settings.dead_letter_topic, settings.topic))
        columns = silver.silver_columns(self._schema)
        silver.create_table(spark, settings.silver, columns)
        for gold in settings.gold:
            summed = aggregate(spark.createDataFrame([], columns), gold)
            silver.create_table(spark, settings.gold_table(gold), summed.schema)

    def run(self, *, trigger: str | None, stopping: threading.Event) -> bool:
        """Run until ``stopping`` is set; with ``trigger`` None, until all available records are processed.

        ``trigger`` is the minimum time between two micro-batches, a Spark interval. Returns False when it was stopped. Raises
        ``StreamingQueryException`` when a query fails. Completed work is done once; the next run continues there.
        """
        settings = self._settings
        names = {f"gold {gold.name}": gold.name for gold in settings.gold}
        listener = GoldListener(self._report, names)
        self._spark.streams.addListener(listener)
        self._report.event(
            "started", topic=settings.topic, silver=settings.silver, dead_letter_topic=settings.dead_letter_topic
        )
        if self._advice is not None:
            self._report.event("advice", detail=self._advice)
        try:
            if trigger is not None:
                queries = [self._start_silver(trigger), *[self._start_gold(gold, trigger) for gold in settings.gold]]
                return self._wait(queries, stopping)
            if not self._wait([self._start_silver(None)], stopping):
                return False
            return self._wait([self._start_gold(gold, None) for gold in settings.gold], stopping)
        finally:
            for query in self._queries:
                query.stop()
            self._spark.streams.removeListener(listener)

    def _start_silver(self, trigger: str | None) -> StreamingQuery:
        settings = self._settings
        options = {
            "store": settings.store,
            "subscribe": settings.topic,
            "startingOffsets": settings.starting_offsets,
            "maxOffsetsPerTrigger": str(settings.max_offsets_per_trigger),
            "includeHeaders": "true",
        }
        if settings.group is not None:
            options["groupId"] = settings.group
        records = self._spark.readStream.format("tidelog").options(**options).load()
        return self._start("silver", judge(records, self._schema), self._settle, trigger)

    def _start_gold(self, gold: Gold, trigger: str | None) -> StreamingQuery:
        path = self._settings.gold_table(gold)
        # Deleting rows of silver, as the law may require, does not stop the queries that read it.
        rows = self._spark.readStream.format("delta").option("skipChangeCommits", "true").load(self._settings.silver)
        changed = aggregate(rows, gold)
        return self._start(f"gold {gold.name}", changed, lambda batch, _: upsert(batch, path, gold), trigger)

    def _start(
        self, name: str, rows: DataFrame, each: Callable[[DataFrame, int], None], trigger: str | None
    ) -> StreamingQuery:
        writing = rows.writeStream.queryName(name).outputMode("update").foreachBatch(each)
        writing = writing.option("checkpointLocation", self._settings.checkpoint(name.replace(" ", "/")))
        timed = writing.trigger(availableNow=True) if trigger is None else writing.trigger(processingTime=trigger)
        self._queries.append(timed.start())
        return self._queries[-1]

    def _settle(self, judged: DataFrame, batch_id: int) -> None:
        """Process a micro-batch: write rows to silver, then the others to the dead letters.

        Each of the two writes the batch once, however often it is repeated.
        """
        settings = self._settings
        query_id = judged.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        assert query_id is not None
        if not self._checked:
            silver.check_belongs(
                judged.sparkSession, settings.silver, query_id=query_id, batch_id=batch_id, rules=self._rules
            )
            self._checked = True
        judged.persist()
        try:
            totals = judged.agg(count(lit(1)), count(REASON), dead_letter_bytes()).collect()[0]
            records, dead, size_bytes = totals[0], totals[1], totals[2] or 0
            rows = silver.valid_rows(judged, self._schema)
            silver.write(rows, settings.silver, query_id=query_id, batch_id=batch_id, rules=self._rules)
            if dead:
                topic = settings.dead_letter_topic
                send(judged, settings.store, topic, size_bytes=size_bytes, query_id=query_id, batch_id=batch_id)
            reasons = most_frequent(judged) if dead else {}
        finally:
            judged.unpersist()
        self._report.event(
            "batch", batch=batch_id, records=records, silver=records - dead, dead_letters=dead, reasons=reasons
        )

    def _wait(self, queries: list[StreamingQuery], stopping: threading.Event) -> bool:
        """Wait until all queries have ended, or one has failed. Returns False if ``stopping`` was set."""
        while any(query.isActive for query in queries):
            if stopping.wait(LOOK_SECONDS):
                return False
            _raise_failure(queries)
        _raise_failure(queries)
        return True


def record_schema(settings: Settings) -> RecordSchema:
    """Return the schema that the settings name. Needs a session. Raises ``OptionRefused``."""
    found = from_json_schema(settings.json_schema) if settings.ddl is None else from_ddl(settings.ddl)
    schema = found.with_checks(settings.checks)
    for gold in settings.gold:
        for name in (gold.event_time, *gold.group_by, *gold.unique):
            if name not in schema.columns.fieldNames():
                raise OptionRefused(f"gold.{gold.name}", f"there is no column {name}")
        if not schema.always_has(gold.event_time):
            raise OptionRefused(
                f"gold.{gold.name}.event_time",
                f"column {gold.event_time} may be null, and such rows would count nowhere",
            )
    return schema


def most_frequent(judged: DataFrame) -> dict[str, int]:
    """Return the most frequent reasons, and their counts."""
    told = judged.where(col(REASON).isNotNull()).groupBy(REASON).agg(count(lit(1)).alias("times"))
    most = told.orderBy(col("times").desc(), REASON).limit(REASONS_MAX).collect()
    return {row[REASON]: row["times"] for row in most}


def _raise_failure(queries: list[StreamingQuery]) -> None:
    for query in queries:
        failure = query.exception()
        if isinstance(failure, StreamingQueryException):
            raise failure
