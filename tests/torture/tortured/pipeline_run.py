"""One run of a pipeline on MinIO while its driver is killed; then each record is in silver or a dead letter once, and gold right.

Every other driver is killed as soon as silver has the rows of a micro-batch that Spark has not noted as done. Its dead letters
may be written or not, and the next driver repeats it. The others are killed at any moment, gold's micro-batches included.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import deltalake

from log_format.errors import StoreError
from log_format.store import ObjectStore
from log_format.stores import open_store
from tests.torture.tortured.driver_run import DriverRun, Plan
from tests.torture.tortured.service import BUCKET, STORE, Service

TOPIC = "flights"
DEAD_LETTERS = "flights.dead-letters"
LAKE = f"s3://{BUCKET}/lake"
BATCH = 50
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


class PipelineRun(DriverRun):
    """The point: silver has the rows of a micro-batch that Spark has not noted as done."""

    GATEWAYS = 1
    PLANTED = Path(__file__).parents[1] / "planted_pipeline"
    TOPICS = (TOPIC,)
    FED = 200
    RANDOM_SECONDS_MAX = 8.0

    def __init__(self, plan: Plan, running: Service, directory: Path, progress: Callable[[str], None]) -> None:
        super().__init__(plan, running, directory, progress)
        self._lake: ObjectStore = open_store(LAKE)
        self._settings = directory / "pipeline.toml"
        self._settings.write_text(SETTINGS, encoding="utf-8")

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

    def command(self, *, is_last: bool) -> list[str]:
        """The driver's command. Only the last driver ends by itself: the others wait for more for ever."""
        trigger = ["--available-now"] if is_last else ["--trigger", "0 seconds"]
        job = ["-m", "spark_pipeline.jobs.pipeline", "--config", str(self._settings), "--master", "local[2]"]
        return [*job, *trigger]

    def steps(self) -> Sequence[int]:
        """The newest micro-batches of silver that Spark has begun and ended."""
        return self._newest("offsets"), self._newest("commits")

    def is_at_the_point(self, before: Sequence[int]) -> bool:
        """Its dead letters may be written or not."""
        begun, ended = self.steps()
        return begun > max(ended, before[0]) and self._batch_in_silver() == begun

    def count_what_was_cut_off(self) -> None:
        """A micro-batch that Spark has begun and not ended, and whether silver has it already."""
        begun, ended = self.steps()
        if begun > ended:
            self.counts["micro-batches cut off"] += 1
            self.counts["of these, their rows in silver"] += self._batch_in_silver() == begun

    def value(self, number: int) -> str:
        """As ``value``."""
        return value(number)

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
        opened = deltalake.DeltaTable(table, storage_options=self.running.environment)
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
