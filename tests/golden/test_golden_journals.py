"""Journals of every released format stay readable for ever, and their commits are written byte by byte as they were.

``journals/`` holds one journal, commit by commit, a checkpoint in its middle, and an object with what the log says of it.
``python tests/golden/test_golden_journals.py`` writes what is missing and never touches what is there. When the format changes,
add a generation beside the old one.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.checkpoints.journal_log import journal_table
from log_format.delta.actions import Add, CommitInfo, decode_commit, encode_commit
from log_format.delta.log import TableLog
from log_format.journal.entries import Attach, Close, Drained, EmptyRequest, Entry, Release, attach_entry
from log_format.journal.journal_object import TopicRecords, encode_object
from log_format.journal.notes import JournalNotes
from log_format.journal.object_tags import TopicRuns, encode_object_tags
from log_format.journal.reader import JournalReader, JournalRunRef
from log_format.journal.state import JournalState
from log_format.journal.undrained import UndrainedRun
from log_format.records.schema import BATCH_SCHEMA
from log_format.segments.run import Run, SegmentRef
from log_format.stores.memory import MemoryStore
from log_format.topic import producer_id
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import TransactionStamp
from log_format.topic.attachment import Attachment
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producers import ProducerStamp, StampedBatch
from log_format.topic.state import TopicState
from tests.support.clocks import ManualClock

DIRECTORY = Path(__file__).parent / "journals"
GENERATION = 1
NOW_MS = 1_763_683_200_000
JOURNAL = 3
CHECKPOINT_VERSION = 3
PRODUCER = producer_id.issue(producer_id.PLAIN, NOW_MS, "0" * 20, b"key")
REF = SegmentRef("segments/0f8e.parquet", 5_000, 4_000, 0xDEADBEEF)
PLACED = [
    TopicRuns(
        "1111-aaaa",
        [Run(0, 0, 3, 3, 1_500, NOW_MS, NOW_MS + 2), Run(1, 0, 1, 1, 500, 0, 253_402_300_799_999)],
        [StampedBatch(ProducerStamp(PRODUCER, 0, 0), (AppendedRange(0, 0, 2), AppendedRange(1, 0, 1)))],
        {TransactionStamp("t-1", 41, 40): (AppendedRange(0, 2, 1),)},
    ),
    TopicRuns("2222-bbbb", [Run(0, 0, 2, 2, 1_000, NOW_MS, NOW_MS)], [], {}),
]


def at_journal(name: str, topic_id: str, number: int, first: int) -> Attach:
    """The entry of a topic that was made at the journal."""
    created = CreateTopic(
        name=name,
        partition_count=2,
        config=TopicConfig.parse({"drain.ms": 60_000}),
        topic_id=topic_id,
        attachment=Attachment(JOURNAL, number, first),
    )
    state = TopicState.absent(name)
    commit = decode_commit(encode_commit(CommitInfo(), created.propose(state, 0).actions), "golden")
    return attach_entry(state.apply(commit, 0))


def entries() -> list[list[Entry]]:
    """Of each version."""
    return [
        [at_journal("flights", "1111-aaaa", 4, 4), at_journal("orders", "2222-bbbb", 5, 5)],
        [EmptyRequest("1111-aaaa", PRODUCER, 0, 1), Close("2222-bbbb", 5)],
        [Drained("1111-aaaa", [(0, 3), (1, 1)], NOW_MS + 1)],
        [at_journal("orders", "2222-bbbb", 6, 5), Close("3333-cccc", 9)],
        [Drained("2222-bbbb", [(0, 2)], NOW_MS + 1), Close("1111-aaaa", 4), Release("1111-aaaa", 4)],
        [],
    ]


def encoded() -> list[bytes]:
    """The bytes of each version. The first one makes the table and has an object; the last one lets go of it."""
    state, commits = JournalState(journal=JOURNAL), []
    for version, made in enumerate(entries()):
        add = Add(
            path=REF.path,
            size=REF.size_bytes,
            modification_time=NOW_MS + 1,
            data_change=True,
            stats='{"numRecords":6}',
            tags=encode_object_tags(REF, PLACED),
        )
        proposal = JournalNotes(made).proposal(state, NOW_MS, None, [] if version else [add])
        info = CommitInfo(
            timestamp=NOW_MS + version,
            operation=proposal.operation,
            operation_parameters={},
            engine_info="tidelog/golden",
            txn_id=f"commit-{version}",
            tags=dict(proposal.tags or {}),
        )
        commits.append(encode_commit(info, proposal.actions))
        state = state.apply(decode_commit(commits[-1], "golden"), version)
    return commits


def path(version: int) -> Path:
    return DIRECTORY / f"{GENERATION}-{version:020d}.json"


def written_path(version: int) -> Path:
    """As this release writes it: the first commit names the table's writer feature since the second generation."""
    return path(version) if version else DIRECTORY / f"2-{version:020d}.json"


def checkpoint_path() -> Path:
    return DIRECTORY / f"{GENERATION}-{CHECKPOINT_VERSION:020d}.checkpoint.parquet"


def object_records() -> pa.Table:
    """Every kind of null and empty, headers, bytes that are no UTF-8, repeated keys, late timestamps."""
    rows = [
        (0, None, None, None),
        (253_402_300_799_999, b"", b"", []),
        (NOW_MS, b"key", b"value", [{"key": "trace", "value": b"ab"}, {"key": "trace", "value": None}]),
        (NOW_MS - 1, b"\xff\xfe", b"\x00\x80", [{"key": "", "value": b"\xff"}]),
        *((NOW_MS + n, b"N%d" % (n % 3), b'{"number": %d}' % n, None) for n in range(80)),
        *((NOW_MS - n, b"%d" % n, bytes(range(n)), []) for n in range(60)),
    ]
    times, *others = zip(*rows, strict=True)
    columns = [pa.array([1000 * time for time in times], pa.int64()), *map(pa.array, others)]
    types = [field.type for field in BATCH_SCHEMA]
    return pa.table([column.cast(type_) for column, type_ in zip(columns, types, strict=True)], schema=BATCH_SCHEMA)


def write_missing() -> list[str]:
    """Write what is missing; the names of what was written."""
    DIRECTORY.mkdir(exist_ok=True)
    missing: dict[Path, bytes] = {written_path(version): data for version, data in enumerate(encoded())}
    store = MemoryStore("golden")
    for version, data in enumerate(encoded()):
        store.put(f"system/journals/{JOURNAL}/_delta_log/{version:020d}.json", data)
    write_table_checkpoint(store, f"system/journals/{JOURNAL}/", CHECKPOINT_VERSION, NOW_MS)
    key = f"system/journals/{JOURNAL}/_delta_log/{CHECKPOINT_VERSION:020d}.checkpoint.parquet"
    missing[checkpoint_path()] = store.get(key)
    records = object_records()
    half = records.num_rows // 2
    parts = [
        TopicRecords(
            "orders", "2222-bbbb", records.slice(half), np.arange(records.num_rows - half, dtype=np.int32) % 3
        ),
        TopicRecords("flights", "1111-aaaa", records.slice(0, half), np.zeros(half, np.int32)),
    ]
    made = encode_object(parts, row_group_bytes_max=2_000)
    missing[DIRECTORY / f"{GENERATION}-object.parquet"] = made.data
    facts = {
        "footer_start": made.footer_start,
        "footer_crc32": made.footer_crc32,
        "runs": [run[:4] for run in made.runs],
    }
    missing[DIRECTORY / f"{GENERATION}-object.json"] = json.dumps(facts).encode()
    written = [file for file in missing if not file.exists()]
    for file in written:
        file.write_bytes(missing[file])
    return [file.name for file in written]


def stored_states() -> list[JournalState]:
    """After each commit, each replayed by itself: states share their runs."""
    states = []
    for until in range(len(entries())):
        state = JournalState(journal=JOURNAL)
        for version in range(until + 1):
            state = state.apply(decode_commit(path(version).read_bytes(), "golden"), version)
        states.append(state)
    return states


@pytest.mark.parametrize("version", range(len(entries())))
def test_commits_are_written_as_ever(version: int) -> None:
    """The same content gives the same bytes as in the release that wrote them: other implementations rely on them."""
    assert encoded()[version] == written_path(version).read_bytes()


def test_the_journal_replays_as_ever() -> None:
    """Each version of the stored log has the state that it had."""
    states = stored_states()
    flights = [state.topics.by_id.get("1111-aaaa") for state in states]
    orders = [state.topics.by_id["2222-bbbb"] for state in states]
    assert [None if one is None else one.drained.tolist() for one in flights] == [
        [0, 0],
        [0, 0],
        [3, 1],
        [3, 1],
        None,
        None,
    ]
    assert [(one.number, one.first, one.is_open) for one in orders] == [
        (5, 5, True),
        (5, 5, False),
        (5, 5, False),
        (6, 5, True),
        (6, 5, True),
        (6, 5, True),
    ]
    assert flights[1] is not None
    assert flights[1].next_offsets.tolist() == [3, 1]
    assert flights[1].producers.by_id[PRODUCER].last_sequence == 1
    assert flights[1].transactions.by_id["t-1"].offset_ranges == (AppendedRange(0, 2, 1),)
    assert flights[1].settings == (86_400_000, 60_000, 8_388_608)
    assert dict(states[-1].topics.closed) == {"3333-cccc": 9, "1111-aaaa": 4}
    assert [state.runs.file_count() for state in states] == [1, 1, 1, 1, 1, 0]
    undrained = states[3].runs.of("2222-bbbb")
    assert undrained is not None
    assert list(undrained.parts()) == [(REF, [_undrained(run) for run in PLACED[1].runs])]


def _undrained(run: Run) -> UndrainedRun:
    return UndrainedRun(run.partition, run.base_offset, run.end_offset, run.size_bytes, run.max_timestamp_ms)


def test_a_checkpoint_is_read_as_ever() -> None:
    """A stored checkpoint gives the state of its version, and the commits behind it go on from there."""
    store = MemoryStore("golden")
    prefix = f"system/journals/{JOURNAL}/_delta_log/"
    store.put(f"{prefix}{CHECKPOINT_VERSION:020d}.checkpoint.parquet", checkpoint_path().read_bytes())
    log = TableLog(store, journal_table(JOURNAL), ManualClock())
    states = stored_states()
    assert log.refresh().topics.encoded() == states[CHECKPOINT_VERSION].topics.encoded()
    undrained = log.state.runs.of("2222-bbbb")
    assert undrained is not None
    assert list(undrained.parts()) == [(REF, [_undrained(run) for run in PLACED[1].runs])]
    for version in range(CHECKPOINT_VERSION + 1, len(states)):
        store.put(f"{prefix}{version:020d}.json", path(version).read_bytes())
    assert log.refresh().topics.encoded() == states[-1].topics.encoded()
    assert log.state.runs.file_count() == 0


def test_an_object_is_read_as_ever() -> None:
    """Each run by itself, by what the log says of the object."""
    facts = json.loads((DIRECTORY / f"{GENERATION}-object.json").read_text())
    data = (DIRECTORY / f"{GENERATION}-object.parquet").read_bytes()
    store = MemoryStore("golden")
    store.put(f"system/journals/{JOURNAL}/{REF.path}", data)
    ref = SegmentRef(REF.path, len(data), facts["footer_start"], facts["footer_crc32"])
    reader = JournalReader(store, cache_bytes=1 << 20)
    records = object_records()
    half = records.num_rows // 2
    rows = {"1111-aaaa": records.slice(0, half), "2222-bbbb": records.slice(half)}
    assert [run[:2] for run in facts["runs"]] == [
        ["1111-aaaa", 0],
        *(["2222-bbbb", partition] for partition in range(3)),
    ]
    for topic_id, partition, _, count in facts["runs"]:
        found = reader.read(JournalRunRef(JOURNAL, ref, topic_id, partition, 100))
        expected = rows[topic_id] if topic_id == "1111-aaaa" else rows[topic_id].take(list(range(partition, half, 3)))
        assert found.select(BATCH_SCHEMA.names).to_pylist() == expected.to_pylist()
        assert found.column("offset").to_pylist() == list(range(100, 100 + count))


if __name__ == "__main__":
    print("\n".join(write_missing()))
