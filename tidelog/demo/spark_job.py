"""Output of the Spark job ``spark_pipeline.jobs.flight_delays``, read while it runs.

That module describes the files; each appears complete.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tidelog.demo.summary import Summary


@dataclass(frozen=True, slots=True)
class Batch:
    """Everything that the job had seen at the end of a micro-batch."""

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
    """Output directory of the job, read as it grows; each batch file is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._batches: dict[str, Batch] = {}

    def is_ready(self) -> bool:
        """Return whether the query runs and has read the topic's state."""
        return (self._directory / "ready.json").is_file()

    def batches(self) -> list[Batch]:
        """Return the micro-batches so far, in order."""
        for path in sorted(self._directory.glob("batches/[0-9]*.json")):
            if path.name not in self._batches:
                self._batches[path.name] = _batch(path)
        return [self._batches[name] for name in sorted(self._batches)]

    def seen(self) -> Summary:
        """Return the summary of all records that the job has seen so far."""
        batches = self.batches()
        return batches[-1].summary if batches else Summary()

    def result(self) -> list[Group]:
        """Return the newest result, by hour and carrier."""
        content = json.loads((self._directory / "result.json").read_bytes())
        return [Group(**entry) for entry in content]


def _batch(path: Path) -> Batch:
    content = json.loads(path.read_bytes())
    return Batch(
        done_at_ms=content["done_at_ms"],
        summary=Summary(content["count"], content["checksum_sum"], content["checksum_xor"]),
        next_offsets={int(partition): offset for partition, offset in content["next_offsets"].items()},
    )
