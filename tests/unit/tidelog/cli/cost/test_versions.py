"""The price of keeping a topic's versions longer."""

from __future__ import annotations

import pytest

from tidelog.cli.cost.versions import KeptVersions, Rates, kept_versions
from tidelog.types.topic import Partition, Topic, TopicCommit

HOUR = 3_600_000
DAY = 24 * HOUR
FOUR_A_SECOND = Rates(commits=4.0, size_bytes=100_000.0)


def test_a_busy_topic_pays_for_a_day() -> None:
    """At four flushes a second the default keeps an hour of commits and 30,000 files; a day has 345,600 of both."""
    now, then = kept_versions({}, FOUR_A_SECOND), kept_versions({}, FOUR_A_SECOND, DAY)
    assert (now.commits, now.removed_files, now.listings) == (14_400, 30_000, 30)
    assert (then.commits, then.removed_files, then.listings) == (345_600, 345_600, 692)
    assert then.size_bytes == pytest.approx(345_600 * 1_200 + 3 * 100_000 * 86_400)
    assert then.dollars == pytest.approx(then.size_bytes / 10**9 * 0.023)
    assert then.needed_files_ms is None


def test_a_quiet_topic_pays_nothing_more() -> None:
    """Where the counts keep a day anyway, a promise of a day changes nothing."""
    quiet = Rates(commits=0.01, size_bytes=100.0)
    now, then = kept_versions({}, quiet), kept_versions({}, quiet, DAY)
    assert (now.commits, now.size_bytes) == (then.commits, then.size_bytes) == (864, 864 * 1_200 + 3 * 8_640_000)


def test_files_have_to_stay_as_long() -> None:
    """Three days need another deleted.file.retention.ms, which the estimate names and takes as given."""
    then = kept_versions({"commit.retention.count": -1}, FOUR_A_SECOND, 3 * DAY)
    assert then.needed_files_ms == 3 * DAY
    assert then.commits == 3 * 345_600


def test_what_counts_do_not_limit() -> None:
    """-1 keeps a day already; a topic without commits keeps nothing."""
    everything = {"commit.retention.count": -1, "deleted.file.retention.count": -1}
    assert kept_versions(everything, FOUR_A_SECOND).commits == 345_600
    nothing = kept_versions({}, Rates(commits=0.0, size_bytes=0.0), DAY)
    assert nothing == KeptVersions(kept_ms=DAY, commits=0, removed_files=0, size_bytes=0)


def described(version: int, end: int, journal: int | None = None) -> Topic:
    partition = Partition(partition=0, log_start_offset=0, high_watermark=end, size_bytes=end * 10)
    commit = TopicCommit(journal=journal)
    return Topic(name="t", partition_count=1, partitions=(partition,), table_version=version, commit=commit)


def test_rates_are_counted() -> None:
    """Commits by versions, bytes by new records of the average size; at a journal a commit for each drain, if there is any."""
    assert Rates.between(described(5, 100), described(25, 200), 10.0) == Rates(commits=2.0, size_bytes=100.0)
    drained = Rates.between(described(5, 100, 0), described(5, 200, 0), 10.0)
    assert drained.commits == pytest.approx(1 / 220)
    assert drained.size_bytes == 100.0
    assert Rates.between(described(5, 100, 0), described(5, 100, 0), 10.0) == Rates(commits=0.0, size_bytes=0.0)
