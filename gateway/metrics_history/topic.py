"""The settings of the topic of metrics, and its records (docs/format/tables.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway.engine.own_topic import OwnRecord
from gateway.metrics_history.interval import encode_interval
from gateway.metrics_history.rollups import RESOLUTIONS_MS, Rollup

PARTITION_COUNT: Final = len(RESOLUTIONS_MS)
CONFIG: Final[Mapping[str, object]] = MappingProxyType(
    {
        "cleanup.policy": "compact,delete",
        "retention.ms": 400 * 86_400_000,
        "retention.bytes": 64 * 1024 * 1024,
        # A write is one batch, so it waits for no other.
        "flush.ms": 1,
        # At a journal, each write would be moved into the table by another commit.
        "commit.mode": "own",
    }
)
"""Settings with which gateways create the topic. ``retention.bytes`` is for each partition, so minutes go first."""


def record_of(rollup: Rollup) -> OwnRecord:
    """Return the record of an interval. Its time is the interval's last millisecond."""
    return OwnRecord(
        time_ms=rollup.interval.end - 1,
        key=rollup.key,
        value=encode_interval(rollup.interval),
        partition=rollup.partition,
    )
