"""From counts of requests, taken twice, to dollars a month.

A topic's part are the requests that go with commits (segments, commits, checkpoints), by its share of all commits. What a gateway
asks for whatever it does, heartbeats and looks, is no topic's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from log_format.topic.config import SETTINGS
from tidelog.cli.cost.prices import PRICES, SECONDS, request_dollars
from tidelog.types.topic import Topic

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


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushBound:
    """How many flushes ``flush.ms`` allows on average, early ones included, and what their PUTs cost a month."""

    per_second: float

    @property
    def dollars(self) -> float:
        """A segment and a commit for each."""
        return 2 * self.per_second * SECONDS * request_dollars("PUT")


def flush_bound(topics: Iterable[Topic], gateways: int) -> FlushBound | None:
    """The bound of these topics and of the journals that they are at; None where one has none (``flush.ms`` 0).

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
