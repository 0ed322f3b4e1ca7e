"""What one run of the demo found out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tidelog.demo.lag import Lag
from tidelog.demo.maintenance import Upkeep
from tidelog.demo.spark_job import Group
from tidelog.demo.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to the records: what it gave, and how long that took; None where it went on while they arrived."""

    name: str
    summary: Summary
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run, complete."""

    store: str
    topic: str
    acknowledged: Way
    """What the gateway has acknowledged; its seconds are those of the replay."""
    ways: tuple[Way, ...]
    """What was read back: over HTTP, by Spark, by deltalake."""
    value_bytes: int
    records_per_second_asked: int
    lag: Lag | None
    micro_batches: int
    upkeep: Upkeep
    """What maintenance did meanwhile."""
    groups: tuple[Group, ...]
    delays_agree: bool
    """Spark's mean delays are those that the source gives."""
    carrier_names: dict[str, str]
    picture: Path | None
    seconds: float
    """The whole run."""

    @property
    def agree(self) -> bool:
        """Whether every way gave exactly the acknowledged records, and the query its right answer."""
        return self.delays_agree and all(way.summary == self.acknowledged.summary for way in self.ways)

    def as_json(self) -> dict[str, Any]:
        """The same for ``--json``."""
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
