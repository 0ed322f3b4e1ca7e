"""What a journal's log says comes back as it was; anything else raises ``CorruptData`` alone."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_format.delta.actions import Add, Commit, decode_commit
from log_format.delta.tag_compression import compress_tag, decompress_tag
from log_format.errors import CorruptData
from log_format.journal.content import decode_content
from log_format.journal.entries import (
    TAG_ENTRIES,
    Attach,
    Close,
    Drained,
    EmptyRequest,
    Entry,
    Release,
    decode_entries,
    encode_entries,
)
from log_format.journal.object_tags import TopicRuns, decode_object_add, encode_object_tags
from log_format.journal.state import JournalState
from log_format.journal.topics import NO_TOPICS, JournalTopic, JournalTopics, decode_topics
from log_format.limits import JOURNAL_TAG_BYTES_MAX
from log_format.segments.run import Run, SegmentRef
from log_format.topic import producer_id
from log_format.topic.append_outcome import AppendedRange
from log_format.topic.applied_transactions import NO_TRANSACTIONS, TransactionStamp
from log_format.topic.attachment import Attachment, parse_attachment
from log_format.topic.producers import NO_PRODUCERS, ProducerStamp, StampedBatch
from log_format.topic.segment_tags import TAG_FOOTER, TAG_RUNS

IDS = [producer_id.issue(producer_id.PLAIN, ms, "0" * 20, b"key") for ms in (1, 5)]
counts = st.integers(0, 2**40)
numbers = st.integers(1, 10**18 - 1)
topic_ids = st.text(max_size=8)
places = st.lists(st.tuples(counts, counts, counts).map(lambda one: AppendedRange(*one)), max_size=3).map(tuple)
stamps = st.tuples(st.sampled_from(IDS), counts, counts).map(lambda one: ProducerStamp(*one))
attaches = st.builds(
    Attach,
    topic_ids,
    st.text(max_size=8),
    numbers,
    numbers,
    st.integers(1, 10_000),
    st.tuples(counts, counts, counts),
    st.lists(counts, max_size=3),
    st.just(msgspec.Raw(NO_PRODUCERS.encoded())),
    st.just(msgspec.Raw(NO_TRANSACTIONS.encoded())),
)
entries = st.lists(
    st.one_of(
        attaches,
        st.builds(Close, topic_ids, numbers),
        st.builds(Drained, topic_ids, st.lists(st.tuples(counts, counts), max_size=3), counts),
        st.builds(Release, topic_ids, numbers),
        st.builds(EmptyRequest, topic_ids, st.sampled_from(IDS), counts, counts),
    ),
    max_size=40,
)


def run_of(partition: int, base: int, count: int, size: int, time_ms: int) -> Run:
    return Run(partition, base, base + count, count, size, time_ms, time_ms + 1)


runs = st.builds(run_of, counts, counts, st.integers(1, 1_000_000), st.integers(1, 2**32 - 1), counts)
transactions = st.builds(TransactionStamp, st.text(max_size=5), counts, st.integers(-1, 9))
topics = st.lists(
    st.builds(
        TopicRuns,
        topic_ids,
        st.lists(runs, max_size=5),
        st.lists(st.builds(StampedBatch, stamps, places), max_size=3),
        st.dictionaries(transactions, places, max_size=2),
    ),
    max_size=20,
)
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.sampled_from(IDS),
    lambda inner: st.lists(inner, max_size=8),
    max_leaves=30,
)


def commit_with(tags: Any, *adds: Add) -> Commit:
    """A commit as its bytes say."""
    lines = [{"commitInfo": {"engineInfo": "tidelog/1", "txnId": "x", "tags": tags}}]
    data = "\n".join(json.dumps(line) for line in lines).encode()
    read = decode_commit(data, "key")
    return Commit(
        commit_id="x", timestamp=1, tags=read.tags, protocol=None, metadata=None, adds=adds, removes=(), txns=()
    )


def add_with(tags: dict[str, str | None]) -> Add:
    return Add(path="segments/a.parquet", size=10, modification_time=1, data_change=True, tags=tags)


@given(entries)
def test_entries_come_back(made: list[Entry]) -> None:
    """Short ones as JSON, long ones compressed."""
    found = decode_entries(commit_with({TAG_ENTRIES: encode_entries(made)}))
    assert encode_entries(found) == encode_entries(made)
    assert list(map(type, found)) == list(map(type, made))


@given(topics)
def test_placed_objects_come_back(made: list[TopicRuns]) -> None:
    """Runs, stamped requests and transactions of each topic."""
    ref = SegmentRef("segments/a.parquet", 10, 5, 7)
    found = decode_object_add(add_with(encode_object_tags(ref, made)))
    assert found.ref == ref
    assert [(one.topic_id, one.runs, one.stamped, one.applied) for one in found.topics] == [tuple(one) for one in made]


@given(entries, topics, st.data())
def test_damaged_tags_are_corrupt_data(made: list[Entry], placed: list[TopicRuns], data: st.DataObject) -> None:
    """A changed, cut or foreign tag raises nothing else, and neither does a state that it is applied to."""
    tags = encode_object_tags(SegmentRef("segments/a.parquet", 10, 5, 7), placed)
    texts = {TAG_ENTRIES: encode_entries(made), TAG_RUNS: str(tags[TAG_RUNS]), TAG_FOOTER: str(tags[TAG_FOOTER])}
    name = data.draw(st.sampled_from(sorted(texts)))
    texts[name] = data.draw(
        st.one_of(_damaged(texts[name]), junk.map(json.dumps), junk.map(_packed), st.text(max_size=9))
    )
    try:
        JournalState(journal=0).apply(
            commit_with(
                {TAG_ENTRIES: texts[TAG_ENTRIES]},
                add_with({TAG_RUNS: texts[TAG_RUNS], TAG_FOOTER: texts[TAG_FOOTER]}),
            ),
            0,
        )
    except CorruptData:
        return


@pytest.mark.parametrize(
    "tag",
    [
        7,
        None,
        [],
        {},
        "é",
        "\ud800",
        '[["attach"' + "," + "[" * 100_000,
        '[["attach","a","a",1,1,1,[1,1,1],[0],' + "[" * 2_000 + "]" * 2_000 + ",[]]]",
        '[["attach","a","a",1,1,10001,[1,1,1],[0],[-1,[]],[-1,[]]]]',
        '[["attach","a","a",1,1,1,[1,1,1],[0,1],[-1,[]],[-1,[]]]]',
        '[["attach","a","a",0,0,1,[1,1,1],[0],[-1,[]],[-1,[]]]]',
        '[["empty","a","no id",0,0]]',
        '[["drained","a",[[0,1]],0]]',
        '[["other"]]',
    ],
    ids=lambda tag: str(tag)[:30].encode("ascii", "replace").decode(),
)
def test_a_foreign_tag_is_corrupt_data_or_none(tag: object) -> None:
    """One that is no text is no tag of ours."""
    state = JournalState(journal=0)
    if isinstance(tag, str):
        with pytest.raises(CorruptData):
            state.apply(commit_with({TAG_ENTRIES: tag}), 0)
    else:
        assert state.apply(commit_with({TAG_ENTRIES: tag}), 0).topics == NO_TOPICS


def test_a_tag_has_a_bound() -> None:
    """What would unpack to more than a reader takes is refused before it is unpacked."""
    with pytest.raises(ValueError, match="too large"):
        decompress_tag(compress_tag(b"[" + b" " * (65 * 1024 * 1024)), bytes_max=JOURNAL_TAG_BYTES_MAX)


@given(st.lists(st.tuples(topic_ids, numbers, st.booleans(), st.lists(counts, min_size=1, max_size=3)), max_size=6))
def test_a_checkpoint_has_the_topics(made: list[tuple[str, int, bool, list[int]]]) -> None:
    """Encoded and decoded they are the same."""
    by_id = {
        topic_id: JournalTopic(
            topic_id=topic_id,
            name=f"name {topic_id}",
            number=number,
            first=1,
            is_open=is_open,
            settings=(1, 2, 3),
            next_offsets=np.array(offsets, np.int64),
            drained=np.array([offset // 2 for offset in offsets], np.int64),
            producers=NO_PRODUCERS,
            transactions=NO_TRANSACTIONS,
            undrained_since_ms=number if is_open else None,
        )
        for topic_id, number, is_open, offsets in made
    }
    topics = JournalTopics(by_id=MappingProxyType(by_id), closed=MappingProxyType({"x": 4}), floor=3)
    assert decode_topics(topics.encoded()).encoded() == topics.encoded()


@given(st.one_of(junk.map(json.dumps).map(str.encode), st.binary(max_size=20)))
def test_a_damaged_checkpoint_is_a_value_error(data: bytes) -> None:
    """Which the checkpoint's reader turns into ``CorruptData``."""
    with pytest.raises(ValueError):
        decode_topics(b'{"floor":0,"closed":{},"topics":[' + data + b"0]}")


@given(st.integers(0, 99_999), numbers, numbers)
def test_an_attachment_is_a_property(journal: int, number: int, first: int) -> None:
    """It comes back; another text is no attachment."""
    attachment = Attachment(journal, number, first)
    assert parse_attachment("a", attachment.properties()) == attachment
    for wrong in ("", f"{journal}/{number}", f"{journal}/0/{first}", f"{journal}/{number}/{first}/", f"-{journal}/1/1"):
        with pytest.raises(CorruptData):
            parse_attachment("a", {"tidelog.journal": wrong})


def test_content_needs_no_tags() -> None:
    """A fence, for example, says nothing about topics."""
    assert decode_content(commit_with({})).apply_to(NO_TOPICS) == NO_TOPICS


def _damaged(text: str) -> st.SearchStrategy[str]:
    positions = st.integers(0, max(0, len(text) - 1))
    return st.one_of(
        positions.map(lambda at: text[:at]),
        st.tuples(positions, st.characters()).map(lambda one: text[: one[0]] + one[1] + text[one[0] + 1 :]),
        st.tuples(positions, positions).map(lambda one: text[: one[0]] + text[one[1] :]),
    )


def _packed(value: object) -> str:
    return compress_tag(json.dumps([value] * 700).encode())
