"""Replaying a log that was tampered with: what breaks the density of offsets is found out."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from log_format.delta.actions import Action, CommitInfo, MetaData, Txn, decode_commit, encode_commit
from log_format.errors import CorruptData
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment
from log_format.topic.state import TopicState

PARTITIONS = 3
METADATA = MetaData(
    id="x", name="t", schema_string="{}", configuration={"tidelog.partition.count": str(PARTITIONS)}, created_time=1
)

flushes = st.lists(
    st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(1, 5), min_size=1, max_size=PARTITIONS),
    min_size=1,
    max_size=12,
)


def encode(flush: dict[int, int], bases: list[int], number: int) -> bytes:
    runs = [Run(p, bases[p], bases[p] + flush[p], flush[p], 10, 0, 0) for p in sorted(flush)]
    segment = SegmentRef(f"segments/{number}.parquet", 100, 50, number)
    txns: list[Action] = [Txn(app_id=str(run.partition), version=run.end_offset, last_updated=1) for run in runs]
    add = add_segment(segment, runs, modification_time_ms=number, data_change=True)
    return encode_commit(CommitInfo(txn_id=f"c{number}"), [add, *txns])


def log_of(history: list[dict[int, int]]) -> list[bytes]:
    bases = [0] * PARTITIONS
    commits = [encode_commit(CommitInfo(txn_id="c"), [METADATA])]
    for number, flush in enumerate(history):
        commits.append(encode(flush, bases, number))
        for partition, count in flush.items():
            bases[partition] += count
    return commits


def replay(commits: list[bytes]) -> TopicState:
    state = TopicState.absent("t")
    for version, data in enumerate(commits):
        state = state.apply(decode_commit(data, "key"), version)
    return state


@given(flushes)
def test_offsets_are_dense(history: list[dict[int, int]]) -> None:
    """After any flushes every offset below the next one is in exactly one run, in the order of the flushes."""
    state = replay(log_of(history))
    for partition in range(PARTITIONS):
        total = sum(flush.get(partition, 0) for flush in history)
        assert state.high_watermark(partition) == total
        runs = state.manifest.runs(partition)
        assert [offset for at in runs for offset in range(at.base_offset, at.end_offset)] == list(range(total))
        names = [int(at.segment.path[9:-8]) for at in runs]
        assert names == [number for number, flush in enumerate(history) if partition in flush]


@given(flushes, st.data())
def test_a_lost_or_repeated_or_swapped_flush_is_found_out(history: list[dict[int, int]], data: st.DataObject) -> None:
    """A commit that is gone, there twice or out of order is corrupt, as soon as another one touches its partitions."""
    commits = log_of(history)
    place = data.draw(st.integers(1, len(commits) - 1))
    match data.draw(st.sampled_from(["lost", "twice", "swapped"])):
        case "lost":
            assume(any(set(history[place - 1]) & set(later) for later in history[place:]))
            tampered = commits[:place] + commits[place + 1 :]
        case "twice":
            tampered = [*commits[: place + 1], *commits[place:]]
        case _:
            assume(place < len(commits) - 1 and set(history[place - 1]) & set(history[place]))
            tampered = [*commits[:place], commits[place + 1], commits[place], *commits[place + 2 :]]
    try:
        replay(tampered)
    except CorruptData:
        return
    raise AssertionError("nobody noticed")
