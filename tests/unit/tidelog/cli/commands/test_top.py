"""The rates of topics from two looks at their offsets."""

from __future__ import annotations

from tidelog.cli.commands.top import topic_rates
from tidelog.cli.terminal.backlogs import Look
from tidelog.types.group import GroupLag, GroupSummary, PartitionLag, TopicLag
from tidelog.types.topic import Partition, Topic


def topic(name: str, *ends: int, topic_id: str | None = None) -> Topic:
    """A topic whose partitions begin at 1."""
    partitions = tuple(
        Partition(partition=number, log_start_offset=1, high_watermark=end) for number, end in enumerate(ends)
    )
    return Topic(name=name, partition_count=len(ends), partitions=partitions, topic_id=topic_id or f"id of {name}")


def look(group: str, name: str, *lags: int | None) -> Look:
    """A group's lag in the partitions of a topic."""
    partitions = tuple(
        PartitionLag(partition=number, high_watermark=100, committed_offset=None, lag=lag, lag_ms=None)
        for number, lag in enumerate(lags)
    )
    summary = GroupSummary(group=group, state="Empty", generation=1, member_count=0)
    return Look(0, summary, GroupLag(topics=(TopicLag(topic=name, partitions=partitions),), total=0))


def test_the_busiest_topic_is_first() -> None:
    """New partitions count from their beginning; lags of all groups are added up; a partition without a commit has none."""
    before = {one.topic_id: one for one in (topic("idle", 5), topic("busy", 11, 1))}
    now = [topic("idle", 5), topic("busy", 21, 1, 4)]
    found = topic_rates(now, before, 2.0, [look("g", "idle", 3), look("h", "idle", 4, None)])
    assert [(one.topic, one.produced_per_second, one.record_count) for one in found] == [
        ("busy", 7, 23),
        ("idle", 0, 4),
    ]
    assert [(one.group_count, one.lag) for one in found] == [(0, 0), (2, 7)]


def test_another_topic_of_the_name_has_no_rate_yet() -> None:
    """Nor has one that was not there, nor one between two looks at the same moment."""
    before = {one.topic_id: one for one in (topic("t", 5),)}
    for now in (topic("t", 1_000, topic_id="another"), topic("new", 7)):
        assert [one.produced_per_second for one in topic_rates([now], before, 1.0, ())] == [0]
    assert [one.produced_per_second for one in topic_rates([topic("t", 9)], before, 0.0, ())] == [0]
