"""Fixtures of tests of the pipeline: a topic of flights, a report, and what became of the records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_pipeline.jobs.pipeline.settings import Settings
from tests.support.flight_topic import Events, FlightTopic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def flight_topic(tmp_path: Path) -> FlightTopic:
    """An empty topic."""
    return FlightTopic(tmp_path)


@pytest.fixture
def events() -> Events:
    """A report."""
    return Events()


@pytest.fixture
def results(spark: SparkSession) -> Callable[[Settings], Any]:
    """What a pipeline has made, sorted: places of rows, places of dead letters with their reasons, the aggregate's rows."""

    def read(settings: Settings) -> tuple[list[Any], list[Any], list[Any]]:
        rows = spark.read.format("delta").load(settings.silver).select("_partition", "_offset", "flight")
        letters = (
            spark.read.format("tidelog")
            .options(store=settings.store, subscribe=settings.dead_letter_topic, includeHeaders="true")
            .load()
        )
        told = [
            {header["key"]: bytes(header["value"]).decode() for header in row["headers"]} for row in letters.collect()
        ]
        dead = [(int(each["tidelog.partition"]), int(each["tidelog.offset"]), each["tidelog.reason"]) for each in told]
        windows: list[Any] = []
        for each in settings.gold:
            gold = spark.read.format("delta").load(settings.gold_table(each))
            columns = ("date_format(window_start, 'dd HH') AS hour", "carrier", "flights", "delay")
            windows += gold.selectExpr(*columns).collect()
        return (
            sorted(tuple(row) for row in rows.collect()),
            sorted(dead),
            sorted(tuple(row) for row in windows),
        )

    return read
