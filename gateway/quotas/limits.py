"""The quotas that exist (rates, whose buckets refill, and counts of open connections or streams), and those of each principal by
the rows of ``system/access``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from log_format.access.row import QuotaRow

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


EVERY_OTHER: Final = "*"
"""Principal of the row for each principal without a row of its own."""


class PrincipalLimits:
    """A principal's quotas by the present rows: the same object as long as its row is the same. None: no limits."""

    def __init__(self, rows: Callable[[], Mapping[str, QuotaRow]]) -> None:
        self._rows = rows
        self._known_rows: Mapping[str, QuotaRow] = {}
        self._limits: dict[str, Limits | None] = {}

    def __call__(self, principal: str) -> Limits | None:
        """Return the quotas of a principal."""
        rows = self._rows()
        if rows is not self._known_rows:
            self._read(rows)
        limits = self._limits
        return limits[principal] if principal in limits else limits.get(EVERY_OTHER)

    def _read(self, rows: Mapping[str, QuotaRow]) -> None:
        before = self._known_rows
        self._limits = {
            principal: self._limits[principal] if before.get(principal) is row else _limits(row)
            for principal, row in rows.items()
        }
        self._known_rows = rows


def _limits(row: QuotaRow) -> Limits | None:
    members = msgspec.structs.asdict(row)
    return {quota: members[quota] for quota in QUOTAS if members[quota] is not None} or None
