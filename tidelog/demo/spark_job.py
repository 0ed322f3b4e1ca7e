"""What the Spark job ``spark_pipeline.jobs.flight_delays`` writes into its output directory while it runs.

Its module says what the files hold; each appears whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tidelog.demo.summary import Summary


@dataclass(frozen=True, slots=True)
class Batch:
    """What the job had seen in all when a micro-batch was done."""

    done_at_ms: int
    summary: Summary
    next_offsets: dict[int, int]


@dataclass(frozen=True, slots=True)
class Group:
    """One hour of day and carrier of the result."""

    hour: int
    carrier: str
    flights: int
    departed: int
    mean_delay_minutes: float | None


class SparkOutput:
    """The job's output directory, read as it grows; each batch file once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._batches: dict[str, Batch] = {}

    def is_ready(self) -> bool:
        """Whether the query runs and has looked at the topic."""
        return (self._directory / "ready.json").is_file()

    def batches(self) -> list[Batch]:
        """The micro-batches so far, in order."""
        for path in sorted(self._directory.glob("batches/[0-9]*.json")):
            if path.name not in self._batches:
                self._batches[path.name] = _batch(path)
        return [self._batches[name] for name in sorted(self._batches)]

    def seen(self) -> Summary:
        """All records that the job has seen so far."""
        batches = self.batches()
        return batches[-1].summary if batches else Summary()

    def result(self) -> list[Group]:
        """The newest result, by hour and carrier."""
        content = json.loads((self._directory / "result.json").read_bytes())
        return [Group(**entry) for entry in content]


def _batch(path: Path) -> Batch:
    content = json.loads(path.read_bytes())
    return Batch(
        done_at_ms=content["done_at_ms"],
        summary=Summary(content["count"], content["checksum_sum"], content["checksum_xor"]),
        next_offsets={int(partition): offset for partition, offset in content["next_offsets"].items()},
    )
