"""Commits and checkpoints of every released format stay readable for ever, and commits are written byte by byte as they were.

``commits/`` holds one log, commit by commit, and a checkpoint in its middle. ``python tests/golden/test_golden_commits.py``
writes what is missing and never touches what is there. When the format changes, add a generation beside the old one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from log_format.checkpoints.state import read_checkpoint
from log_format.delta.actions import Action, CommitInfo, MetaData, Protocol, Txn, decode_commit, encode_commit
from log_format.delta.checkpoint_schema import SCHEMA
from log_format.delta.table_schema import schema_string
from log_format.records.schema import RECORD_SCHEMA
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment, remove_segment
from log_format.topic.state import TopicState
from tests.support.reconciled import reconcile

DIRECTORY = Path(__file__).parent / "commits"
GENERATION = 1
NOW_MS = 1_763_683_200_000
CHECKPOINT_VERSION = 5


def metadata(topic_id: str, partition_count: int, **properties: str) -> MetaData:
    return MetaData(
        id=topic_id,
        name="flights",
        schema_string=schema_string(RECORD_SCHEMA),
        configuration={
            "delta.enableExpiredLogCleanup": "false",
            "tidelog.partition.count": str(partition_count),
            **{f"tidelog.{name.replace('_', '.')}": value for name, value in properties.items()},
        },
        created_time=NOW_MS,
    )


def txn(app_id: str, version: int) -> Txn:
    return Txn(app_id=app_id, version=version, last_updated=NOW_MS)


FIRST = SegmentRef("segments/0f8e.parquet", 4_096, 3_000, 0xDEADBEEF)
SECOND = SegmentRef("segments/1a2b.parquet", 2_048, 1_000, 1)
THIRD = SegmentRef("segments/a name%.parquet", 5_000_000_000, 4_999_999_000, 0xFFFFFFFF)
BIG = SegmentRef("compacted/big.parquet", 6_000, 5_000, 17)
FIRST_RUNS = [Run(0, 0, 3, 3, 1_500, NOW_MS, NOW_MS + 2), Run(1, 0, 1, 1, 1_400, 0, 253_402_300_799_999)]
SECOND_RUNS = [Run(0, 3, 5, 2, 900, NOW_MS - 5, NOW_MS - 5)]
THIRD_RUNS = [Run(1, 1, 1_000_001, 1_000_000, 4_294_967_295, 1, 2), Run(2, 0, 1, 1, 10, 5, 5)]


def log() -> list[tuple[str, list[Action]]]:
    """Operation and actions of each version."""

    def add(segment: SegmentRef, runs: list[Run], number: int, *, data_change: bool = True) -> Action:
        return add_segment(segment, runs, modification_time_ms=NOW_MS + number, data_change=data_change)

    def remove(segment: SegmentRef, *, data_change: bool = True) -> Action:
        return remove_segment(segment, deletion_timestamp_ms=NOW_MS + 9, data_change=data_change)

    return [
        (
            "CREATE TOPIC",
            [Protocol(min_reader_version=1, min_writer_version=2), metadata("11111111-aaaa", 2, flush_ms="5")],
        ),
        ("WRITE", [add(FIRST, FIRST_RUNS, 1), txn("0", 3), txn("1", 1)]),
        ("WRITE", [add(SECOND, SECOND_RUNS, 2), txn("0", 5)]),
        ("ALTER TOPIC", [metadata("11111111-aaaa", 3, compression_type="lz4")]),
        ("WRITE", [add(THIRD, THIRD_RUNS, 3), txn("1", 1_000_001), txn("2", 1)]),
        ("DELETE RECORDS", [txn("log-start-0", 4), txn("log-start-1", 1), remove(FIRST)]),
        (
            "COMPACT",
            [remove(SECOND, data_change=False), add(BIG, [Run(0, 3, 5, 1, 700, 1, 2)], 2, data_change=False)],
        ),
        ("DELETE TOPIC", [metadata("11111111-aaaa", 3, deleted="true"), remove(THIRD), remove(BIG), txn("0", 0)]),
        ("CREATE TOPIC", [metadata("22222222-bbbb", 1)]),
    ]


def encoded() -> list[bytes]:
    """The bytes of each version."""
    return [
        encode_commit(
            CommitInfo(
                timestamp=NOW_MS + version,
                operation=operation,
                operation_parameters={},
                engine_info="tidelog/golden",
                txn_id=f"commit-{version}",
            ),
            actions,
        )
        for version, (operation, actions) in enumerate(log())
    ]


def path(version: int) -> Path:
    return DIRECTORY / f"{GENERATION}-{version:020d}.json"


def checkpoint_path(version: int) -> Path:
    return DIRECTORY / f"{GENERATION}-{version:020d}.checkpoint.parquet"


def write_missing() -> list[str]:
    """Write what is missing; the names of what was written."""
    DIRECTORY.mkdir(exist_ok=True)
    written = []
    for version, data in enumerate(encoded()):
        if not path(version).exists():
            path(version).write_bytes(data)
            written.append(path(version).name)
    if not checkpoint_path(CHECKPOINT_VERSION).exists():
        commits = [decode_commit(path(version).read_bytes(), "golden") for version in range(CHECKPOINT_VERSION + 1)]
        table = reconcile(SCHEMA.empty_table(), commits, NOW_MS)
        pq.write_table(
            table, checkpoint_path(CHECKPOINT_VERSION), compression="zstd", store_schema=False, write_page_checksum=True
        )
        written.append(checkpoint_path(CHECKPOINT_VERSION).name)
    return written


def stored_states() -> list[TopicState]:
    states = [TopicState.absent("flights")]
    for version in range(len(log())):
        states.append(states[-1].apply(decode_commit(path(version).read_bytes(), "golden"), version))
    return states[1:]


@pytest.mark.parametrize("version", range(len(log())))
def test_commits_are_written_as_ever(version: int) -> None:
    """The same actions give the same bytes as in the release that wrote them: other implementations rely on them."""
    assert encoded()[version] == path(version).read_bytes()


@pytest.mark.parametrize("version", range(len(log())))
def test_commits_are_read_as_ever(version: int) -> None:
    """What was written is read as what was meant."""
    commit = decode_commit(path(version).read_bytes(), "golden")
    actions = log()[version][1]
    assert commit.commit_id == f"commit-{version}"
    read = [commit.protocol, commit.metadata, *commit.adds, *commit.removes, *commit.txns]
    assert [action for action in read if action is not None] == sorted(
        actions, key=lambda action: ["Protocol", "MetaData", "Add", "Remove", "Txn"].index(type(action).__name__)
    )


def test_the_log_replays_as_ever() -> None:
    """Each version of the stored log has the state that it had."""
    states = stored_states()
    assert [state.next_offsets.tolist() for state in states] == [
        [0, 0],
        [3, 1],
        [5, 1],
        [5, 1, 0],
        [5, 1_000_001, 1],
        [5, 1_000_001, 1],
        [5, 1_000_001, 1],
        [],
        [0],
    ]
    assert [state.log_starts.tolist() for state in states[4:7]] == [[0, 0, 0], [4, 1, 0], [4, 1, 0]]
    assert [state.topic_id for state in states[6:]] == ["11111111-aaaa", None, "22222222-bbbb"]
    assert states[0].config.overrides == {"flush.ms": 5}
    assert states[3].config.overrides == {"compression.type": "lz4"}


def test_a_checkpoint_is_read_as_ever() -> None:
    """A stored checkpoint gives the state of its version, and the commits behind it go on from there."""
    data = checkpoint_path(CHECKPOINT_VERSION).read_bytes()
    state = read_checkpoint(data, "flights", CHECKPOINT_VERSION)
    assert (state.topic_id, state.partition_count, state.created_at_ms) == ("11111111-aaaa", 3, NOW_MS)
    assert (state.next_offsets.tolist(), state.log_starts.tolist()) == ([5, 1_000_001, 1], [4, 1, 0])
    assert set(state.manifest.segments()) == {SECOND, THIRD}
    located = state.manifest.find(1, 999_999)
    assert located is not None
    assert (located.segment, located.base_offset, located.end_offset) == (THIRD, 1, 1_000_001)
    for version in range(CHECKPOINT_VERSION + 1, len(log())):
        state = state.apply(decode_commit(path(version).read_bytes(), "golden"), version)
        if version == CHECKPOINT_VERSION + 1:
            located = state.manifest.find(0, 4)
            assert located is not None
            assert located.segment == BIG
    assert state.topic_id == "22222222-bbbb"


if __name__ == "__main__":
    print("\n".join(write_missing()))
