"""Price of ``commit.retention.ms``: what a topic's versions take at the present rate, for a longer or shorter time.

1. A version needs its commit and its files. Flushed files leave the table when they are merged, merged ones when they are merged
   again, three times at most: so each stored byte is kept at most three times after it left the table.
2. Versions cost storage, and time of Delta's own readers: they list every commit twice for a first query, and load the name of
   every removed file.
3. The estimate takes a commit for each flush, and a removed file for each commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from log_format.topic.config import SETTINGS
from tidelog.cli.cost.prices import stored_dollars
from tidelog.types.topic import Topic

COMMIT_BYTES: Final = 1_200
"""Stored bytes of the commit of a flush to one partition."""
MERGES_MAX: Final = 3
LISTED_AT_ONCE: Final = 1_000
"""Most names in an answer to one listing of S3."""
LISTINGS_OF_QUERY: Final = 2
"""How often a first query by Delta's own reader lists the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptVersions:
    """What the versions of a topic's table take once they are kept for ``kept_ms``, and nothing else changes."""

    kept_ms: int
    commits: int
    removed_files: int
    size_bytes: int
    """Most bytes of these commits and removed files."""
    needed_files_ms: int | None = None
    """``deleted.file.retention.ms`` without which ``kept_ms`` is refused; None: the topic's is long enough."""

    @property
    def dollars(self) -> float:
        """Dollars per month for the storage."""
        return stored_dollars(self.size_bytes)

    @property
    def listings(self) -> int:
        """Requests for listings by a first query of Delta's own reader."""
        return LISTINGS_OF_QUERY * -(-self.commits // LISTED_AT_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What a topic's table gets now: commits, and stored bytes, each per second."""

    commits: float
    size_bytes: float

    @classmethod
    def between(cls, before: Topic, after: Topic, seconds: float) -> Rates:
        """Return the rates of the time between two descriptions of a topic."""
        records = sum(part.high_watermark - part.log_start_offset for part in after.partitions)
        stored = sum(part.size_bytes for part in after.partitions)
        ends = (sum(part.high_watermark for part in one.partitions) for one in (before, after))
        began, ended = ends
        new_bytes = (ended - began) * stored / records if records else 0.0
        commits: float = after.table_version - before.table_version
        if after.commit.journal is not None and new_bytes:
            # A drain, which comes too seldom to be counted.
            drain_ms = _setting(after.config, "drain.ms")
            commits = max(commits, seconds * 1000 / max(0.75 * drain_ms, drain_ms - 20_000))
        return cls(commits=max(0.0, commits / seconds), size_bytes=max(0.0, new_bytes / seconds))


def kept_versions(config: Mapping[str, int | str], rates: Rates, kept_ms: int | None = None) -> KeptVersions:
    """Return what a topic's versions take.

    Args:
        config: its settings.
        rates: what its table gets.
        kept_ms: ``commit.retention.ms`` to estimate with; None: the topic's.
    """
    kept_ms = _setting(config, "commit.retention.ms") if kept_ms is None else kept_ms
    files_ms = max(kept_ms, files_set_ms := _setting(config, "deleted.file.retention.ms"))

    def kept(count_max: int) -> float:
        all_of_them = rates.commits * files_ms / 1000
        counted = all_of_them if count_max < 0 else min(count_max, all_of_them)
        return max(counted, rates.commits * kept_ms / 1000)

    commits = kept(_setting(config, "commit.retention.count"))
    files = kept(_setting(config, "deleted.file.retention.count"))
    seconds_of_files = files / rates.commits if rates.commits else 0.0
    return KeptVersions(
        kept_ms=kept_ms,
        commits=round(commits),
        removed_files=round(files),
        needed_files_ms=kept_ms if kept_ms > files_set_ms else None,
        size_bytes=round(commits * COMMIT_BYTES + MERGES_MAX * seconds_of_files * rates.size_bytes),
    )


def versions_told(found: Sequence[KeptVersions]) -> list[dict[str, float | None]]:
    """Return the estimates as JSON objects."""
    return [
        {
            "commit_retention_ms": one.kept_ms,
            "commits": one.commits,
            "removed_files": one.removed_files,
            "bytes_max": one.size_bytes,
            "dollars_max": round(one.dollars, 2),
            "listings_of_a_query": one.listings,
            "deleted_file_retention_ms_needed": one.needed_files_ms,
        }
        for one in found
    ]


def _setting(config: Mapping[str, int | str], name: str) -> int:
    return int(config.get(name, SETTINGS[name].default))
