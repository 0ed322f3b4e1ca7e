"""Result of one run of the demo."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidelog.demo.lag import Lag
from tidelog.demo.maintenance import Upkeep
from tidelog.demo.spark_job import Group
from tidelog.demo.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderResult:
    """One way of reading the records: its summary and duration; None if it ran while they arrived."""

    name: str
    summary: Summary
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Complete result of one run."""

    store: str
    topic: str
    acknowledged: ReaderResult
    """Acknowledged records; its seconds are those of the replay."""
    ways: tuple[ReaderResult, ...]
    """Records read back: over HTTP, by Spark, by deltalake."""
    value_bytes: int
    records_per_second_asked: int
    lag: Lag | None
    micro_batches: int
    upkeep: Upkeep
    """Results of maintenance meanwhile."""
    groups: tuple[Group, ...]
    delays_agree: bool
    """Whether Spark's mean delays equal the source's."""
    carrier_names: dict[str, str]
    picture: Path | None
    seconds: float
    """Duration of the whole run."""

    @property
    def agree(self) -> bool:
        """Whether every way gave exactly the acknowledged records, and the query the right answer."""
        return self.delays_agree and all(way.summary == self.acknowledged.summary for way in self.ways)

    def as_json(self) -> dict[str, Any]:
        """Return the result for ``--json``."""
        seconds = self.acknowledged.seconds or 0.0
        return {
            "agree": self.agree,
            "store": self.store,
            "topic": self.topic,
            "records": self.acknowledged.summary.count,
            "acknowledged": asdict(self.acknowledged.summary),
            "ways": {way.name: asdict(way.summary) | {"seconds": way.seconds} for way in self.ways},
            "delays_agree": self.delays_agree,
            "produce": {
                "seconds": seconds,
                "records_per_second": self.acknowledged.summary.count / seconds if seconds else None,
                "bytes": self.value_bytes,
                "records_per_second_asked": self.records_per_second_asked or None,
            },
            "lag_ms": None if self.lag is None else asdict(self.lag),
            "micro_batches": self.micro_batches,
            "maintenance": asdict(self.upkeep),
            "picture": None if self.picture is None else str(self.picture),
            "seconds": self.seconds,
            "result": [asdict(group) for group in self.groups],
        }
