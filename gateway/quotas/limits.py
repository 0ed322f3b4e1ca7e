"""The quotas that exist: rates, whose buckets refill, and counts of open connections or streams."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

PRODUCE_BYTES: Final = "produce_bytes_per_s"
FETCH_BYTES: Final = "fetch_bytes_per_s"
REQUESTS: Final = "requests_per_s"
PARTITIONS: Final = "partitions_created_per_minute"
CONNECTIONS: Final = "connections"
STREAMS: Final = "event_streams"

SPAN_MS: Final[Mapping[str, int]] = MappingProxyType(
    {PRODUCE_BYTES: 1_000, FETCH_BYTES: 1_000, REQUESTS: 1_000, PARTITIONS: 60_000}
)
"""The rates: a bucket holds what refills in so many milliseconds."""
COUNTS: Final = (CONNECTIONS, STREAMS)
QUOTAS: Final = (*SPAN_MS, *COUNTS)
"""All quotas, in the order of the API."""

Limits = Mapping[str, int]
"""One principal's quotas by name; an absent quota does not limit."""
