"""Conversion of request counts, taken twice, to dollars per month.

A topic is charged its share of the requests that commits cause (segments, commits, checkpoints): as much as its share of all
commits. Requests that a gateway makes independently of topics, such as heartbeats and polls, are charged to none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from log_format.topic.config import SETTINGS
from tidelog.cli.cost.prices import SECONDS, request_dollars, stored_dollars
from tidelog.types.topic import Topic

Counts = Counter[tuple[str, str]]
"""Number of requests by kind (PUT, GET, …) and by the sort of object."""

OF_COMMITS: Final = frozenset({"segment", "commit", "checkpoint", "journal"})
_SAMPLE: Final = re.compile(r'^tidelog_store_requests_total\{kind="(\w+)",of="(\w+)"\} ([0-9.e+]+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Requests of one kind to objects of one sort."""

    kind: str
    of: str
    per_second: float
    dollars: float
    """Dollars per month."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Costs of a month at the current rate. ``stored_bytes``: currently, of which the archive has ``archive_bytes``.
    ``pinned_bytes``: stored only because of pins."""

    seconds: float
    rows: tuple[Row, ...]
    stored_bytes: int
    archive_bytes: int = 0
    pinned_bytes: int = 0

    @property
    def requests_dollars(self) -> float:
        """Dollars for requests to the store."""
        return sum(row.dollars for row in self.rows)

    @property
    def storage_dollars(self) -> float:
        """Dollars for the currently stored bytes."""
        return stored_dollars(self.stored_bytes)

    @property
    def archive_dollars(self) -> float:
        """Dollars for the archive's part of the stored bytes."""
        return stored_dollars(self.archive_bytes)

    @property
    def dollars(self) -> float:
        """Dollars in total."""
        return self.requests_dollars + self.storage_dollars + self.pins_dollars

    @property
    def pins_dollars(self) -> float:
        """Dollars for what is stored only because of pins."""
        return stored_dollars(self.pinned_bytes)


def counts_of(page: str) -> Counts:
    """Return the counts on a gateway's page of metrics."""
    return Counter({(kind, of): int(float(count)) for kind, of, count in _SAMPLE.findall(page)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushBound:
    """Number of flushes that ``flush.ms`` allows on average, including early ones, and the monthly cost of their PUTs."""

    per_second: float

    @property
    def dollars(self) -> float:
        """Dollars for a segment and a commit per flush."""
        return 2 * self.per_second * SECONDS * request_dollars("PUT")


def flush_bound(topics: Iterable[Topic], gateways: int) -> FlushBound | None:
    """Return the bound of these topics and of their journals; None if one has no bound (``flush.ms`` 0).

    Each gateway flushes to a journal by itself, and each of a topic's ``owners`` to the topic.
    """
    own, journals = 0.0, dict[int, float]()
    for topic in topics:
        flush_ms = int(topic.config.get("flush.ms", SETTINGS["flush.ms"].default))
        if not flush_ms:
            return None
        per_second, journal = 1000 / flush_ms, topic.commit.journal
        if journal is None:
            own += per_second * min(gateways, int(topic.config.get("owners", 1)))
        else:
            journals[journal] = max(per_second, journals.get(journal, 0.0))
    return FlushBound(per_second=own + gateways * sum(journals.values()))


def estimated(requests: Counts, seconds: float, stored_bytes: int) -> Estimate:
    """Return the estimate for all requests made in so many seconds."""
    return _estimate({key: float(count) for key, count in requests.items()}, seconds, stored_bytes)


def of_topic(requests: Counts, commits: int, seconds: float, stored_bytes: int) -> Estimate:
    """Return the estimate for a topic that made so many of the commits."""
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
