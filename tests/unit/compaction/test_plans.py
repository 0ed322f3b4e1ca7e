"""Plans are pure: what they choose, and what they never touch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from compaction.collection import (
    Deletion,
    DeletionReason,
    all_deleted_before,
    plan_segments,
    plan_staged,
)
from compaction.key_plan import plan_key_compactions
from compaction.log_cleanup import plan_log
from compaction.merge_plan import RewriteReason, plan_merges
from compaction.policy import Policy
from log_format import layout, limits
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectInfo
from log_format.topic.deleted_files import deletable_before
from log_format.topic.live_segments import LiveSegment
from log_format.topic.segment_tags import Rewritten

NOW = 10**12
HOUR = 3_600_000
POLICY = Policy(target_bytes=1_000, sources_max=4, flushed_min=3, fan_in=2, idle_ms=HOUR)


def segment(
    number: int, *runs: tuple[int, int, int], size: int = 100, age_ms: int = 0, **rewritten: Any
) -> LiveSegment:
    """Runs of (partition, base, end), the ``number``-th in time."""
    time_ms = NOW - age_ms
    return LiveSegment(
        segment=SegmentRef(f"s{number}", size, 10, 0),
        runs=tuple(Run(partition, base, end, end - base, 1, time_ms, time_ms) for partition, base, end in runs),
        modification_time_ms=time_ms + number,
        rewritten=Rewritten(**{"times": 0, **rewritten}),
    )


def merges(*segments: LiveSegment, log_starts: dict[int, int] | None = None, retention_ms: int = -1) -> list[list[str]]:
    found = plan_merges(segments, log_starts or {}, policy=POLICY, retention_ms=retention_ms, now_ms=NOW)
    return [[source.segment.path for source in merge.sources] for merge in found]


def test_few_young_segments_are_left_alone() -> None:
    """Requests are worth it only for many; two that wait long enough are many."""
    few = [segment(n, (0, n, n + 1)) for n in range(2)]
    assert merges(*few) == []
    assert merges(*[segment(n, (0, n, n + 1), age_ms=HOUR + 10) for n in range(2)]) == [["s0", "s1"]]
    assert merges(*few, segment(2, (0, 2, 3))) == [["s0", "s1", "s2"]]


def test_a_merge_is_bounded_in_segments_bytes_and_time() -> None:
    """None outgrows the target, one commit, or what retention may let go of at once."""
    assert merges(*[segment(n, (0, n, n + 1)) for n in range(6)]) == [["s0", "s1", "s2", "s3"]]
    assert merges(*[segment(n, (0, n, n + 1), size=400) for n in range(5)]) == [["s0", "s1"], ["s2", "s3"]]
    spread = [segment(n, (0, n, n + 1), age_ms=(8 - n) * HOUR) for n in range(8)]
    assert merges(*spread, retention_ms=20 * HOUR) == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6", "s7"]]


def test_segments_with_another_between_them_are_not_merged() -> None:
    """A merge whose run spans offsets of other segments would damage the log."""
    flushed = [segment(n, (0, n, n + 1), age_ms=HOUR + 10) for n in (0, 1, 3, 4)]
    assert merges(*flushed, segment(2, (0, 2, 3), times=1)) == [["s0", "s1"], ["s3", "s4"]]


def test_a_record_is_merged_three_times_at_most() -> None:
    """Tier by tier, adjacent ones of one partition; the last tier and large ones stay."""
    for times, expected in ((1, [["s0", "s1"]]), (2, [["s0", "s1"]]), (3, [])):
        assert merges(*[segment(n, (0, n, n + 1), times=times) for n in range(2)]) == expected
    assert merges(segment(0, (0, 0, 1), times=1), segment(1, (0, 1, 2), times=2)) == []
    assert merges(*[segment(n, (0, n, n + 1), times=1, size=500) for n in range(2)]) == []
    assert merges(*[segment(n, (n, 0, 1), times=1) for n in range(2)]) == []


def test_what_a_user_deleted_is_cut_off() -> None:
    """A segment across a log start is rewritten alone; one that is wholly below is not this plan's."""
    across = segment(0, (0, 0, 10), times=3)
    assert merges(across, log_starts={0: 5}) == [["s0"]]
    assert merges(across, log_starts={0: 10}) == []
    (plan,) = plan_merges([across], {0: 5}, policy=POLICY, retention_ms=-1, now_ms=NOW)
    assert plan.reason is RewriteReason.TRIM


def keys(*segments: LiveSegment, lag_ms: int = 0) -> list[list[tuple[str, bool]]]:
    plans = plan_key_compactions(
        segments, policy=POLICY, delete_retention_ms=HOUR, min_compaction_lag_ms=lag_ms, now_ms=NOW
    )
    return [
        [(source.segment.path, goes) for source, goes in zip(group.sources, group.tombstones_go, strict=True)]
        for plan in plans
        for group in plan.groups
    ]


def test_the_newest_segment_the_young_and_the_unmerged_keep_their_keys() -> None:
    """Only a prefix of merged segments is compacted."""
    merged = [segment(n, (0, n, n + 1), times=1, age_ms=(3 - n) * HOUR) for n in range(3)]
    assert keys(*merged) == [[("s0", False), ("s1", False)]]
    assert keys(*merged, lag_ms=2 * HOUR + 1) == [[("s0", False)]]
    assert keys(merged[0], segment(1, (0, 1, 2)), merged[2]) == [[("s0", False)]]
    assert keys(merged[0]) == []


def test_keys_are_compacted_when_enough_is_dirty() -> None:
    """The cleaner's ratio; a clean partition is left alone."""
    clean = segment(0, (0, 0, 10), times=1, keys_compacted_at_ms=NOW, size=300)
    newest = segment(9, (0, 90, 91))
    assert keys(clean, newest) == []
    assert keys(clean, segment(1, (0, 10, 11), times=1), newest) == []
    assert keys(clean, segment(1, (0, 10, 11), times=1, size=300), newest) == [[("s0", False)], [("s1", False)]]


def test_tombstones_wait_for_delete_retention_after_the_compaction_that_kept_them() -> None:
    """KIP-534: not by the record's age, which says nothing of what readers have read before it."""
    newest = segment(9, (0, 90, 91))

    def kept(age_ms: int, tombstone_count: int) -> LiveSegment:
        compacted = {"keys_compacted_at_ms": NOW - age_ms, "tombstone_count": tombstone_count}
        return segment(0, (0, 0, 10), times=1, age_ms=100 * HOUR, **compacted)

    assert keys(kept(HOUR, 1), newest) == [[("s0", True)]]
    assert keys(kept(HOUR - 1, 1), newest) == []
    assert keys(kept(HOUR, 0), newest) == []


def info(key: str, age_ms: int) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=1, modified_at_ms=NOW - age_ms)


def test_the_collector_takes_only_what_nobody_can_need() -> None:
    """Live ones never; removed ones after the retention; unknown ones only when no committer would take them any more."""
    day = limits.ORPHAN_GRACE_MS
    stored = [info(f"r/{name}", 40 * day) for name in ("live", "removed", "just-removed", "orphan")]
    stored.append(info("r/young", day))
    deletions = plan_segments(
        stored,
        "r/",
        live={"live"},
        removed_at_ms={"removed": NOW - HOUR - 1, "just-removed": NOW - HOUR},
        deletable_before_ms=NOW - HOUR,
        now_ms=NOW,
    )
    assert [(each.key, each.why) for each in deletions] == [
        ("r/removed", DeletionReason.REMOVED),
        ("r/orphan", DeletionReason.ORPHAN),
    ]


def limit(ages_ms: Iterable[int], files_kept: int, *, retention_ms: int = 24 * HOUR) -> int:
    """How long ago a file must have left the table to be deleted, where others left it so long ago."""
    removed_at_ms = (NOW - age_ms for age_ms in ages_ms)
    return NOW - deletable_before(removed_at_ms, retention_ms=retention_ms, files_kept=files_kept, now_ms=NOW)


@pytest.mark.parametrize(
    ("ages_hours", "files_kept", "limit_hours"),
    [
        ((2, 3, 4, 5), -1, 24),
        ((2, 3, 4, 5), 5, 24),
        ((2, 3, 4, 5), 4, 24),
        ((5, 3, 4, 2), 3, 4),
        ((2, 3, 3, 3), 2, 3),
        ((0, 0, 0, 5), 2, 1),
        ((0, 0, 2, 5), 0, 1),
        ((-1, -1, 2, 5), 1, 2),
        ((30, 31, 32), 1, 24),
    ],
)
def test_of_many_removed_files_the_newest_stay(ages_hours: tuple[int, ...], files_kept: int, limit_hours: int) -> None:
    """So many stay, and all that left with the last of them; all of an hour; none for longer than the retention. What left by a
    clock that is ahead is none of them yet."""
    assert limit((hours * HOUR for hours in ages_hours), files_kept) == limit_hours * HOUR


def test_a_short_retention_counts_alone() -> None:
    """Files that stay for less than an hour by the retention are not kept for the count's sake."""
    assert limit(range(0, HOUR, 60_000), 3, retention_ms=HOUR // 2) == HOUR // 2


def test_a_burst_of_removals_takes_an_hour_to_count() -> None:
    """50,000 at once push out what left before, but only what left an hour ago; and none of themselves, at any time."""
    before = list(range(0, 20 * HOUR, 3_000))
    for since_ms in (0, HOUR // 2, HOUR - 1, HOUR, 3 * HOUR):
        ages_ms = [since_ms] * 50_000 + [since_ms + 1 + age_ms for age_ms in before]
        assert limit(ages_ms, 30_000) == max(HOUR, since_ms)


def test_what_is_gone_goes_by_the_listing() -> None:
    """Files that left before the oldest one that is still stored; with none, before the moment that deletes."""
    removed_at_ms = {f"{hours}": NOW - hours * HOUR for hours in range(1, 9)}
    for still, gone_hours in ((("live", "2", "1"), 3), (("live", "4", "6", "1"), 6), ((), 3)):
        stored = [info(f"r/{name}", 40 * HOUR) for name in still]
        found = all_deleted_before(stored, "r/", removed_at_ms=removed_at_ms, deletable_before_ms=NOW - 3 * HOUR)
        assert NOW - found == gone_hours * HOUR


def test_staged_records_of_a_decided_transaction_stay() -> None:
    """The process that finishes it still has to copy them, however long that takes."""
    prefix = "system/transactions/staged/"
    stored = [info(f"{prefix}{name}/1", limits.ORPHAN_GRACE_MS + 1) for name in ("decided", "ended")]
    stored.append(info(f"{prefix}new/1", 5))
    assert [each.key for each in plan_staged(stored, committing={"decided"}, now_ms=NOW)] == [f"{prefix}ended/1"]


def log_of(commits: dict[int, int], checkpoints: dict[int, int]) -> list[ObjectInfo]:
    """Version -> age in hours."""
    return sorted(
        [info(layout.commit_key("t", version), hours * HOUR) for version, hours in commits.items()]
        + [info(layout.checkpoint_key("t", version), hours * HOUR) for version, hours in checkpoints.items()]
        + [info(layout.last_checkpoint_key("t"), 0)],
        key=lambda each: each.key,
    )


def planned(
    stored: list[ObjectInfo], *, retention_ms: int, commits_kept: int = -1, unloadable: frozenset[int] = frozenset()
) -> list[Deletion]:
    return plan_log(
        stored,
        retention_ms=retention_ms,
        commits_kept=commits_kept,
        now_ms=NOW,
        is_loadable=lambda version: version not in unloadable,
    )


@pytest.mark.parametrize(
    ("retention_hours", "first_kept"),
    [(0, 4), (4, 4), (6, 2), (100, 0)],
)
def test_log_clean_up_keeps_what_readers_may_go_back_to(retention_hours: int, first_kept: int) -> None:
    """Everything from the newest checkpoint that is old enough on stays, that checkpoint's own commit included."""
    stored = log_of({version: 10 - version for version in range(8)}, {2: 8, 4: 6, 7: 1})
    gone = [each.key for each in planned(stored, retention_ms=retention_hours * HOUR)]
    kept = [each.key for each in stored if each.key not in gone]
    assert gone == sorted(gone)
    assert min(version for key in kept if (version := layout.commit_version(key)) is not None) == first_kept
    assert layout.last_checkpoint_key("t") in kept
    if gone:
        assert layout.checkpoint_key("t", first_kept) in kept


@pytest.mark.parametrize(
    ("commits_kept", "first_kept"),
    [(-1, 0), (8, 0), (5, 2), (4, 2), (3, 4), (2, 4), (0, 4)],
)
def test_log_clean_up_keeps_so_many_commits_and_those_of_an_hour(commits_kept: int, first_kept: int) -> None:
    """Of more commits than are kept only the newest stay, however far readers may go back; those of the last hour always do."""
    ages = {0: 9, 1: 8, 2: 7, 3: 6, 4: 5, 5: 1, 6: 0, 7: 0}
    stored = log_of(ages, {2: 7, 4: 4, 5: 1, 6: 0})
    gone = [each.key for each in planned(stored, retention_ms=100 * HOUR, commits_kept=commits_kept)]
    kept = [
        version for each in stored if each.key not in gone and (version := layout.commit_version(each.key)) is not None
    ]
    assert kept == list(range(first_kept, 8))
    assert len(kept) > min(commits_kept, 7)
    if gone:
        assert layout.checkpoint_key("t", first_kept) not in gone


def test_a_late_checkpoint_of_a_young_version_covers_nothing_yet() -> None:
    """The commits of the last hour stay for the readers that plan by them, also those beyond the count."""
    stored = log_of({0: 3, 1: 1, 2: 0, 3: 0}, {0: 3, 1: 2})
    assert planned(stored, retention_ms=0, commits_kept=0) == []


def test_log_clean_up_waits_for_an_hour_after_the_checkpoint() -> None:
    """A writer that slept for less could not tell that its version was cleaned away."""
    stored = log_of(dict.fromkeys(range(5), 100), {})
    fresh = info(layout.checkpoint_key("t", 4), limits.LOG_KEPT_MS_MIN)
    assert planned([*stored, fresh], retention_ms=0) == []
    old = info(layout.checkpoint_key("t", 4), limits.LOG_KEPT_MS_MIN + 1)
    assert len(planned([*stored, old], retention_ms=0)) == 4


def test_checkpoints_behind_us_are_thinned() -> None:
    """Only some of the checkpoints that readers may go back to, which all name what was removed, stay.

    These are the oldest, one in so many versions, the newest that has stood for an hour, and all that have not. Their commits
    stay.
    """
    versions = [0, 100, 4_999, 5_000, 9_999, 10_100, 10_150, 10_200, 10_300, 10_400]
    stored = log_of(dict.fromkeys(range(10_401), 5), dict.fromkeys(versions[:-2], 2) | {10_300: 1, 10_400: 0})
    gone = [layout.checkpoint_version(each.key) for each in planned(stored, retention_ms=24 * HOUR)]
    assert gone == [100, 4_999, 9_999, 10_150]


def test_nothing_is_deleted_for_a_checkpoint_that_is_not_loaded_from() -> None:
    """The newest loadable one takes its place; without one all stays."""
    stored = log_of({version: 10 - version for version in range(8)}, {2: 8, 4: 6, 7: 1})
    for unloadable, first_kept in ({4}, 2), ({2, 4}, 0):
        gone = [each.key for each in planned(stored, retention_ms=0, unloadable=frozenset(unloadable))]
        kept = [
            version
            for each in stored
            if each.key not in gone and (version := layout.commit_version(each.key)) is not None
        ]
        assert kept == list(range(first_kept, 8))
        assert layout.checkpoint_key("t", 2) not in gone


def test_a_checkpoint_that_is_not_loaded_from_thins_no_other() -> None:
    """The next one counts in its place."""
    versions = [0, 100, 200, 300]
    stored = log_of(dict.fromkeys(range(301), 5), dict.fromkeys(versions, 2))
    assert [each.key for each in planned(stored, retention_ms=24 * HOUR, unloadable=frozenset({0}))] == [
        layout.checkpoint_key("t", 200)
    ]


def test_a_checkpoint_below_a_gap_thins_none_above_it() -> None:
    """A version that was pinned stands alone: what is above the gap is not read from it, whatever the settings are now."""
    stored = log_of({3: 200} | dict.fromkeys(range(100, 301), 5), {3: 200, 100: 5, 200: 4, 300: 3})
    gone = [each.key for each in planned(stored, retention_ms=100 * HOUR)]
    assert gone == [layout.checkpoint_key("t", 200)]


def test_pinned_versions_stay_and_one_without_a_checkpoint_keeps_its_commits() -> None:
    """The commit and the checkpoint of a pinned version, and below the first pin without a checkpoint nothing that makes it."""
    stored = log_of({version: 10 - version for version in range(8)}, {2: 8, 4: 6, 6: 4})

    def kept(*pinned: int) -> list[int]:
        plan = plan_log(
            stored, retention_ms=0, commits_kept=-1, now_ms=NOW, is_loadable=lambda version: version >= 0, pinned=pinned
        )
        gone = {each.key for each in plan}
        versions = (layout.commit_version(each.key) for each in stored if each.key not in gone)
        assert all(layout.checkpoint_key("t", version) not in gone for version in pinned)
        return [version for version in versions if version is not None]

    assert kept() == [6, 7]
    assert kept(2) == [2, 6, 7]
    assert kept(2, 5) == [2, 4, 5, 6, 7]
    assert kept(1) == list(range(8))


def test_a_round_that_deletes_nothing_reads_no_checkpoint() -> None:
    """Reading one costs up to its whole size."""
    stored = log_of({4: 10, 5: 9}, {4: 8})

    def asked(version: int) -> bool:
        raise AssertionError(version)

    assert plan_log(stored, retention_ms=0, commits_kept=-1, now_ms=NOW, is_loadable=asked) == []


def test_the_newest_checkpoint_stays() -> None:
    """However old it is and however near to the one before: a topic in which nothing happens is loaded from it."""
    stored = log_of({0: 100, 100: 100}, {0: 90, 100: 80})
    assert planned(stored, retention_ms=200 * HOUR) == []
