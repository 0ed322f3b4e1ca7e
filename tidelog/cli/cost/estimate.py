"""From counts of requests, taken twice, to dollars a month.

A topic's part are the requests that go with commits (segments, commits, checkpoints), by its share of all commits. What a gateway
asks for whatever it does, heartbeats and looks, is no topic's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.cli.cost.prices import PRICES, SECONDS, request_dollars

Counts = Counter[tuple[str, str]]
"""Requests by kind (PUT, GET, …) and by what the object is."""

OF_COMMITS: Final = frozenset({"segment", "commit", "checkpoint", "journal"})
_SAMPLE: Final = re.compile(r'^tidelog_store_requests_total\{kind="(\w+)",of="(\w+)"\} ([0-9.e+]+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Requests of one kind to objects of one sort."""

    kind: str
    of: str
    per_second: float
    dollars: float
    """A month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a month costs if it goes on like this. ``stored_bytes``: now."""

    seconds: float
    rows: tuple[Row, ...]
    stored_bytes: int

    @property
    def requests_dollars(self) -> float:
        """For requests to the store."""
        return sum(row.dollars for row in self.rows)

    @property
    def storage_dollars(self) -> float:
        """For what is stored now."""
        return self.stored_bytes / 10**9 * PRICES["S3 Standard, GB-month"]

    @property
    def dollars(self) -> float:
        """Together."""
        return self.requests_dollars + self.storage_dollars


def counts_of(page: str) -> Counts:
    """The counts on a gateway's page of metrics."""
    return Counter({(kind, of): int(float(count)) for kind, of, count in _SAMPLE.findall(page)})


def estimated(requests: Counts, seconds: float, stored_bytes: int) -> Estimate:
    """Of all that was asked for in so many seconds."""
    return _estimate({key: float(count) for key, count in requests.items()}, seconds, stored_bytes)


def of_topic(requests: Counts, commits: int, seconds: float, stored_bytes: int) -> Estimate:
    """The part of a topic that made so many of the commits."""
    share = commits / max(commits, requests["PUT", "commit"], 1)
    parts = {(kind, of): count * share for (kind, of), count in requests.items() if of in OF_COMMITS}
    return _estimate(parts, seconds, stored_bytes)


def _estimate(requests: Mapping[tuple[str, str], float], seconds: float, stored_bytes: int) -> Estimate:
    rows = [
        Row(
            kind=kind,
            of=of,
            per_second=count / seconds,
            dollars=count / seconds * SECONDS * request_dollars(kind),
        )
        for (kind, of), count in requests.items()
        if count
    ]
    return Estimate(seconds=seconds, rows=tuple(sorted(rows, key=lambda row: -row.dollars)), stored_bytes=stored_bytes)
