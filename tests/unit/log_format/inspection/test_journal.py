"""``tidelog verify`` and ``doctor`` on journals: a whole one is whole at each step, and each damage is found and named."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from log_format import layout
from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.delta.actions import CommitInfo, decode_commit, encode_commit
from log_format.inspection.diagnosis import DRAINS_LATE, diagnose
from log_format.inspection.finding import Verdict
from log_format.inspection.journal import verify_journal
from log_format.inspection.verify import verify_topic
from log_format.journal.entries import TAG_ENTRIES, Close, Drained, Release, encode_entries
from log_format.stores.memory import MemoryStore
from log_format.topic.segment_tags import TAG_RUNS
from tests.support.clocks import ManualClock
from tests.support.shared_bench import SharedBench, new_id

ROOT = layout.journal_root(0)


@pytest.fixture
def bench() -> SharedBench:
    """Topics ``a`` (partly drained) and ``b`` at a journal."""
    made = SharedBench(MemoryStore(), ManualClock())
    made.create("a", "b")
    made.flush({"a": [b"0", b"1"], "b": [b"0"]})
    made.drain("a")
    made.flush({"a": [b"2"], "b": [b"1"]})
    return made


def problems(bench: SharedBench) -> str:
    """Of the journal, and of both topics."""
    found = verify_journal(bench.store, 0, clock=bench.clock).problems
    for topic in ("a", "b"):
        found += verify_topic(bench.store, topic, clock=bench.clock).problems
    return "\n".join(found)


def test_a_whole_journal_is_whole(bench: SharedBench) -> None:
    """Before and after drains that it knows of or not, with and without a checkpoint; orphans are counted."""
    report = verify_journal(bench.store, 0, clock=bench.clock)
    assert (report.ok, report.topic_count, report.object_count, report.undrained_count) == (True, 2, 2, 3), report
    bench.drain("b", note=False)
    assert not problems(bench)
    write_table_checkpoint(bench.store, ROOT, bench.journal().version, bench.clock.now_ms())
    bench.append("a", b"3")
    bench.store.put(f"{ROOT}segments/orphan.parquet", b"x")
    assert not problems(bench)
    assert verify_journal(bench.store, 0, clock=bench.clock).orphan_count == 1
    topic_id = str(bench.log("a").state.topic_id)
    bench.anywhere.note(0, [Close(topic_id, 1)])
    bench.drain("a")
    bench.anywhere.note(0, [Release(topic_id, 1)])
    assert verify_topic(bench.store, "a", clock=bench.clock).ok


def test_a_topic_is_verified_with_what_only_its_journal_has(bench: SharedBench) -> None:
    """Every acknowledged record counts."""
    report = verify_topic(bench.store, "a", clock=bench.clock)
    assert report.ok
    assert report.record_count == 3
    assert (report.partitions[0].next_offset, report.partitions[0].record_count) == (3, 3)


def keys(bench: SharedBench) -> list[str]:
    """The objects of the two flushes, in order."""
    names = []
    for info in sorted(bench.store.list(f"{ROOT}_delta_log/"), key=lambda info: info.key):
        commit = decode_commit(bench.store.get(info.key), info.key)
        names += [f"{ROOT}{add.path}" for add in commit.adds]
    return names


def missing(bench: SharedBench) -> None:
    bench.store.delete(keys(bench)[1])


def torn(bench: SharedBench) -> None:
    key = keys(bench)[1]
    bench.store.put(key, bench.store.get(key)[:-1])


def flipped(bench: SharedBench) -> None:
    key = keys(bench)[1]
    data = bytearray(bench.store.get(key))
    data[20] ^= 1
    bench.store.put(key, bytes(data))


def another_one(bench: SharedBench) -> None:
    """An object with runs of another flush under the name of this one, and its footer in the log."""
    key = layout.table_commit_key(ROOT, bench.journal().version)
    commit = decode_commit(bench.store.get(key), key)
    (add,) = commit.adds
    assert add.tags is not None
    runs = (add.tags[TAG_RUNS] or "").replace("[0,2,3,1,", "[0,2,4,2,")
    changed = msgspec.structs.replace(add, tags={**add.tags, TAG_RUNS: runs})
    assert changed != add
    bench.store.put(key, encode_commit(CommitInfo(txn_id=new_id(), timestamp=0), [changed]))


def drained_too_far(bench: SharedBench) -> None:
    """The journal takes for drained what is in no table."""
    state = bench.journal()
    entry = Drained(str(bench.log("b").state.topic_id), [(0, 2)], 0)
    info = CommitInfo(txn_id=new_id(), timestamp=0, tags={TAG_ENTRIES: encode_entries([entry])})
    bench.store.put(layout.table_commit_key(ROOT, state.version + 1), encode_commit(info, []))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (missing, "is missing"),
        (torn, "bytes instead of"),
        (flipped, "do not match their checksum"),
        (another_one, "holds other runs"),
        (drained_too_far, "'b' counts as drained up to offset 2 of partition 0, but its table ends at 0"),
    ],
)
def test_each_damage_is_found(bench: SharedBench, damage: Callable[[SharedBench], None], named: str) -> None:
    """By the journal's report, and by that of the topic concerned."""
    damage(bench)
    report = verify_journal(bench.store, 0, clock=bench.clock)
    assert not report.ok
    assert named in "\n".join(report.problems)
    assert not all(verify_topic(bench.store, topic, clock=bench.clock).ok for topic in ("a", "b"))


def test_a_journal_that_is_not_drained_is_named(bench: SharedBench) -> None:
    """Not while it is in time; with how many topics are late, and the worst."""

    def finding() -> tuple[Verdict, str]:
        (found,) = [each for each in diagnose(bench.store, bench.clock, new_id) if each.what == "journal 0"]
        return found.verdict, found.said

    assert finding() == (Verdict.GOOD, "It serves 2 topics; the tables keep up.")
    bench.clock.sleep_ms(DRAINS_LATE * 240_000 + 1)
    verdict, said = finding()
    assert (verdict, said.startswith("Nothing drains it: 2 tables behind")) == (Verdict.POOR, True)
    bench.drain("b")
    bench.append("b", b"2")
    verdict, said = finding()
    assert verdict is Verdict.POOR
    assert said == (
        "Some of its topics are not drained: 1 table behind the topic's drain.ms, that of 'a' by 12 minutes."
    )
    bench.drain("a")
    bench.drain("b")
    assert finding()[0] is Verdict.GOOD
