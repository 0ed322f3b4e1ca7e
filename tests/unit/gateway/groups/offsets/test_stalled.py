"""Groups that stand still are told after half a minute: by their commits and the age of what is unread, not by their sessions."""

from __future__ import annotations

import asyncio
from collections import UserDict
from collections.abc import Sequence, ValuesView
from types import SimpleNamespace

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.groups.bounds import STALLED_MS, GroupBounds
from gateway.groups.calls.groups import JoinRequest
from gateway.groups.offsets.committed import NextOffset
from gateway.groups.offsets.stalled import StalledGroup
from log_format.clock import SystemClock
from log_format.groups.row import OffsetRow
from log_format.groups.state import Group
from tests.support.clocks import LaterClock
from tests.support.engine import Gateway, batch_of, make_gateway


class Stalls:
    """An engine on a clock that can be moved on."""

    def __init__(self, ownership: Ownership | None = None) -> None:
        self.clock = LaterClock()
        self.gateway: Gateway = make_gateway(
            clock=self.clock, group_bounds=GroupBounds(lag_fresh_ms=0), ownership=ownership
        )

    async def write(self, *partitions: int, age_ms: int = 0) -> None:
        """A record of this age in each of these partitions of the topic ``t``."""
        topic = await self.gateway.engine.open_topic("t")
        batch = batch_of(topic, [b"x"] * len(partitions), partitions, timestamp_ms=self.clock.now_ms() - age_ms)
        await topic.appending.await_acknowledgement(topic.submit(batch, None))

    async def commit(self, group: str, offset: int, partition: int = 0) -> None:
        where = NextOffset(topic="t", partition=partition, offset=offset)
        await self.gateway.engine.groups.committed.commit(group, [where], None, None)

    async def found(self) -> Sequence[StalledGroup]:
        """What a look shows that comes later than the pauses between looks, and waits as long as it takes."""
        stalled = self.gateway.engine.groups.stalled
        stalled._looking = None
        await stalled.look()
        looking: asyncio.Task[None] | None = stalled._looking
        if looking is not None:
            await looking
        return stalled._found

    async def after(self, duration_ms: int) -> list[tuple[str, int, int]]:
        """Group, partition and unread records of what stands still so much later."""
        self.clock.ahead_ms += duration_ms
        return [(one.group, one.partition, one.record_count) for one in await self.found()]


async def test_a_group_that_commits_nothing_is_told_after_half_a_minute_until_it_commits() -> None:
    """Also without members, and only while something is unread."""
    stalls = Stalls()
    await stalls.gateway.topic(flush_ms=0)
    await stalls.write(0, 0)
    await stalls.commit("g", 1)
    assert await stalls.after(STALLED_MS - 5_000) == []
    assert await stalls.after(6_000) == [("g", 0, 1)]
    (told,) = await stalls.found()
    assert told.said(told.since_ms + 31_000) == (
        "Group g has committed nothing in partition 0 of t for 31 s, where records wait."
        " 1 record of the topic is unread, and the group has no members."
    )
    await stalls.commit("g", 2)
    assert await stalls.after(3_600_000) == []


async def test_a_group_that_was_idle_stands_still_from_the_record_on_and_not_from_its_last_commit() -> None:
    """Half a minute after the record was written; a record whose time is to come doesn't hide it."""
    stalls = Stalls()
    await stalls.gateway.topic(flush_ms=0)
    await stalls.commit("g", 0)
    assert await stalls.after(3_600_000) == []
    await stalls.write(0)
    assert await stalls.after(STALLED_MS - 5_000) == []
    assert await stalls.after(6_000) == [("g", 0, 1)]
    await stalls.commit("g", 1)
    await stalls.write(0, age_ms=-86_400_000)
    assert await stalls.after(STALLED_MS - 5_000) == []
    assert await stalls.after(6_000) == [("g", 0, 1)]


async def test_one_partition_that_stands_still_is_seen_beside_others_that_move_and_are_further_behind() -> None:
    """A record that blocks one member is one partition's trouble."""
    stalls = Stalls()
    await stalls.gateway.topic(partition_count=2, flush_ms=0)
    await stalls.write(0, 0, 0, age_ms=900_000)
    await stalls.write(1)
    await stalls.commit("g", 0)
    await stalls.commit("g", 0, partition=1)
    stalls.clock.ahead_ms += STALLED_MS
    await stalls.commit("g", 1)
    assert await stalls.after(1_000) == [("g", 1, 3)]


async def test_a_member_that_never_committed_is_told_from_its_joining_on() -> None:
    """Though the topic's records are old: it may have begun a moment ago."""
    stalls = Stalls()
    await stalls.gateway.topic(partition_count=2, flush_ms=0)
    await stalls.write(0, 1, age_ms=86_400_000)
    await stalls.commit("g", 1)
    assert await stalls.after(STALLED_MS + 1_000) == []
    joining = JoinRequest(
        topics=("t",), pattern=None, assignor="range", session_timeout_ms=1_800_000, client_id=None, instance_id=None
    )
    await stalls.gateway.engine.groups.join("g", joining)
    assert await stalls.after(STALLED_MS - 5_000) == []
    assert await stalls.after(6_000) == [("g", 1, 1)]
    assert [one.member_count for one in await stalls.found()] == [1]


async def test_any_gateway_tells_of_all_groups_the_last_to_stop_first() -> None:
    """Whoever coordinates them: an operator looks at one gateway."""
    ownership = Ownership("a", Peers(SystemClock()), "preferred")
    ownership.coordinates = lambda group: group == "mine"  # type: ignore[method-assign]
    stalls = Stalls(ownership)
    await stalls.gateway.topic(flush_ms=0)
    await stalls.write(0)
    await stalls.commit("other", 0)
    stalls.clock.ahead_ms += 10_000
    await stalls.commit("mine", 0)
    assert await stalls.after(STALLED_MS + 1_000) == [("mine", 0, 1), ("other", 0, 1)]


async def test_a_topic_that_is_made_anew_is_not_what_the_group_read() -> None:
    """Its offsets of the deleted one count for nothing."""
    stalls = Stalls()
    await stalls.gateway.topic(flush_ms=0)
    await stalls.write(0)
    await stalls.commit("g", 0)
    await stalls.gateway.engine.administration.delete("t")
    assert await stalls.after(STALLED_MS + 1_000) == []
    await stalls.gateway.topic(flush_ms=0)
    await stalls.write(0)
    assert await stalls.after(STALLED_MS + 1_000) == []


async def test_a_look_goes_through_the_offsets_of_a_group_once_however_many_topics_they_are_in() -> None:
    """No request is served meanwhile: offsets times topics would be seconds for a group that commits for many."""

    class Offsets(UserDict[tuple[str, int], OffsetRow]):
        walks = 0

        def values(self) -> ValuesView[OffsetRow]:
            self.walks += 1
            return super().values()

    stalls, offsets = Stalls(), Offsets()
    for topic in ("t", *(f"other-{number}" for number in range(8))):
        await stalls.gateway.topic(topic, flush_ms=0)
    await stalls.write(0)
    await stalls.commit("g", 0)
    state = await stalls.gateway.engine.groups.stalled._table.recent(0)
    (row,) = state.groups["g"].offsets.values()
    for topic in ("t", *(f"other-{number}" for number in range(8))):
        offsets[topic, 0] = OffsetRow(
            group="g", topic=topic, partition=0, topic_id=row.topic_id, offset=0, committed_at_ms=row.committed_at_ms
        )

    async def recent(_: int) -> SimpleNamespace:
        return SimpleNamespace(groups={"g": Group(offsets=offsets)})

    stalls.gateway.engine.groups.stalled._table = SimpleNamespace(recent=recent)  # type: ignore[assignment]
    assert await stalls.after(STALLED_MS + 1_000) == [("g", 0, 1)]
    assert offsets.walks == 1
