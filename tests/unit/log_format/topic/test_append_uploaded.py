"""Segments that are in the store already, appended by one commit: only where they still fit, and once."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import TidelogError, TopicReplaced, UnknownTopic
from log_format.ids import random_id
from log_format.segments.run import Run, SegmentRef
from log_format.store import ObjectStore
from log_format.stores.memory import MemoryStore
from log_format.topic.append import Append
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.topic.append_uploaded import AppendUploadedSegments, ReencodeReason, UploadedSegment
from log_format.topic.applied_transactions import TransactionEnded, TransactionStamp
from log_format.topic.attachment import Attachment, TopicMove, TopicMoved
from log_format.topic.changes import CreateTopic, DeleteTopic, MoveTopic
from log_format.topic.config import TopicConfig
from tests.support.records import batch_of

STAMP: Final = TransactionStamp("t-1", 7, 3)


def run(partition: int, base: int, count: int) -> Run:
    return Run(partition, base, base + count, count, 100, 5, 9)


def segment(name: str, *runs: Run, uploaded_at_ms: int = 10**15) -> UploadedSegment:
    return UploadedSegment(SegmentRef(f"segments/{name}.parquet", 1_000, 900, 1), runs, uploaded_at_ms)


THREE: Final = (
    segment("a", run(0, 1, 10), run(1, 0, 5)),
    segment("b", run(1, 5, 5)),
    segment("c", run(1, 10, 2), run(2, 0, 4)),
)
PLACES: Final = (AppendedRange(0, 1, 10), AppendedRange(1, 0, 12), AppendedRange(2, 0, 4))


class Topic:
    """Of four partitions, with a record in the first."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.log = TopicLog(store, "t", SystemClock())
        self.committer = Committer(self.log, new_id=random_id)
        config = TopicConfig.parse({})
        self.committer.commit(CreateTopic(name="t", partition_count=4, config=config, topic_id="i"))
        self.committer.commit(Append([batch_of("i", [b"v"])], random_id))

    def append(self, *segments: UploadedSegment, topic_id: str = "i", stamp: TransactionStamp = STAMP) -> object:
        return self.committer.commit(AppendUploadedSegments.from_segments(topic_id, stamp, segments)).result


@pytest.fixture
def topic() -> Topic:
    return Topic(MemoryStore())


def test_all_segments_enter_by_one_commit_that_another_reader_takes(topic: Topic) -> None:
    """Their times grow, each partition has its next offset, the transaction is named, and done again it is there once."""
    assert topic.append(*THREE) == PLACES
    assert topic.append(*THREE) == Duplicate(PLACES)
    other = TopicLog(topic.store, "t", SystemClock())
    state = other.refresh()
    assert state.next_offsets.tolist() == [11, 12, 4, 0]
    assert state.version == 2
    assert state.transactions.by_id["t-1"].offset_ranges == PLACES
    assert state.transactions.floor == 3
    actions = [msgspec.json.decode(line) for line in topic.store.get(f"topics/t/_delta_log/{2:020}.json").splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    assert [add["path"] for add in adds] == [one.segment.path for one in THREE]
    assert all(add["dataChange"] for add in adds)
    times = [add["modificationTime"] for add in adds]
    assert times == sorted(set(times))
    assert ["tidelog.applied" in add["tags"] for add in adds] == [True, False, False]


@pytest.mark.parametrize("first", [segment("x", run(0, 0, 10)), segment("x", run(3, 1, 1)), segment("x", run(0, 2, 1))])
def test_segments_for_other_offsets_are_not_committed(topic: Topic, first: UploadedSegment) -> None:
    """Behind or ahead of the partition's next offset, even if all other partitions fit: nothing happens."""
    assert topic.append(first, *THREE[1:]) is ReencodeReason.OVERTAKEN
    assert topic.log.state.version == 1


def test_segments_that_are_too_old_are_not_committed(topic: Topic) -> None:
    """One upload of more than an hour ago is enough."""
    assert topic.append(THREE[0], THREE[1]._replace(uploaded_at_ms=-(10**10)), THREE[2]) is ReencodeReason.TOO_OLD
    assert topic.log.state.version == 1


def test_an_ended_transaction_is_not_appended(topic: Topic) -> None:
    """The topic has forgotten it, and knows that it has ended."""
    assert topic.append(segment("x", run(0, 1, 1)), stamp=TransactionStamp("t-2", 50, 40)) == (AppendedRange(0, 1, 1),)
    assert isinstance(topic.append(segment("y", run(0, 2, 1))), TransactionEnded)


@pytest.mark.parametrize(("what", "error"), [("anew", TopicReplaced), ("gone", UnknownTopic), ("away", TopicMoved)])
def test_another_topic_or_place_is_refused(topic: Topic, what: str, error: type[TidelogError]) -> None:
    """Made anew, deleted, at a journal."""
    if what == "away":
        move = TopicMove(None, Attachment(0, 1, 1), seen_version=topic.log.state.version)
        topic.committer.commit(MoveTopic(topic_id="i", move=move))
    elif what == "gone":
        topic.committer.commit(DeleteTopic())
    assert isinstance(topic.append(*THREE, topic_id="other" if what == "anew" else "i"), error)
