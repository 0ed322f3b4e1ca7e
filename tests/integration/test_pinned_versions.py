"""Readers that know nothing of Tidelog read a pinned version after retention, merges, clean-up and collection went over it."""

from __future__ import annotations

from pathlib import Path

import deltalake
import duckdb
import polars as pl
import pytest
from pyspark.sql import SparkSession

from log_format import layout
from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.checkpoints.pinned_versions import keep_version
from log_format.topic.pin_changes import CreatePin, DeletePin
from spark_pipeline import read_topic
from tests.support.maintenance_bench import MaintenanceBench

pytestmark = pytest.mark.timeout(900)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Pinned:
    """A store in memory with a pinned version between days of other commits, and its copy in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bench = bench = MaintenanceBench()
        bench.create(2, retention_ms=HOUR_MS)
        self.values: list[str] = []
        self.write("old")
        self.live(1)
        self.values.clear()
        self.write("pinned")
        topic_id = bench.log.refresh().existing_id
        self.pin, _ = bench.commit(CreatePin(name="before-migration", expires_at_ms=None, topic_id=topic_id))
        keep_version(bench.store, "t", self.pin.version, bench.clock.now_ms())
        self.kept, self.values = sorted(self.values), []
        self.live(4)
        self.copy()

    def write(self, name: str) -> None:
        for number in range(7):
            value = f"{name}-{number}"
            self.values.append(value)
            self.bench.append((number % 2, b"k", value.encode()))
            self.bench.clock.pass_ms(10)

    def live(self, days: int) -> None:
        """Days in which what is not pinned goes."""
        bench = self.bench
        for day in range(days):
            self.write(f"later-{day}")
            write_checkpoint(bench.store, "t", bench.log.refresh().version, bench.clock.now_ms())
            bench.clock.pass_ms(DAY_MS)
            assert bench.job().run_round(collect=True).failed_topics == 0

    def copy(self) -> None:
        for info in self.bench.store.list(""):
            path = self.directory / info.key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.bench.store.get(info.key))

    @property
    def table(self) -> str:
        return str(self.directory / "topics/t")


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Pinned:
    return Pinned(tmp_path_factory.mktemp("pinned"))


def test_the_log_has_a_gap_around_the_version(pinned: Pinned) -> None:
    """Otherwise the tests below would show nothing: the neighbours are gone, and files are there that only the pin keeps."""
    names = {path.name for path in (pinned.directory / "topics/t/_delta_log").iterdir()}
    version = pinned.pin.version
    assert {f"{version:020d}.json", f"{version:020d}.checkpoint.parquet"} <= names
    assert not {f"{version - 1:020d}.json", f"{version + 1:020d}.json"} & names
    live = {segment.path for segment in pinned.bench.log.state.manifest.segments()}
    stored = {info.key.removeprefix("topics/t/") for info in pinned.bench.store.list("topics/t/segments/")}
    assert stored - live, "files that only the pin keeps"


def test_deltalake_and_polars_and_duckdb_read_the_version(pinned: Pinned) -> None:
    """By version number, each by its own code for Delta or over Arrow; the present version reads as before, too."""
    version = pinned.pin.version
    table = deltalake.DeltaTable(pinned.table, version=version)
    found = table.to_pyarrow_table()
    assert sorted(value.decode() for value in found["value"].to_pylist()) == pinned.kept
    frame = pl.scan_delta(pinned.table, version=version).select(pl.col("value").cast(pl.String)).collect()
    assert sorted(frame["value"].to_list()) == pinned.kept
    dataset = table.to_pyarrow_dataset()  # noqa: F841 - DuckDB finds it by its name
    rows = duckdb.connect().execute("SELECT CAST(value AS VARCHAR) FROM dataset").fetchall()
    assert sorted(value for (value,) in rows) == pinned.kept
    assert deltalake.DeltaTable(pinned.table).version() == pinned.bench.log.refresh().version


def test_spark_reads_the_version(spark: SparkSession, pinned: Pinned) -> None:
    """By Delta's ``versionAsOf`` and by ``read_topic``, by number and by the pin's name."""
    version = pinned.pin.version
    reader = spark.read.format("delta").option("versionAsOf", version).load(pinned.table)
    assert sorted(row[0] for row in reader.selectExpr("cast(value as string)").collect()) == pinned.kept
    for wanted in (version, "before-migration"):
        frame = read_topic(spark, str(pinned.directory), "t", version=wanted)
        assert sorted(row[0] for row in frame.selectExpr("cast(value as string)").collect()) == pinned.kept
    with pytest.raises(ValueError, match="has no pin 'nope'"):
        read_topic(spark, str(pinned.directory), "t", version="nope")


def test_without_the_pin_the_version_is_gone(pinned: Pinned) -> None:
    """Two days after the pin was deleted nothing of it is left."""
    bench = pinned.bench
    bench.commit(DeletePin(name="before-migration", topic_id=bench.log.refresh().existing_id))
    pinned.live(2)
    assert layout.checkpoint_key("t", pinned.pin.version) not in bench.stored("_delta_log/")
