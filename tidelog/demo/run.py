"""One run of the demo, from the first process to the result."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidelog.admin import Admin
from tidelog.demo.gateway import DemoGateway
from tidelog.demo.lag import lag
from tidelog.demo.maintenance import DemoMaintenance
from tidelog.demo.picture import draw
from tidelog.demo.processes import ChildProcess
from tidelog.demo.readers import read_delta, read_http
from tidelog.demo.replay import replay
from tidelog.demo.result import ReaderResult, Result
from tidelog.demo.source import Flights
from tidelog.demo.spark_job import Group, SparkOutput
from tidelog.demo.summary import Summary

TOPIC: Final = "flights"
PARTITION_COUNT: Final = 8
TOPIC_CONFIG: Final = {"retention.ms": -1}
"""Settings of the topic: the flights are of 2013, and retention goes by the records' timestamps."""

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a Java that lives a minute and shares two cores with a gateway: thorough compilation would never pay off."""

SPARK_START_SECONDS_MAX: Final = 1_200
"""Time limit until the query runs: it takes fifteen seconds, but longer when its jars are first fetched."""

SPARK_SILENCE_SECONDS_MAX: Final = 120
"""Time for which Spark may see no further records before the run fails."""

SPARK_END_SECONDS_MAX: Final = 60
"""Time limit for the job's end once it has seen everything."""

LOOK_SECONDS: Final = 0.2
"""Interval at which Spark's output is checked while records are sent."""

BAR_COLUMNS: Final = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())

DELAY_TOLERANCE_MINUTES: Final = 1e-9
"""Tolerance of means: all delays are whole minutes, so that sums are exact; only the division may round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of a run."""

    store: str
    directory: Path
    """Directory for logs, Spark's output and the picture."""
    records: int | None
    records_per_second: int


def run(options: Options, console: Console) -> Result:
    """Run the demo, and end all started processes in every case.

    Raises ``ChildFailed``, ``NotAcknowledged``, and the SDK's errors.
    """
    started = time.monotonic()
    options.directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        gateway = stack.enter_context(DemoGateway(options.store, options.directory / "gateway.log"))
        maintenance = stack.enter_context(DemoMaintenance(options.store, options.directory / "maintenance.log"))
        url = gateway.wait_until_ready()
        console.print(f"The gateway serves {options.store} on {url}", soft_wrap=True)
        with Admin(url) as admin:
            admin.create_topic(TOPIC, PARTITION_COUNT, TOPIC_CONFIG)
        flights = Flights(options.records)
        output = SparkOutput(options.directory / "spark")
        spark = stack.enter_context(_spark_job(options, len(flights)))
        with console.status("Spark starts a streaming query on the topic's table, in the store"):
            _wait_for(output.is_ready, spark, SPARK_START_SECONDS_MAX, "did not start its query")
        console.print("Spark's query runs. Now the flights come in, in time order.")

        with Progress(*BAR_COLUMNS, console=console) as bars:
            watch = Watch(bars, len(flights), gateway, spark, output)
            pace = options.records_per_second
            replayed = replay(url, TOPIC, flights, records_per_second=pace, on_progress=watch.acknowledged)
            watch.until_spark_has_seen(replayed.summary.count)
        spark.wait(SPARK_END_SECONDS_MAX)

        with console.status("Reading the topic back over HTTP"):
            over_http = _timed("HTTP", lambda: read_http(url, TOPIC))
        upkeep = maintenance.done()
    with console.status("Reading the topic's table with deltalake"):
        by_delta = _timed("deltalake", lambda: read_delta(options.store, TOPIC))
    batches, groups = output.batches(), output.result()
    picture = options.directory / "delays.png" if groups else None
    if picture is not None:
        draw(groups, flights.carrier_names, picture)
    return Result(
        store=options.store,
        topic=TOPIC,
        acknowledged=ReaderResult(name="acknowledged", summary=replayed.summary, seconds=replayed.seconds),
        ways=(over_http, ReaderResult(name="Spark", summary=output.seen()), by_delta),
        value_bytes=replayed.value_bytes,
        records_per_second_asked=options.records_per_second,
        lag=lag(replayed.acknowledgements, batches),
        micro_batches=len(batches),
        upkeep=upkeep,
        groups=tuple(groups),
        delays_agree=_same_delays(groups, flights.mean_delays()),
        carrier_names=flights.carrier_names,
        picture=picture,
        seconds=time.monotonic() - started,
    )


def _spark_job(options: Options, records: int) -> ChildProcess:
    output = options.directory / "spark"
    arguments = ["--store", options.store, "--topic", TOPIC, "--output", str(output), "--records", str(records)]
    return ChildProcess(
        "The Spark job",
        "spark_pipeline.jobs.flight_delays",
        arguments,
        options.directory / "spark.log",
        grace_seconds=10,
        environment={"SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {JAVA_OPTIONS}".strip()},
    )


class Watch:
    """Progress display of the gateway and Spark, which also detects when one of them has ended."""

    def __init__(
        self, bars: Progress, records: int, gateway: ChildProcess, spark: ChildProcess, output: SparkOutput
    ) -> None:
        self._bars = bars
        self._gateway = gateway
        self._spark = spark
        self._output = output
        self._sent = bars.add_task("acknowledged over HTTP", total=records)
        self._seen = bars.add_task("seen by Spark", total=records)
        self._looked = 0.0

    def acknowledged(self, count: int) -> None:
        """Show the number of acknowledged records. Raises ``ChildFailed``."""
        self._bars.update(self._sent, completed=count)
        if time.monotonic() - self._looked > LOOK_SECONDS:
            self._looked = time.monotonic()
            self._gateway.check()
            self._spark.check(may_end=True)
            self._bars.update(self._seen, completed=self._output.seen().count)

    def until_spark_has_seen(self, records: int) -> None:
        """Wait until Spark has seen so many records. Raises ``ChildFailed`` if Spark ends before, or stalls."""
        self._bars.stop_task(self._sent)
        count, changed = -1, time.monotonic()
        while count < records:
            self._spark.check(may_end=True)
            found = self._output.seen().count
            if found != count:
                count, changed = found, time.monotonic()
                self._bars.update(self._seen, completed=count)
            elif time.monotonic() - changed > SPARK_SILENCE_SECONDS_MAX:
                raise self._spark.failure(f"saw {count:,} of {records:,} records and then nothing more")
            time.sleep(0.02)


def _wait_for(condition: Callable[[], bool], child: ChildProcess, timeout_seconds: float, what: str) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        child.check()
        if time.monotonic() > deadline:
            raise child.failure(f"{what} within {timeout_seconds:.0f} s")
        time.sleep(0.05)


def _timed(name: str, read: Callable[[], Summary]) -> ReaderResult:
    started = time.monotonic()
    summary = read()
    return ReaderResult(name=name, summary=summary, seconds=time.monotonic() - started)


def _same_delays(groups: list[Group], wanted: dict[tuple[int, str], float | None]) -> bool:
    found = {(group.hour, group.carrier): group.mean_delay_minutes for group in groups}
    if found.keys() != wanted.keys():
        return False
    for place, minutes in wanted.items():
        by_spark = found[place]
        if (minutes is None) != (by_spark is None):
            return False
        if minutes is not None and by_spark is not None and abs(minutes - by_spark) > DELAY_TOLERANCE_MINUTES:
            return False
    return True
