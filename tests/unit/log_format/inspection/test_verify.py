"""Verification finds every kind of damage, names it, and finds none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.delta.actions import Add, CommitInfo, Txn, decode_commit, encode_commit
from log_format.errors import StoreUnavailable, UnknownTopic
from log_format.inspection.verify import VerifiedPartition, VerifyReport, verify_topic
from log_format.segments.run import SegmentRef
from log_format.segments.segment import encode_segment
from log_format.topic.changes import DeleteRecords, DeleteTopic
from log_format.topic.segment_tags import add_segment
from tests.support.topic_bench import TopicBench, TopicUser


def filled(bench: TopicBench) -> Any:
    """Two partitions, three segments, seven records."""
    gateway = bench.create(2)
    bench.append(gateway, {0: [b"a", b"b"], 1: [b"c"]})
    bench.append(gateway, {0: [b"d"]})
    bench.append(gateway, {0: [b"e"], 1: [b"f", b"g"]})
    return gateway


def keys(bench: TopicBench, gateway: TopicUser) -> list[str]:
    return [f"topics/{bench.name}/{segment.path}" for segment in gateway.log.state.manifest.segments()]


def verify(bench: TopicBench) -> VerifyReport:
    return verify_topic(bench.store, bench.name, clock=bench.clock)


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_sound_topic_is_sound(bench: TopicBench, checkpointed: bool) -> None:
    """No problem is found in what the committer wrote, and the figures are right, with or without a checkpoint."""
    gateway = filled(bench)
    if checkpointed:
        write_checkpoint(bench.store, bench.name, 2, 0)
    sizes = [bench.store.head(key).size_bytes for key in keys(bench, gateway)]
    steps: list[tuple[int, int]] = []
    report = verify_topic(
        bench.store, bench.name, clock=bench.clock, progress=lambda done, total: steps.append((done, total))
    )
    assert report == VerifyReport(
        ok=True,
        problems=(),
        segment_count=3,
        record_count=7,
        size_bytes=sum(sizes),
        orphan_count=0,
        partitions=(
            VerifiedPartition(partition=0, log_start_offset=0, next_offset=4, record_count=4),
            VerifiedPartition(partition=1, log_start_offset=0, next_offset=3, record_count=3),
        ),
    )
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_an_empty_topic_is_sound(bench: TopicBench) -> None:
    """A topic without records is sound; the system's clock does where none is given."""
    bench.create(1)
    assert verify_topic(bench.store, bench.name).ok


def test_only_readable_records_count(bench: TopicBench) -> None:
    """Records below the log start are checked, too, but they are no records of the topic any more."""
    gateway = filled(bench)
    gateway.committer.commit(DeleteRecords(before={0: 1, 1: -1}))
    report = verify(bench)
    assert (report.ok, report.record_count, report.problems) == (True, 3, ())
    assert report.partitions[1] == VerifiedPartition(partition=1, log_start_offset=3, next_offset=3, record_count=0)


def test_a_topic_made_anew_is_sound(bench: TopicBench) -> None:
    """The segments of a deleted predecessor are neither missed nor counted."""
    gateway = filled(bench)
    gateway.committer.commit(DeleteTopic())
    bench.create(1)
    gateway.log.refresh()
    bench.append(gateway, {0: [b"x"]})
    report = verify(bench)
    assert (report.ok, report.segment_count, report.record_count, report.orphan_count) == (True, 1, 1, 0)


def test_orphans_are_counted_and_no_damage(bench: TopicBench) -> None:
    """Objects that no commit names are told, as what they are: the leavings of flushes that came to nothing."""
    filled(bench)
    bench.store.put(f"topics/{bench.name}/segments/orphan.parquet", b"whatever")
    report = verify(bench)
    assert (report.ok, report.orphan_count) == (True, 1)


@pytest.mark.parametrize("topic", ["other", "flights"])
def test_a_topic_that_is_not_there_is_unknown(bench: TopicBench, topic: str) -> None:
    """What never was, or was deleted, can't be verified."""
    filled(bench).committer.commit(DeleteTopic())
    with pytest.raises(UnknownTopic):
        verify_topic(bench.store, topic, clock=bench.clock)


def test_a_store_that_fails_is_not_damage(bench: TopicBench) -> None:
    """A store that can't be reached is said to be just that."""
    filled(bench)
    bench.store.script["get_range"] = [StoreUnavailable("k", "down", may_have_happened=False)]
    with pytest.raises(StoreUnavailable):
        verify(bench)


def rewrite(change: Callable[[bytes], bytes]) -> Callable[[Any, str, str], None]:
    return lambda store, key, other: store.put(key, change(store.get(key)))


DAMAGES: dict[str, Callable[[Any, str, str], None]] = {
    "deleted": lambda store, key, other: store.delete(key),
    "emptied": rewrite(lambda data: b""),
    "cut by a byte": rewrite(lambda data: data[:-1]),
    "cut in half": rewrite(lambda data: data[: len(data) // 2]),
    "longer": rewrite(lambda data: data + b"x"),
    "another segment in its place": lambda store, key, other: store.put(key, store.get(other)),
    "zeros": rewrite(lambda data: bytes(len(data))),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_to_a_segment_is_found(bench: TopicBench, damage: str) -> None:
    """A segment that is missing or has other bytes is named once; the others are read all the same."""
    gateway = filled(bench)
    first, second, third = keys(bench, gateway)
    DAMAGES[damage](bench.store, second, third)
    report = verify(bench)
    assert not report.ok
    assert len(report.problems) == 1
    assert second.removeprefix(f"topics/{bench.name}/") in report.problems[0]
    assert report.record_count == 6
    assert first not in report.problems[0]


def test_every_flipped_bit_is_found(bench: TopicBench) -> None:
    """No single byte of a segment can change without being found out."""
    gateway = bench.create(1)
    bench.append(gateway, {0: [b"a", b"b"]})
    (key,) = keys(bench, gateway)
    data = bench.store.get(key)
    unnoticed = []
    for position in range(len(data)):
        bench.store.put(key, data[:position] + bytes([data[position] ^ (1 << position % 8)]) + data[position + 1 :])
        if verify(bench).ok:
            unnoticed.append(position)
    assert unnoticed == []


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_missing_commit_is_found(bench: TopicBench, version: int) -> None:
    """A log with a hole is told as such."""
    filled(bench)
    bench.store.delete(bench.key(f"{version:020d}.json"))
    report = verify(bench)
    assert not report.ok
    assert f"lacks version {version}" in report.problems[0]


def test_a_damaged_commit_is_found(bench: TopicBench) -> None:
    """A commit that can't be read is told as such."""
    filled(bench)
    bench.store.put(bench.key(f"{2:020d}.json"), b"{")
    assert not verify(bench).ok


def forge(bench: TopicBench, gateway: TopicUser, change: Callable[[Add], Add]) -> None:
    """Replace the newest commit by one that says something else of its segment."""
    version = gateway.log.state.version
    key = bench.key(f"{version:020d}.json")
    commit = decode_commit(bench.store.get(key), key)
    bench.store.put(key, encode_commit(CommitInfo(txn_id="x"), [change(commit.adds[0]), *commit.txns]))


def retagged(old: str, new: str) -> Callable[[Add], Add]:
    def change(add: Add) -> Add:
        assert add.tags is not None
        runs = add.tags["tidelog.runs"]
        assert runs is not None
        assert old in runs
        return msgspec.structs.replace(add, tags=add.tags | {"tidelog.runs": runs.replace(old, new)})

    return change


def test_a_commit_that_does_not_fit_its_segment_is_found(bench: TopicBench) -> None:
    """Counts, sizes and timestamps in the commit are compared with what the segment really holds."""
    gateway = filled(bench)
    stamp = str(bench.clock.now_ms())
    for old, new in [(f"{stamp},", f"{int(stamp) - 1},"), ("[[0,3,4,1,", "[[0,3,4,1,1")]:
        key = bench.key(f"{gateway.log.state.version:020d}.json")
        original = bench.store.get(key)
        forge(bench, gateway, retagged(old, new))
        report = verify(bench)
        assert not report.ok
        assert "other runs" in report.problems[0]
        bench.store.put(key, original)
    assert verify(bench).ok


STATISTICS = {
    '"maxValues":{"partition":1': '"maxValues":{"partition":0',
    '"minValues":{"partition":0': '"minValues":{"partition":1',
    '"offset":3': '"offset":2',
    '"numRecords":3': '"numRecords":4',
    '"nullCount":{"partition":0': '"nullCount":{"partition":3',
    '.000Z"},"maxValues"': '.001Z"},"maxValues"',
    "{": "[",
}


@pytest.mark.parametrize("right", STATISTICS)
def test_statistics_that_are_wrong_are_found(bench: TopicBench, right: str) -> None:
    """Other readers skip files by them: with a wrong one they would miss records, and nothing else would tell."""
    gateway = filled(bench)

    def change(add: Add) -> Add:
        assert add.stats is not None
        assert right in add.stats
        return msgspec.structs.replace(add, stats=add.stats.replace(right, STATISTICS[right], 1))

    forge(bench, gateway, change)
    report = verify(bench)
    (problem,) = report.problems
    assert problem.startswith(f"The statistics of segment {gateway.log.state.manifest.segments()[2].path} ")
    assert report.record_count == 7


def test_statistics_have_to_be_there_but_a_moment_may_be_written_otherwise(bench: TopicBench) -> None:
    """Another program that copies a log may write other text for the same moment; that is no damage."""
    gateway = filled(bench)
    key = bench.key(f"{gateway.log.state.version:020d}.json")
    original = bench.store.get(key)
    forge(bench, gateway, lambda add: msgspec.structs.replace(add, stats=None))
    assert len(verify(bench).problems) == 1
    bench.store.put(key, original)
    forge(bench, gateway, lambda add: msgspec.structs.replace(add, stats=(add.stats or "").replace("Z", "+00:00")))
    assert verify(bench).ok


@pytest.mark.parametrize("checkpointed", [False, True])
def test_a_modification_time_that_goes_back_is_found(bench: TopicBench, checkpointed: bool) -> None:
    """Readers that order files by it would give a partition's records out of order."""
    gateway = filled(bench)
    forge(bench, gateway, lambda add: msgspec.structs.replace(add, modification_time=add.modification_time - 1))
    if checkpointed:
        write_checkpoint(bench.store, bench.name, 3, 0)
    (problem,) = verify(bench).problems
    assert "modificationTime" in problem
    assert "partition 0" in problem


def test_commits_without_an_id_or_with_one_of_another_are_found(bench: TopicBench) -> None:
    """Their writers could not tell their own commit from another's. What is no segment and no offset needs none."""
    gateway = filled(bench)
    key = bench.key(f"{gateway.log.state.version:020d}.json")
    original = bench.store.get(key)
    before = decode_commit(bench.store.get(bench.key(f"{2:020d}.json")), key).commit_id
    assert before is not None
    for commit_id, problem in [
        (None, "The commit of version 3 has no txnId."),
        (before, "The commits of versions 2 and 3 have one txnId."),
    ]:
        commit = decode_commit(original, key)
        bench.store.put(key, encode_commit(CommitInfo(txn_id=commit_id), [*commit.adds, *commit.txns]))
        assert verify(bench).problems == (problem,)
    bench.store.put(key, original)
    bench.store.put_if_absent(bench.key(f"{4:020d}.json"), b'{"commitInfo":{"operation":"SET TBLPROPERTIES"}}\n')
    assert verify(bench).ok


def test_records_that_are_not_all_there_are_found(bench: TopicBench) -> None:
    """A run with fewer records than offsets is damage, unless its keys were compacted, whatever the topic's setting is now."""
    for name, keys_compacted in (("plain", 0), ("partly", 2), ("compacted", 3)):
        bench.name = name
        gateway = bench.create(1)
        append_sparse(bench, gateway, keys_compacted)
        report = verify(bench)
        assert report.ok == (name == "compacted")
        assert report.record_count == 2


def append_sparse(bench: TopicBench, gateway: TopicUser, keys_compacted: int) -> None:
    """A commit of offsets [0, 3) of which the segment lacks the middle one."""
    from log_format.topic.append import assign_offsets

    table = assign_offsets(
        [bench.batch(gateway, {0: [b"a", b"b", b"c"]})], gateway.log.state.next_offsets, log_append_time=False
    )
    encoded = encode_segment(table.take([0, 2]), compression="zstd")
    ref: SegmentRef = encoded.ref("segments/sparse.parquet")
    bench.store.put(f"topics/{bench.name}/{ref.path}", encoded.data)
    add = add_segment(ref, encoded.runs, modification_time_ms=1, data_change=True)
    txns = [
        Txn(app_id=app_id, version=version, last_updated=1)
        for app_id, version in (("0", 3), ("keys-compacted-0", keys_compacted))
    ]
    data = encode_commit(CommitInfo(txn_id="x"), [add, *txns])
    bench.store.put_if_absent(bench.key(f"{1:020d}.json"), data)


@pytest.mark.parametrize(
    ("segment", "problems"),
    [
        (1, ["Partition 0 has no offsets [2, 3)."]),
        (2, ["Partition 0 ends at offset 3 instead of 4.", "Partition 1 ends at offset 1 instead of 3."]),
    ],
)
def test_a_segment_that_left_the_table_is_missed(bench: TopicBench, segment: int, problems: list[str]) -> None:
    """Without a log start it leaves a gap, told by its offsets. Where it was the newest, the next offset gives it away."""
    gateway = filled(bench)
    path = gateway.log.state.manifest.segments()[segment].path
    remove = b'{"remove":{"path":"%s","deletionTimestamp":1,"dataChange":true}}\n' % path.encode()
    remove = b'{"commitInfo":{"engineInfo":"tidelog/1"}}\n' + remove
    bench.store.put_if_absent(bench.key(f"{gateway.log.state.version + 1:020d}.json"), remove)
    assert list(verify(bench).problems) == problems


def test_a_topic_may_be_written_meanwhile(bench: TopicBench) -> None:
    """Records that come, and segments that go, while the topic is read are no damage."""
    gateway = filled(bench)

    def deletes(real: Any, key: str) -> Any:
        bench.append(gateway, {0: [b"new"]})
        gateway.committer.commit(DeleteRecords(before={0: -1, 1: -1}))
        for listed in [info.key for info in bench.store.list(f"topics/{bench.name}/segments/")]:
            if listed not in keys(bench, gateway):
                bench.store.delete(listed)
        return real(key)

    bench.store.script["head"] = [deletes]
    report = verify(bench)
    assert (report.ok, report.problems) == (True, ())


def test_problems_are_bounded(bench: TopicBench) -> None:
    """A topic that lost everything does not give a report without end."""
    gateway = filled(bench)
    for key in keys(bench, gateway):
        bench.store.delete(key)
    report = verify_topic(bench.store, bench.name, clock=bench.clock, problems_max=2)
    assert (report.ok, len(report.problems), report.record_count) == (False, 2, 0)


def test_one_row_group_is_in_memory_at_a_time(bench: TopicBench) -> None:
    """No request asks for a whole segment: footers and row groups come one by one."""
    filled(bench)
    bench.store.requests.clear()
    verify(bench)
    assert not [key for name, key in bench.store.requests if name == "get" and "/id-" in key]
