"""One run of a pipeline on MinIO while its driver is killed; then each record is in silver or a dead letter once, and gold right.

Every other driver is killed as soon as silver has the rows of a micro-batch that Spark has not noted as done: its dead letters
may be written or not, and the next driver repeats it. The others are killed at any moment, gold's micro-batches included.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import deltalake
from tortured.killed_driver import killed_driver
from tortured.run import Outcome
from tortured.service import BUCKET, STORE, Service, service

from log_format.errors import StoreError
from log_format.store import ObjectStore
from log_format.stores import open_store
from tidelog import Admin, Producer

TOPIC = "flights"
DEAD_LETTERS = "flights.dead-letters"
LAKE = f"s3://{BUCKET}/lake"
PLANTED = Path(__file__).parents[1] / "planted_pipeline"
RECORDS = 200
"""New ones before each start of a driver."""
BATCH = 50
DRIVER_SECONDS_MAX = 240.0
LAST_SECONDS_MAX = 600.0
LAST_STARTS_MAX = 5
RANDOM_SECONDS_MAX = 8.0
LOOK_SECONDS = 0.05
SETTINGS = f"""
store = "{STORE}"
topic = "{TOPIC}"
output = "{LAKE}"
schema = "number BIGINT NOT NULL, carrier STRING NOT NULL, at TIMESTAMP NOT NULL"
max_offsets_per_trigger = {BATCH}

[gold.hours]
event_time = "at"
watermark = "900 days"
window = "1 hour"
group_by = ["carrier"]
unique = ["number"]
columns = {{ flights = "count(*)", total = "sum(number)" }}
"""
"""No event is late for this watermark, so gold follows from silver alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``planted``: what is written is not named, so that the run must find it twice."""

    restarts: int
    seed: int
    planted: bool = False


class PipelineRun:
    """What is under way."""

    def __init__(self, plan: Plan, running: Service, directory: Path, progress: Callable[[str], None]) -> None:
        self._plan = plan
        self._running = running
        self._directory = directory
        self._progress = progress
        self._chosen = random.Random(plan.seed)
        self._lake: ObjectStore = open_store(LAKE)
        self._settings = directory / "pipeline.toml"
        self.counts = Counter[str]()
        self.failures: list[str] = []

    def run(self) -> None:
        """All of the plan; at its end everything that was sent is settled."""
        self._settings.write_text(SETTINGS, encoding="utf-8")
        with Admin(self._running.urls) as admin:
            admin.create_topic(TOPIC, partition_count=2, config={"flush.ms": 50})
        for restart in range(self._plan.restarts):
            self._progress(f"driver {restart} of {self._plan.restarts}, {dict(self.counts)}")
            self._feed()
            self._kill_a_driver(restart)
        for _ in range(LAST_STARTS_MAX):
            if self._last_driver() == 0:
                return
        self.failures.append(f"{LAST_STARTS_MAX} drivers that nobody killed did not come to their end")

    def judge(self) -> list[str]:
        """What is missing or there twice in silver and among the dead letters, and which windows of gold are wrong."""
        records = [
            (row["partition"], row["offset"], fitting(row["value"]))
            for row in self._rows(f"{STORE}/topics/{TOPIC}", ["partition", "offset", "value"])
        ]
        self.counts["records compared"] = len(records)
        fits = Counter((partition, offset, event["number"]) for partition, offset, event in records if event)
        silver = self._rows(f"{LAKE}/silver", ["_partition", "_offset", "number"])
        found = Counter((row["_partition"], row["_offset"], row["number"]) for row in silver)
        dead = Counter((partition, offset) for partition, offset, event in records if event is None)
        letters = Counter(_origin(row["headers"]) for row in self._rows(f"{STORE}/topics/{DEAD_LETTERS}", ["headers"]))
        gold = self._rows(f"{LAKE}/gold/hours", ["carrier", "flights", "total"])
        windows = Counter((row["carrier"], row["flights"], row["total"]) for row in gold)
        wrong = [_difference("silver", fits, found), _difference("dead letters", dead, letters)]
        wrong.append(_difference("gold", _windows([event for *_, event in records if event]), windows))
        if len(records) != self.counts["records"]:
            wrong.append(f"topic: {len(records)} of {self.counts['records']} records")
        return [each for each in wrong if each]

    def _feed(self) -> None:
        with Producer(self._running.urls) as producer:
            for number in range(self.counts["records"], self.counts["records"] + RECORDS):
                producer.send(TOPIC, value(number), key=str(number))
        self.counts["records"] += RECORDS

    def _kill_a_driver(self, restart: int) -> None:
        with self._driver(str(restart), "--trigger", "0 seconds") as process:
            self._until_it_is_to_be_killed(process, behind_silver=restart % 2 == 0)
            gave_up = process.poll() is not None
        self.counts["drivers that gave up by themselves" if gave_up else "drivers killed"] += 1
        begun, ended = self._newest("offsets"), self._newest("commits")
        if begun > ended:
            written = self._batch_in_silver() == begun
            self.counts["micro-batches cut off"] += 1
            self.counts["of these, their rows in silver"] += written

    def _last_driver(self) -> int:
        with self._driver("last", "--available-now") as process:
            try:
                return process.wait(LAST_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.counts["drivers that took too long"] += 1
        return process.returncode

    def _driver(self, name: str, *more: str) -> Any:
        command = ["-m", "spark_pipeline.jobs.pipeline", "--config", str(self._settings), "--master", "local[2]"]
        planted = PLANTED if self._plan.planted else None
        return killed_driver([*command, *more], self._directory / f"driver-{name}.log", planted=planted)

    def _until_it_is_to_be_killed(self, process: subprocess.Popen[bytes], *, behind_silver: bool) -> None:
        """Until this driver has done something, and what is waited for of it has come."""
        deadline = time.monotonic() + DRIVER_SECONDS_MAX
        before = (self._newest("offsets"), self._newest("commits"))
        enough = self._chosen.uniform(0, RANDOM_SECONDS_MAX)
        began: float | None = None
        while process.poll() is None and time.monotonic() < deadline:
            begun, ended = self._newest("offsets"), self._newest("commits")
            if began is None and (begun, ended) != before:
                began = time.monotonic()
            if behind_silver and begun > max(ended, before[0]) and self._batch_in_silver() == begun:
                return
            if not behind_silver and began is not None and time.monotonic() - began > enough:
                return
            time.sleep(LOOK_SECONDS)

    def _newest(self, kind: str) -> int:
        """The newest micro-batch of silver that Spark has begun (``offsets``) or ended (``commits``); -1: none."""
        names = [info.key.rpartition("/")[2] for info in self._lake.list(f"checkpoints/silver/{kind}/")]
        return max((int(name) for name in names if name.isdecimal()), default=-1)

    def _batch_in_silver(self) -> int:
        """The micro-batch whose rows silver took last; -1: none."""
        keys = [info.key for info in self._lake.list("silver/_delta_log/") if info.key.endswith(".json")]
        try:
            lines = self._lake.get(keys[-1]).splitlines() if keys else []
        except StoreError:
            return -1
        notes = [json.loads(line).get("commitInfo", {}).get("userMetadata") for line in lines]
        return next((int(json.loads(note)["batch"]) for note in notes if note), -1)

    def _rows(self, table: str, columns: list[str]) -> list[dict[str, Any]]:
        opened = deltalake.DeltaTable(table, storage_options=self._running.environment)
        rows: list[dict[str, Any]] = opened.to_pyarrow_table(columns=columns).to_pylist()
        return rows


def value(number: int) -> str:
    """The record of this number: every fifth is no flight, every seventh is the next one's event, which comes again there."""
    if number % 5 == 0:
        return f"flight {number}" if number % 2 else json.dumps({"number": number})
    event = number + 1 if number % 7 == 0 and (number + 1) % 5 else number
    hour = event % 24
    return json.dumps({"number": event, "carrier": "AB"[event % 2], "at": f"2026-01-01T{hour:02d}:00:00Z"})


def fitting(value: bytes) -> dict[str, Any] | None:
    """The event of a record; None: it does not fit."""
    try:
        event: dict[str, Any] = json.loads(value)
    except ValueError:
        return None
    return event if "carrier" in event else None


def torture_pipeline(plan: Plan, directory: Path, *, progress: Callable[[str], None] = lambda _text: None) -> Outcome:
    """Run the plan and judge what is there at its end."""
    began = time.monotonic()
    with service(directory, 1) as running, mock.patch.dict(os.environ, running.environment):
        run = PipelineRun(plan, running, directory, progress)
        run.run()
        contradictions = run.judge() if not run.failures else []
    return Outcome(
        counts=dict(run.counts), contradictions=run.failures + contradictions, seconds=time.monotonic() - began
    )


def _origin(headers: list[dict[str, Any]]) -> tuple[int, int]:
    said = {header["key"]: header["value"] for header in headers}
    return int(said["tidelog.partition"]), int(said["tidelog.offset"])


def _windows(events: list[dict[str, Any]]) -> Counter[tuple[str, int, int]]:
    """What gold has to say of the events, each counted once."""
    windows: dict[tuple[str, str], set[int]] = {}
    for event in events:
        windows.setdefault((event["at"], event["carrier"]), set()).add(event["number"])
    return Counter((carrier, len(numbers), sum(numbers)) for (_, carrier), numbers in windows.items())


def _difference(what: str, expected: Counter[Any], found: Counter[Any]) -> str | None:
    missing, more = (expected - found).total(), (found - expected).total()
    return f"{what}: {missing} missing, {more} too many" if missing or more else None
