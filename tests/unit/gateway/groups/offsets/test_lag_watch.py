"""The lag of groups as metrics: true when scraped, for groups without members too, bounded in series and in requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from gateway.cluster.ownership import Ownership
from gateway.cluster.peers import Peers
from gateway.engine.open_topic import OpenTopic
from gateway.engine.read_ahead import ReadAhead
from gateway.groups.bounds import GroupBounds
from gateway.groups.calls.groups import JoinRequest
from gateway.groups.offsets.committed import NextOffset
from log_format.clock import SystemClock
from log_format.groups.row import MemberRow
from tests.support.engine import Gateway, batch_of, make_gateway


class Scraped:
    """One gateway's metrics of lag after a look."""

    def __init__(self, gateway: Gateway) -> None:
        self._found: dict[tuple[str, ...], float] = {
            (sample.name.removeprefix("tidelog_group_lag_"), *sample.labels.values()): sample.value
            for metric in gateway.engine.groups.lag_watch.collect()
            for sample in metric.samples
        }

    def records(self, group: str, topic: str = "t") -> float | None:
        return self._found.get(("records", group, topic))

    def seconds(self, group: str, topic: str = "t") -> float | None:
        return self._found.get(("seconds", group, topic))

    @property
    def left_out(self) -> float:
        return self._found["left_out",]

    @property
    def seconds_max(self) -> float:
        return self._found["seconds_max",]

    @property
    def pairs(self) -> list[tuple[str, ...]]:
        return sorted(name[1:] for name in self._found if name[0] == "records")


async def scrape(gateway: Gateway) -> Scraped:
    """What a scrape shows that comes later than the pauses between looks, and waits as long as it takes."""
    watch = gateway.engine.groups.lag_watch
    watch._looking = None
    await gateway.engine.measure()
    looking: asyncio.Task[None] | None = watch._looking
    if looking is not None:
        await looking
    return Scraped(gateway)


async def commit(gateway: Gateway, group: str, offset: int, partition: int = 0, topic: str = "t") -> None:
    where = NextOffset(topic=topic, partition=partition, offset=offset)
    await gateway.engine.groups.committed.commit(group, [where], None, None)


async def join(gateway: Gateway, group: str, *topics: str) -> MemberRow:
    """A member that subscribes to the topics."""
    joining = JoinRequest(
        topics=topics,
        pattern=None,
        assignor="range",
        session_timeout_ms=30_000,
        client_id=None,
        instance_id=None,
    )
    _, joined = await gateway.engine.groups.join(group, joining)
    return joined.member


async def append_at(gateway: Gateway, topic: OpenTopic, timestamps_ms: Sequence[int], partition: int = 0) -> None:
    """One record, and one flush, for each timestamp."""
    for timestamp_ms in timestamps_ms:
        batch = batch_of(topic, [b"x"], partition, timestamp_ms=timestamp_ms)
        await topic.appending.await_acknowledgement(topic.submit(batch, None))


def segment_reads(gateway: Gateway) -> int:
    """How often a segment was read from the store."""
    return sum(operation.startswith("get") and "/segments/" in key for operation, key in gateway.store.requests)


LOOKS = GroupBounds(lag_fresh_ms=0)
"""No state is fresh enough to be told from memory."""


async def test_a_group_without_members_is_told_of() -> None:
    """Records after the committed offsets of all partitions, also while no member reads; none once all is read."""
    gateway = make_gateway(group_bounds=LOOKS)
    topic = await gateway.topic(partition_count=2, flush_ms=0)
    await gateway.append(topic, [b"a", b"b", b"c"], [0, 0, 1])
    assert (await scrape(gateway)).pairs == []
    await commit(gateway, "g", 1)
    assert (await scrape(gateway)).records("g") == 1, "nothing says that it wants the other partition"
    await commit(gateway, "g", 1, partition=1)
    assert (await scrape(gateway)).records("g") == 1
    await commit(gateway, "g", 0, partition=1)
    assert (await scrape(gateway)).records("g") == 2
    await gateway.append(topic, [b"d"])
    assert (await scrape(gateway)).records("g") == 3
    await commit(gateway, "g", 3)
    await commit(gateway, "g", 1, partition=1)
    found = await scrape(gateway)
    assert (found.records("g"), found.seconds("g"), found.seconds_max, found.left_out) == (0, 0, 0, 0)


async def test_an_offset_below_0_has_no_lag() -> None:
    """A Kafka client commits -2 or -1 to begin at either end: no position, so without a member the partition does not count."""
    gateway = make_gateway(group_bounds=LOOKS)
    await gateway.append(await gateway.topic(partition_count=2, flush_ms=0), [b"a", b"b"], [0, 1])
    await commit(gateway, "g", -2)
    assert (await scrape(gateway)).pairs == []
    await commit(gateway, "g", 0, partition=1)
    assert (await scrape(gateway)).records("g") == 1


async def test_a_member_that_never_committed_is_behind() -> None:
    """From the log start on, by the age of its first record; a topic that is not there yet is neither lag nor left out."""
    gateway = make_gateway(group_bounds=LOOKS)
    topic = await gateway.topic(partition_count=2, flush_ms=0)
    now_ms = int(time.time() * 1000)
    await append_at(gateway, topic, [now_ms - 900_000, now_ms - 800_000])
    await append_at(gateway, topic, [now_ms - 300_000], partition=1)
    member = await join(gateway, "g", "t", "not-there")
    found = await scrape(gateway)
    assert (found.pairs, found.records("g"), found.left_out) == ([("g", "t")], 3, 0)
    assert 900 <= (found.seconds("g") or 0) < 1_000
    where = NextOffset(topic="t", partition=0, offset=2)
    await gateway.engine.groups.committed.commit("g", [where], member.member_id, member.acknowledged)
    found = await scrape(gateway)
    assert found.records("g") == 1
    assert 300 <= (found.seconds("g") or 0) < 400


async def test_what_another_gateway_committed_counts() -> None:
    """Records and offsets that came through others are seen: lag is that of the log, not of this gateway."""
    gateway = make_gateway(group_bounds=LOOKS)
    topic = await gateway.topic(flush_ms=0)
    await gateway.append(topic, [b"a"])
    await commit(gateway, "g", 0)
    assert (await scrape(gateway)).records("g") == 1
    other = make_gateway(objects=gateway.store.objects, group_bounds=LOOKS)
    await other.append(await other.engine.open_topic("t"), [b"b", b"c", b"d"])
    await commit(other, "g", 2)
    assert (await scrape(gateway)).records("g") == 2


async def test_one_gateway_tells_of_a_group() -> None:
    """Only the gateway that a group prefers has its series: the sum over gateways counts no group twice."""
    ownership = Ownership("a", Peers(SystemClock()), "preferred")
    ownership.coordinates = lambda group: group == "mine"  # type: ignore[method-assign]
    gateway = make_gateway(ownership=ownership, group_bounds=LOOKS)
    await gateway.append(await gateway.topic(flush_ms=0), [b"a"])
    for group in ("mine", "other"):
        await commit(gateway, group, 0)
    found = await scrape(gateway)
    assert (found.pairs, found.left_out) == ([("mine", "t")], 0)


async def test_the_age_is_that_of_the_oldest_unread_record() -> None:
    """Whichever partition has it, by the record's own time, not by the segment's; a record that was read has no age."""
    gateway = make_gateway(group_bounds=LOOKS)
    topic = await gateway.topic(partition_count=2, flush_ms=0)
    now_ms = int(time.time() * 1000)
    await append_at(gateway, topic, [now_ms - 900_000, now_ms - 600_000], partition=1)
    await append_at(gateway, topic, [now_ms - 100_000] * 9)
    await commit(gateway, "g", 0)
    await commit(gateway, "g", 1, partition=1)
    found = await scrape(gateway)
    assert found.records("g") == 10
    assert 600 <= (found.seconds("g") or 0) < 700
    assert found.seconds_max == found.seconds("g")
    await commit(gateway, "g", 2, partition=1)
    assert 100 <= ((await scrape(gateway)).seconds("g") or 0) < 200


async def test_a_group_that_stands_still_costs_no_reads() -> None:
    """The age of what is unread is read from the store once, and grows all the same."""
    gateway = make_gateway(group_bounds=LOOKS)
    topic = await gateway.topic(flush_ms=0)
    await append_at(gateway, topic, [int(time.time() * 1000) - 60_000] * 2)
    await commit(gateway, "g", 0)
    gateway.forget_tail()
    reads_before = segment_reads(gateway)
    first = await scrape(gateway)
    reads = segment_reads(gateway)
    assert reads > reads_before
    gateway.engine.reader._ahead = ReadAhead(0)
    second = await scrape(gateway)
    assert segment_reads(gateway) == reads
    assert (second.seconds("g") or 0) >= (first.seconds("g") or 0) >= 60


async def test_the_series_are_bounded() -> None:
    """With more groups than series those furthest behind have one, and what is left out is counted."""
    gateway = make_gateway(group_bounds=replace(LOOKS, lag_series_max=2, lag_reads_max=1))
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 5)
    for number in range(5):
        await commit(gateway, f"g{number}", number)
    found = await scrape(gateway)
    assert (found.pairs, found.left_out) == ([("g0", "t"), ("g1", "t")], 3)
    known = [found.seconds(name) is not None for name in ("g0", "g1")]
    assert known == [True, False], "one record is read at a time"
    found = await scrape(gateway)
    assert None not in (found.seconds("g0"), found.seconds("g1"))


async def test_offsets_of_a_topic_that_was_deleted_have_no_lag() -> None:
    """A topic made anew under the name has nothing to do with what was committed for the old one."""
    gateway = make_gateway(group_bounds=LOOKS)
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 3)
    await commit(gateway, "g", 1)
    assert (await scrape(gateway)).records("g") == 2
    await gateway.engine.administration.delete("t")
    assert (await scrape(gateway)).pairs == []
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 7)
    assert (await scrape(gateway)).pairs == []


async def test_nothing_old_is_told_as_new() -> None:
    """While the store does not answer there is no lag in the metrics, and a scrape does not fail; then it is there again."""
    gateway = make_gateway(group_bounds=LOOKS)
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 3)
    await commit(gateway, "g", 1)
    assert (await scrape(gateway)).records("g") == 2
    gateway.store.go_down()
    assert (await scrape(gateway)).pairs == []
    gateway.store.come_back()
    assert (await scrape(gateway)).records("g") == 2


async def test_scrapes_share_looks() -> None:
    """A second scrape at once asks nothing of the store, and a gateway that drains looks no more."""
    gateway = make_gateway(group_bounds=LOOKS)
    await gateway.append(await gateway.topic(flush_ms=0), [b"x"] * 3)
    await commit(gateway, "g", 1)
    await scrape(gateway)
    before = sum(gateway.store.calls.values())
    for _ in range(3):
        await gateway.engine.measure()
    assert sum(gateway.store.calls.values()) == before
    assert Scraped(gateway).records("g") == 2
    await gateway.engine.drain()
    before = sum(gateway.store.calls.values())
    await scrape(gateway)
    assert sum(gateway.store.calls.values()) == before
