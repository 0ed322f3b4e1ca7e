"""Commits: what is written is read back, and any bytes at all are a commit or ``CorruptData``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from log_format.delta.actions import (
    PROTOCOL,
    Add,
    CommitInfo,
    MetaData,
    Protocol,
    Remove,
    Txn,
    as_decoded_commit,
    decode_commit,
    encode_commit,
)
from log_format.errors import CorruptData
from log_format.segments.run import Run, SegmentRef
from log_format.topic.segment_tags import add_segment, decode_segment_tags
from log_format.topic.state import TopicState

GOLDEN = sorted((Path(__file__).parents[1] / "golden" / "commits").glob("*.json"))
longs = st.integers(-(2**63), 2**63 - 1)
naturals = st.integers(0, 2**63 - 1)
texts = st.text(max_size=20)
maybe = st.none()


@st.composite
def runs(draw: st.DrawFn) -> Run:
    base = draw(st.integers(0, 2**62))
    count = draw(st.integers(1, 1_000))
    first = draw(st.integers(0, 253_402_300_799_999))
    last = draw(st.integers(first, 253_402_300_799_999))
    return Run(
        draw(st.integers(0, 9_999)),
        base,
        base + count + draw(st.integers(0, 9)),
        count,
        draw(st.integers(1, 2**32 - 1)),
        first,
        last,
    )


paths = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/:"), min_size=1, max_size=30)
segments = st.builds(
    SegmentRef,
    st.lists(paths.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=3).map("/".join),
    st.integers(1, 2**40),
    st.integers(0, 2**40),
    st.integers(0, 2**32 - 1),
)


@given(segments, st.lists(runs(), min_size=1, max_size=5), naturals, st.booleans())
def test_a_segment_survives_its_commit(segment: SegmentRef, held: list[Run], time_ms: int, data_change: bool) -> None:
    """Whatever a segment is called and holds, its ``add`` gives it back, through JSON and URI encoding."""
    add = add_segment(segment, held, modification_time_ms=time_ms, data_change=data_change)
    commit = decode_commit(encode_commit(CommitInfo(txn_id="x"), [add]), "key")
    assert commit.adds == (add,)
    tags = commit.adds[0].tags
    assert tags is not None
    read = decode_segment_tags(commit.adds[0].path, commit.adds[0].size, tags["tidelog.runs"], tags["tidelog.footer"])
    assert read == (segment, held)
    assert add.path.isascii()
    assert json.loads(add.stats or "")["numRecords"] == sum(run.record_count for run in held)


txns = st.builds(Txn, app_id=texts, version=longs, last_updated=longs)
removes = st.builds(
    Remove,
    path=texts,
    deletion_timestamp=st.none() | longs,
    data_change=st.just(False),
    extended_file_metadata=st.none() | st.booleans(),
    partition_values=st.none() | st.dictionaries(texts, st.none() | texts, max_size=2),
    size=st.none() | longs,
)
metadatas = st.builds(
    MetaData,
    id=texts,
    name=st.none() | texts,
    schema_string=texts,
    configuration=st.dictionaries(texts, texts, max_size=3),
)


@given(
    st.none() | texts,
    longs,
    st.none() | st.dictionaries(texts, texts, max_size=2),
    st.sampled_from([None, PROTOCOL, Protocol(min_reader_version=1, min_writer_version=2)]),
    st.none() | metadatas,
    st.lists(removes, max_size=3, unique_by=lambda remove: remove.path),
    st.lists(txns, max_size=3, unique_by=lambda txn: txn.app_id),
)
def test_any_actions_survive(
    commit_id: str | None,
    time_ms: int,
    tags: dict[str, str] | None,
    protocol: Protocol | None,
    metadata: MetaData | None,
    gone: list[Remove],
    applied: list[Txn],
) -> None:
    """Every action comes back as it was written, whatever characters it holds; each is one line."""
    actions: list[Any] = [action for action in (protocol, metadata, *gone, *applied) if action is not None]
    info = CommitInfo(txn_id=commit_id, timestamp=time_ms, tags=msgspec.UNSET if tags is None else tags)
    data = encode_commit(info, actions)
    commit = decode_commit(data, "key")
    assert as_decoded_commit(info, actions) == commit, "its committer applies it without reading it"
    assert len(data.splitlines()) == len(actions) + 1
    assert (commit.commit_id, commit.protocol, commit.metadata) == (commit_id, protocol, metadata)
    assert (commit.adds, list(commit.removes), list(commit.txns)) == ((), gone, applied)


@settings(max_examples=500)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_commit_or_corrupt(data: bytes) -> None:
    """Decoding returns or raises ``CorruptData``, nothing else."""
    read(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.data())
def test_damaged_commits_are_a_commit_or_corrupt(data: st.DataObject) -> None:
    """A real commit with a few bytes changed or a field replaced by anything decodes, or is corrupt; so does what replays it."""
    stored = bytearray(data.draw(st.sampled_from(GOLDEN)).read_bytes())
    if data.draw(st.booleans()):
        for position in data.draw(st.lists(st.integers(0, len(stored) - 1), max_size=4)):
            stored[position] = data.draw(st.integers(0, 255))
        read(bytes(stored))
    else:
        lines = [json.loads(line) for line in bytes(stored).splitlines()]
        line = data.draw(st.sampled_from(lines))
        action = next(iter(line))
        name = data.draw(st.sampled_from(sorted(line[action])))
        line[action][name] = data.draw(json_values)
        read("\n".join(json.dumps(line) for line in lines).encode())


def read(data: bytes) -> None:
    """Decode and replay, on an empty log and on one that the commit might follow."""
    try:
        commit = decode_commit(data, "key")
    except CorruptData:
        return
    for older in (0, 1, 4, 6):
        state = TopicState.absent("flights")
        try:
            for version in range(older):
                state = state.apply(decode_commit(GOLDEN[version].read_bytes(), "golden"), version)
            state.apply(commit, older)
        except CorruptData:
            continue


@settings(max_examples=300)
@given(
    texts, naturals, st.none() | texts | json_values.map(json.dumps), st.none() | texts | json_values.map(json.dumps)
)
def test_any_tags_are_a_segment_or_corrupt(path: str, size: int, tag_runs: str | None, tag_footer: str | None) -> None:
    """Whatever the tags of an ``add`` say, they name a segment or are corrupt."""
    assert Add(path=path, size=size, modification_time=1, data_change=True).size == size
    try:
        segment, held = decode_segment_tags(path, size, tag_runs, tag_footer)
    except CorruptData:
        return
    assert segment.size_bytes == size
    assert all(run.record_count > 0 for run in held)
