"""What a load did at one place, and what that cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.harness.percentiles import percentile
from benchmarks.pace.places import Counted, Requests
from tidelog.cli.cost.prices import request_dollars

_HOUR: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """``seconds``: in which the records were acknowledged (or read, where ``what`` says so)."""

    what: str
    records: int
    seconds: float
    latencies_ms: Sequence[float] = ()
    told_ms: Mapping[float, float] | None = None
    """Percentiles, where a program tells only these."""
    requests: Requests
    counted_seconds: float
    cpu_seconds: float = 0.0
    """The gateway's, while its requests were counted; 0 where there is none."""

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds

    def latency_ms(self, fraction: float) -> float | None:
        """Return the latency that this fraction of the records did not exceed; None if it was not measured."""
        if self.told_ms is not None:
            return self.told_ms[fraction]
        return percentile(self.latencies_ms, fraction) if self.latencies_ms else None

    def count(self, *kinds: str, of: str | None = None) -> int:
        """Return the number of requests of these kinds, for all objects or those of one kind."""
        found = self.requests.items()
        return sum(number for (kind, what), number in found if kind in kinds and of in {None, what})

    @property
    def dollars(self) -> float:
        """Dollars of the requests to the store, by S3's prices."""
        return sum(number * request_dollars(kind) for (kind, *_), number in self.requests.items())

    def as_json(self) -> dict[str, Any]:
        """Return the figures for machines."""
        return {
            "records": self.records,
            "seconds": self.seconds,
            "records_per_second": self.rate,
            "p50_ms": self.latency_ms(0.5),
            "p99_ms": self.latency_ms(0.99),
        }

    def costs(self) -> dict[str, Any]:
        """Return a gateway's requests to its store, for machines; listings cost what PUTs do."""
        return {
            "puts": self.count("PUT", "LIST"),
            "gets": self.count("GET", "HEAD"),
            "segments": self.count("PUT", of="segment"),
            "requests": {f"{kind} {of}": count for (kind, of), count in sorted(self.requests.items())},
            "counted_seconds": self.counted_seconds,
            "cpu_us_a_record": self.cpu_seconds / self.records * 1e6,
            "dollars_an_hour": self.dollars / self.counted_seconds * _HOUR,
            "dollars_a_million_records": self.dollars / self.records * 1e6,
        }


def done(what: str, records: int, seconds: float, counted: Counted, latencies_ms: Sequence[float] = ()) -> Done:
    """Return what a load did whose requests were counted."""
    return Done(
        what=what,
        records=records,
        seconds=seconds,
        latencies_ms=latencies_ms,
        requests=counted.requests,
        counted_seconds=counted.seconds,
        cpu_seconds=counted.cpu_seconds,
    )
