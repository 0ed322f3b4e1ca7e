"""What a group has not read of a topic: each partition from where the group continues, or from its log start."""

from __future__ import annotations

import random
import time

from gateway.engine.open_topic import OpenTopic
from gateway.groups.bounds import GroupBounds
from gateway.groups.offsets.backlog import TopicBacklog
from gateway.groups.offsets.committed import NextOffset
from gateway.groups.offsets.readers import GROUPS_OF_TOPIC_MAX, TopicReaders
from log_format.groups.row import OffsetRow
from tests.support.engine import Gateway, batch_of, make_gateway

PARTITIONS = 4


async def filled(gateway: Gateway) -> OpenTopic:
    """A topic whose partitions have 0 to 3 records, those of the last the oldest; the last begins at 1."""
    topic = await gateway.topic(partition_count=PARTITIONS, flush_ms=0)
    now_ms = int(time.time() * 1000)
    for partition in range(PARTITIONS):
        for _ in range(partition):
            batch = batch_of(topic, [b"x"], partition, timestamp_ms=now_ms - 60_000 * partition)
            await topic.appending.await_acknowledgement(topic.submit(batch, None))
    await gateway.engine.administration.delete_records("t", {PARTITIONS - 1: 1})
    return await gateway.engine.open_topic("t")


def row(topic: OpenTopic, partition: int, offset: int | None, topic_id: str | None = None) -> OffsetRow:
    of = topic.state.topic_id or ""
    return OffsetRow(
        group="g", topic="t", partition=partition, topic_id=topic_id or of, offset=offset, committed_at_ms=0
    )


async def test_partitions_without_an_offset_count_from_their_start() -> None:
    """However few a subscribed group has committed for: as if each partition were counted by itself. Without a member only those
    with an offset count."""
    topic = await filled(make_gateway())
    state, chance = topic.state, random.Random(7)
    backlog = TopicBacklog(state)
    assert (backlog.record_count({}, is_subscribed=True), backlog.oldest({}, is_subscribed=True)) == (1 + 2 + 2, (3, 1))
    assert (backlog.record_count({}, is_subscribed=False), backlog.oldest({}, is_subscribed=False)) == (0, None)
    assert (backlog.record_count({1: 0}, is_subscribed=False), backlog.oldest({1: 0}, is_subscribed=False)) == (
        1,
        (1, 0),
    )
    for _ in range(50):
        known = {number: chance.randrange(6) for number in range(PARTITIONS) if chance.random() < 0.5}
        wanted = sum(
            max(0, state.high_watermark(number) - known.get(number, state.log_start(number)))
            for number in range(PARTITIONS)
        )
        assert backlog.record_count(known, is_subscribed=True) == wanted, known
        first = {number: max(known.get(number, 0), state.log_start(number)) for number in range(PARTITIONS)}
        unread = [number for number in range(PARTITIONS) if first[number] < state.high_watermark(number)]
        oldest = max(unread, default=None)  # the later partition has the older records
        assert backlog.oldest(known, is_subscribed=True) == (None if oldest is None else (oldest, first[oldest])), known


async def test_what_is_no_position_here_counts_as_none() -> None:
    """An offset of a former topic of the name, of a partition that is not there, below 0, or that was taken back."""
    topic = await filled(make_gateway())
    rows = [row(topic, 1, 1, "former"), row(topic, 9, 1), row(topic, 2, -1), row(topic, 3, None), row(topic, 0, 0)]
    assert TopicBacklog(topic.state).positions(rows) == {0: 0}


async def test_the_list_of_readers_is_by_lag_and_bounded() -> None:
    """The largest first, then by name; all are counted; a page ends where the next begins, and leaves out what is not shown."""
    gateway = make_gateway(group_bounds=GroupBounds(lag_fresh_ms=0))
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 200)
    await gateway.append(await gateway.topic("u", flush_ms=0), [b"x"])
    committed = gateway.engine.groups.committed
    for number in range(GROUPS_OF_TOPIC_MAX + 2):
        await committed.commit(f"g{number:03}", [NextOffset(topic="t", partition=0, offset=number // 2)], None, None)
    await committed.commit("g000", [NextOffset(topic="u", partition=0, offset=0)], None, None)

    async def page(after: str, limit: int, hidden: str = "") -> tuple[list[TopicReaders], str | None]:
        return await gateway.engine.groups.readers.page(
            after, limit, topic_shown=lambda name: name != hidden, group_shown=lambda name: name != hidden
        )

    ((first,), more) = await page("", 1)
    assert (first.topic, first.group_count, more) == ("t", GROUPS_OF_TOPIC_MAX + 2, "t")
    assert [(one.group, one.lag) for one in first.groups] == [
        (f"g{number:03}", 200 - number // 2) for number in range(GROUPS_OF_TOPIC_MAX)
    ]
    assert first.lag == sum(200 - number // 2 for number in range(GROUPS_OF_TOPIC_MAX + 2))
    ((second,), more) = await page("t", 1)
    assert ([(one.group, one.lag) for one in second.groups], more) == ([("g000", 1)], None)
    assert [one.topic for one in (await page("", 5, hidden="t"))[0]] == ["u"]
    ((first,), _) = await page("", 5, hidden="g000")
    assert first.group_count == GROUPS_OF_TOPIC_MAX + 1
