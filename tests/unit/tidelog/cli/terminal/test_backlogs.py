"""The backlog of a group from two looks at its lag."""

from __future__ import annotations

import pytest
from rich.table import Table

from tidelog.cli.terminal.backlogs import GroupBacklog, Look, backlog, backlog_table
from tidelog.types.group import GroupLag, GroupSummary, PartitionLag, TopicLag


def look(at_s: float, *partitions: tuple[int | None, int], lag_ms: int | None = None) -> Look:
    """A look at partitions of one topic: what is committed, and the high watermark. ``lag_ms``: of each that is behind."""
    found = tuple(
        PartitionLag(
            partition=number,
            high_watermark=end,
            committed_offset=committed,
            lag=None if committed is None else end - committed,
            lag_ms=None if committed is None or committed == end else lag_ms,
        )
        for number, (committed, end) in enumerate(partitions)
    )
    total = sum(each.lag or 0 for each in found)
    group = GroupSummary(group="g", state="Empty", generation=1, member_count=0)
    return Look(at_s, group, GroupLag(topics=(TopicLag(topic="t", partitions=found),), total=total))


def rows(shown: Table) -> list[tuple[str, ...]]:
    """The headings, then the cells of each row."""
    return list(zip(*([str(column.header), *map(str, column.cells)] for column in shown.columns), strict=True))


def test_it_has_caught_up_at_the_rates_of_two_looks() -> None:
    """400 records are left and 40 more are read than written each second."""
    found = backlog(look(10, (600, 800), (0, 200), lag_ms=5_000), look(5, (300, 700), (0, 200)))
    assert (found.lag, found.lag_ms) == (400, 5_000)
    assert (found.produced_per_second, found.consumed_per_second, found.caught_up_in_ms) == (20, 60, 10_000)


@pytest.mark.parametrize(
    ("now", "left_ms"),
    [
        pytest.param(look(1, (5, 10)), None, id="stuck"),
        pytest.param(look(1, (6, 12)), None, id="no faster than its producers"),
        pytest.param(look(1, (10, 10)), 0, id="caught up"),
        pytest.param(look(1, (2, 10)), None, id="reset to before"),
    ],
)
def test_a_group_that_is_no_faster_never_catches_up(now: Look, left_ms: int | None) -> None:
    """Without lag it has, whatever the rates; offsets that moved back are no rate."""
    found = backlog(now, look(0, (5, 10)))
    assert found.caught_up_in_ms == left_ms
    assert found.consumed_per_second is not None
    assert found.consumed_per_second >= 0


def test_partitions_of_one_look_only_have_no_rate() -> None:
    """A partition whose first offset was committed between the looks, and one that was added."""
    found = backlog(look(1, (10, 20), (3, 100)), look(0, (None, 20)))
    assert (found.produced_per_second, found.consumed_per_second) == (0, 0)


def test_one_look_has_no_rates() -> None:
    """Nor columns for them; after two looks a group that came meanwhile has empty cells there."""
    first = backlog(look(1, (5, 10), lag_ms=90_000))
    assert rows(backlog_table([first])) == [
        ("group", "state", "members", "lag", "behind"),
        ("g", "Empty", "0", "5", "1m30s"),
    ]
    second = backlog(look(2, (7, 10), lag_ms=90_000), look(1, (5, 10)))
    assert [row[5:] for row in rows(backlog_table([second, first]))] == [
        ("in/s", "out/s", "caught up in"),
        ("0", "2", "1.5s"),
        ("", "", ""),
    ]


def test_the_farthest_behind_comes_first() -> None:
    """By time, then by records, then by name."""
    found = [
        GroupBacklog(group=name, state="Stable", generation=1, member_count=1, topics=("t",), lag=lag, lag_ms=lag_ms)
        for name, lag, lag_ms in (("d", 0, None), ("c", 5, 10), ("b", 9, 10), ("a", 1, 5_000))
    ]
    assert [each.group for each in sorted(found, key=lambda each: each.order)] == ["a", "b", "c", "d"]
