"""A topic whose own log is damaged is made whole: what is left is read alike by all, appended to, checked, and deleted."""

from __future__ import annotations

import random

import msgspec
import pytest

from compaction.policy import Policy
from compaction.report import LogReporter, Totals
from compaction.topic_upkeep import TopicUpkeep
from compaction.workers import LocalWorkers
from log_format import layout
from log_format.checkpoints.checkpoint import last_checkpoint_version, write_checkpoint
from log_format.checkpoints.repair import Repair, repair_topic
from log_format.checkpoints.salvage import Gap
from log_format.delta.actions import PROTOCOL
from log_format.errors import CorruptData, StoreUnavailable, UnknownTopic, UnsupportedTable
from log_format.inspection.verify import verify_topic
from log_format.segments.reader import SegmentReader
from log_format.topic.changes import AlterTopic, DeleteRecords, DeleteTopic
from tests.support.clocks import HOUR_MS
from tests.support.topic_bench import TopicBench, TopicUser

Values = dict[tuple[int, int], bytes]
"""(partition, offset) -> value."""


def lose(bench: TopicBench, version: int) -> None:
    """The commit of this version is gone."""
    bench.store.delete(layout.commit_key(bench.name, version))


def garble(bench: TopicBench, key: str) -> None:
    """The object holds something else."""
    data = bench.store.get(key)
    bench.store.put(key, data[: len(data) // 2] + b"\0" * 20)


def checkpoint(bench: TopicBench, version: int) -> None:
    """Of this version."""
    write_checkpoint(bench.store, bench.name, version, bench.clock.now_ms())


def repair(bench: TopicBench, **options: bool) -> Repair:
    """As the command does."""
    return repair_topic(bench.store, bench.name, bench.clock, bench.new_id, **options)


def maintain(bench: TopicBench) -> None:
    """One round: small segments become one."""
    TopicUpkeep(
        bench.store,
        bench.name,
        LocalWorkers(bench.store),
        clock=bench.clock,
        new_id=bench.new_id,
        policy=Policy(idle_ms=0, fan_in=2, quiet_fan_in=2),
        report=LogReporter(),
    ).run(Totals(), collect=True)


def values(bench: TopicBench, user: TopicUser | None = None) -> Values:
    """Every record that a reader of the store gets; a new one by default."""
    state = (user or bench.gateway()).log.refresh()
    found: Values = {}
    for partition in range(state.partition_count):
        for run in state.manifest.runs(partition):
            start = max(run.base_offset, state.log_start(partition))
            table = SegmentReader(bench.store).read(
                bench.name, run.segment, partition, start, bytes_max=1 << 20, records_max=1000
            )
            for offset, value in zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True):
                found[partition, offset] = value
    return found


def filled(bench: TopicBench, count: int = 5) -> TopicUser:
    """A topic of one partition; version n appends the record ``n`` at offset n - 1."""
    gateway = bench.create(1)
    for number in range(1, count + 1):
        bench.append(gateway, {0: [b"%d" % number]})
    return gateway


def is_sound(bench: TopicBench, *others: TopicUser) -> None:
    """It is whole, all read it alike, and it goes on: also where checkpoints of it follow."""
    assert verify_topic(bench.store, bench.name, clock=bench.clock).ok
    gateway = bench.gateway()
    end = gateway.log.refresh().high_watermark(0)
    before = values(bench)
    for user in others:
        assert values(bench, user) == before
    assert bench.append_values(gateway, {0: [b"more"]})[0].base_offset == end
    checkpoint(bench, gateway.log.state.version)
    expected = before | {(0, end): b"more"}
    for user in (gateway, bench.gateway(), *others):
        assert values(bench, user) == expected
    assert verify_topic(bench.store, bench.name, clock=bench.clock).ok


@pytest.mark.parametrize("is_garbled", [False, True])
def test_a_lost_commit_costs_its_own_records(bench: TopicBench, *, is_garbled: bool) -> None:
    """Nobody can open the topic; the repair says what is lost, keeps all else at its offsets, and does nothing when run again."""
    gateway = filled(bench)
    topic_id = gateway.log.state.topic_id
    key = layout.commit_key(bench.name, 3)
    garble(bench, key) if is_garbled else lose(bench, 3)
    with pytest.raises(CorruptData, match=r"version 3|0{19}3"):
        bench.gateway().log.refresh()
    plan = repair(bench, is_dry_run=True)
    with pytest.raises(CorruptData):
        bench.gateway().log.refresh()
    made = repair(bench)
    assert (made.lost, made.gaps, made.version) == ((key,), (Gap(0, 2, 3),), 6)
    assert (plan.lost, plan.gaps, plan.version) == (made.lost, made.gaps, None)
    assert not made.is_made_anew
    assert made.has_settings
    assert values(bench) == {(0, offset): b"%d" % (offset + 1) for offset in (0, 1, 3, 4)}
    assert bench.gateway().log.refresh().topic_id == topic_id
    assert not repair(bench).is_needed
    is_sound(bench, gateway)


def test_one_who_had_the_lost_commit_reads_as_all_others_do(bench: TopicBench) -> None:
    """A gateway that had read it before, and one that stands before it, go on from the repair."""
    early = bench.gateway()
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"1"]})
    early.log.refresh()
    bench.append(gateway, {0: [b"2"]})
    bench.append(gateway, {0: [b"3"]})
    garble(bench, layout.commit_key(bench.name, 2))
    with pytest.raises(CorruptData):
        early.log.refresh()
    repair(bench)
    is_sound(bench, gateway, early)


def test_a_gateway_that_commits_meanwhile_is_not_overrun(bench: TopicBench) -> None:
    """One that knows the whole log commits just before the repair does: its record stays."""
    gateway = filled(bench, 3)
    lose(bench, 2)

    def commit_first(operation: str, key: str) -> None:
        if operation == "put_if_absent" and key == layout.commit_key(bench.name, 4):
            bench.store.come_back()
            bench.append(gateway, {0: [b"4"]})

    bench.store.before = commit_first
    assert repair(bench).version == 5
    assert values(bench) == {(0, 0): b"1", (0, 2): b"3", (0, 3): b"4"}
    is_sound(bench, gateway)


@pytest.mark.parametrize("operation", ["put_if_absent", "put"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_repair_that_ends_early_is_made_again(bench: TopicBench, operation: str, *, is_late: bool) -> None:
    """Whether its commit, its checkpoint or its hint was the last thing that it put, or tried to."""
    gateway = filled(bench)
    lose(bench, 2)
    for end in range(3):
        calls = 0

        def end_here(done: str, key: str, end: int = end) -> None:
            nonlocal calls
            if done == operation:
                calls += 1
                if calls > end:
                    raise StoreUnavailable(key, "gone", may_have_happened=is_late)

        if is_late:
            bench.store.after = end_here
        else:
            bench.store.before = end_here
        try:
            repair(bench)
        except StoreUnavailable:
            pass
        finally:
            bench.store.come_back()
    repair(bench)
    assert values(bench) == {(0, offset): b"%d" % (offset + 1) for offset in (0, 2, 3, 4)}
    is_sound(bench, gateway)


@pytest.mark.parametrize("has_older", [False, True])
def test_a_damaged_checkpoint_is_done_without(bench: TopicBench, *, has_older: bool) -> None:
    """The commits since the one before it say the same; a later one is written from there, and nothing needs a repair."""
    gateway = filled(bench, 4)
    if has_older:
        checkpoint(bench, 2)
    checkpoint(bench, 4)
    expected = values(bench)
    garble(bench, layout.checkpoint_key(bench.name, 4))
    assert values(bench) == expected
    assert not repair(bench).is_needed
    bench.append(gateway, {0: [b"5"]})
    checkpoint(bench, 5)
    assert last_checkpoint_version(bench.store, bench.name) == 5
    is_sound(bench, gateway)


@pytest.mark.parametrize("place", range(10))
def test_a_checkpoint_of_which_one_byte_is_wrong_is_no_base(bench: TopicBench, place: int) -> None:
    """Wherever it lies, also where no reader of the state looks: the next checkpoint is made without it."""
    gateway = filled(bench, 30)
    checkpoint(bench, 30)
    expected = values(bench)
    data = bytearray(bench.store.get(layout.checkpoint_key(bench.name, 30)))
    data[10 + place * (len(data) - 20) // 10] ^= 0x11
    bench.store.put(layout.checkpoint_key(bench.name, 30), bytes(data))
    assert values(bench) == expected
    bench.append(gateway, {0: [b"31"]})
    checkpoint(bench, 31)
    assert last_checkpoint_version(bench.store, bench.name) == 31
    is_sound(bench, gateway)


def test_a_damaged_checkpoint_without_its_commits_is_named(bench: TopicBench) -> None:
    """It is what stands in the way, and not the commits below it, which were cleaned away. What is after it is left."""
    gateway = filled(bench, 4)
    topic_id = gateway.log.state.topic_id
    checkpoint(bench, 3)
    for version in range(4):
        lose(bench, version)
    garble(bench, layout.checkpoint_key(bench.name, 3))
    with pytest.raises(CorruptData, match="checkpoint 3"):
        bench.gateway().log.refresh()
    made = repair(bench)
    assert layout.checkpoint_key(bench.name, 3) in made.lost
    assert made.is_made_anew
    assert not made.has_settings
    state = bench.gateway().log.refresh()
    assert state.topic_id not in (None, topic_id)
    assert state.config.integer("retention.ms") == -1
    assert values(bench) == {(0, 3): b"4"}
    is_sound(bench)


def test_nothing_left_is_a_topic_that_is_deleted(bench: TopicBench) -> None:
    """The name can be used again."""
    filled(bench, 1)
    for version in range(2):
        garble(bench, layout.commit_key(bench.name, version))
    assert not repair(bench).exists
    assert not bench.gateway().log.refresh().exists
    bench.create(3)
    assert bench.gateway().log.refresh().partition_count == 3


def test_a_lost_merge_leaves_its_sources(bench: TopicBench) -> None:
    """And where a later merge has the same records, its segments alone."""
    gateway = filled(bench, 4)
    maintain(bench)
    merged = gateway.log.refresh().version
    expected = values(bench)
    lose(bench, merged)
    bench.append(gateway, {0: [b"5"]})
    expected[0, 4] = b"5"
    repair(bench)
    assert values(bench) == expected
    is_sound(bench, gateway)


def test_what_a_lost_merge_replaced_is_left_out(bench: TopicBench) -> None:
    """The commit that removed the sources of a merge's source is lost: only the last merge's segment is read."""
    gateway = filled(bench, 4)
    maintain(bench)
    first = gateway.log.refresh().version
    bench.append(gateway, {0: [b"5"]})
    bench.append(gateway, {0: [b"6"]})
    bench.clock.pass_ms(12 * HOUR_MS)
    maintain(bench)
    expected = values(bench)
    assert bench.gateway().log.refresh().manifest.segment_count() < 5
    lose(bench, first)
    repair(bench)
    assert values(bench) == expected
    is_sound(bench, gateway)


@pytest.mark.parametrize("lost", [(4, 5), (4,), (5,)])
def test_a_topic_made_anew_in_the_lost_part_is_another(bench: TopicBench, lost: tuple[int, ...]) -> None:
    """Of a deletion (4) or a creation (5) that is lost. Records before are not this topic's, and no position of theirs fits."""
    gateway = filled(bench, 3)
    old = gateway.log.state.topic_id
    gateway.committer.commit(DeleteTopic())
    new = bench.create(1)
    bench.append(new, {0: [b"new"]})
    for version in lost:
        lose(bench, version)
    made = repair(bench)
    state = bench.gateway().log.refresh()
    assert values(bench) == {(0, 0): b"new"}
    assert state.topic_id != old
    assert made.is_made_anew == (state.topic_id != new.log.state.topic_id) == (5 in lost)
    is_sound(bench)


def test_settings_and_log_starts_are_those_last_read(bench: TopicBench) -> None:
    """Records below a log start stay deleted; a setting of a lost commit is the one before it."""
    gateway = filled(bench, 4)
    gateway.committer.commit(AlterTopic(partition_count=3, config={"retention.ms": 5_000_000_000}))
    gateway.committer.commit(DeleteRecords(before={0: 2}))
    gateway.committer.commit(AlterTopic(partition_count=None, config={"retention.ms": 6_000_000_000}))
    lose(bench, gateway.log.state.version)
    bench.append(gateway, {2: [b"x"]})
    lose(bench, 3)
    made = repair(bench)
    assert made.gaps == (Gap(0, 2, 3),)
    state = bench.gateway().log.refresh()
    assert state.config.integer("retention.ms") == 5_000_000_000
    assert state.partition_count == 3
    assert values(bench) == {(0, 3): b"4", (2, 0): b"x"}
    is_sound(bench, gateway)


def test_segments_that_are_gone_are_done_without(bench: TopicBench) -> None:
    """The log is whole: an ordinary commit takes them out, and nobody loads anything anew."""
    gateway = filled(bench, 4)
    paths = [run.segment.path for run in gateway.log.state.manifest.runs(0)]
    for path in (paths[1], paths[3]):
        bench.store.delete(f"{layout.topic_root(bench.name)}{path}")
    assert not verify_topic(bench.store, bench.name, clock=bench.clock).ok
    plan = repair(bench, is_dry_run=True)
    made = repair(bench)
    assert plan.gaps == made.gaps == (Gap(0, 1, 2), Gap(0, 3, 4))
    assert sorted(made.gone) == sorted([paths[1], paths[3]])
    assert values(bench) == {(0, 0): b"1", (0, 2): b"3"}
    assert not repair(bench).is_needed
    is_sound(bench, gateway)


def test_what_a_later_release_wrote_is_not_repaired(bench: TopicBench) -> None:
    """It is not damaged: nothing is committed."""
    gateway = filled(bench, 1)
    later = msgspec.json.encode(PROTOCOL).replace(b"tidelog", b"tidelog-of-tomorrow")
    data = b'{"commitInfo":{"engineInfo":"tidelog/99","txnId":"x"}}\n{"protocol":' + later + b"}"
    bench.store.put_if_absent(layout.commit_key(bench.name, 2), data)
    with pytest.raises(UnsupportedTable):
        repair(bench)
    lose(bench, 1)
    with pytest.raises(UnsupportedTable):
        repair(bench)
    del gateway


def test_a_name_without_a_log_is_no_topic(bench: TopicBench) -> None:
    """Nothing is made."""
    with pytest.raises(UnknownTopic):
        repair(bench)


@pytest.mark.parametrize("seed", range(25))
def test_any_damage_is_repaired(bench: TopicBench, seed: int) -> None:
    """No record comes to another offset, none whose commits are all there is lost, and all readers agree."""
    dice = random.Random(seed)
    gateway = bench.create(2)
    written: Values = {}
    by_version: dict[int, list[tuple[int, int]]] = {}
    for number in range(dice.randrange(10, 40)):
        step = dice.random()
        if step < 0.75:
            partition = dice.randrange(2)
            value = b"%d" % number
            place = bench.append_values(gateway, {partition: [value]})[0]
            written[partition, place.base_offset] = value
            by_version[gateway.log.state.version] = [(partition, place.base_offset)]
        elif step < 0.85:
            maintain(bench)
            gateway.log.refresh()
        elif step < 0.9:
            partition = dice.randrange(2)
            offset = dice.randrange(gateway.log.state.high_watermark(partition) + 1)
            gateway.committer.commit(DeleteRecords(before={partition: offset}))
        else:
            checkpoint(bench, gateway.log.state.version)
    before = values(bench)
    head = gateway.log.state.version
    damaged = dice.sample(range(head), dice.randrange(1, min(5, head)))
    for version in damaged:
        lose(bench, version) if dice.random() < 0.5 else garble(bench, layout.commit_key(bench.name, version))
    newest = last_checkpoint_version(bench.store, bench.name)
    if newest is not None and dice.random() < 0.5:
        garble(bench, layout.checkpoint_key(bench.name, newest))
    repair(bench)
    after = values(bench)
    assert after.items() <= written.items()
    has_begun = 0 not in damaged or bench.gateway().log.refresh().topic_id == gateway.log.state.topic_id
    if has_begun:
        kept = [place for version, places in by_version.items() if version not in damaged for place in places]
        assert {place for place in kept if place in before} <= set(after)
    is_sound(bench, gateway)
