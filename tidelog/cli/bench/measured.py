"""Result of a benchmark: counts, a duration, and a sample of latencies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Result. ``latencies_ms`` are unsorted; ``latency_of`` says what they measure."""

    record_count: int
    value_bytes: int
    elapsed_s: float
    latency_of: str
    latencies_ms: Sequence[float]

    @property
    def records_per_second(self) -> float:
        """Rate over the whole run."""
        return self.record_count / self.elapsed_s if self.elapsed_s > 0 else 0.0

    @property
    def megabytes_per_second(self) -> float:
        """Rate of key and value bytes, in units of a million bytes."""
        return self.value_bytes / 1e6 / self.elapsed_s if self.elapsed_s > 0 else 0.0

    def percentile_ms(self, percent: int) -> float | None:
        """Return the smallest latency that ``percent`` of the latencies do not exceed; None if there are none."""
        if not self.latencies_ms:
            return None
        ordered = sorted(self.latencies_ms)
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        return {
            "record_count": self.record_count,
            "value_bytes": self.value_bytes,
            "elapsed_ms": round(self.elapsed_s * 1000),
            "records_per_second": round(self.records_per_second, 1),
            "megabytes_per_second": round(self.megabytes_per_second, 3),
            "latency_of": self.latency_of,
            "latency_ms": {
                **{f"p{percent}": _rounded(self.percentile_ms(percent)) for percent in PERCENTILES},
                "max": _rounded(max(self.latencies_ms, default=None)),
            },
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
