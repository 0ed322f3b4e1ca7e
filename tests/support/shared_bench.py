"""Topics at a journal, written and drained by a program without a gateway."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock, SystemClock
from log_format.delta.committer import Committer
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.reader import JournalReader
from log_format.journal.refresh import refresh_topic
from log_format.journal.state import JournalState
from log_format.journal.topic_writer import TopicWriter
from log_format.schemas.columns.subject_readers import StoredReaders
from log_format.store import ObjectStore
from log_format.topic.append_outcome import AppendOutcome
from log_format.topic.attachment import Attachment
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.state import TopicState
from tests.support.records import batch_of


def new_id() -> str:
    return uuid.uuid4().hex


class SharedBench:
    """Topics of two partitions at journal 0."""

    def __init__(self, store: ObjectStore, clock: Clock | None = None, **options: Any) -> None:
        self.store = store
        self.clock = SystemClock() if clock is None else clock
        self.journals = JournalLogs(store, self.clock)
        self.reader = JournalReader(store, cache_bytes=2**24)
        self.anywhere = TopicWriter(self.journals.get, self.reader, new_id=new_id, engine="tidelog-test", **options)
        self.logs: dict[str, TopicLog] = {}

    def log(self, topic: str) -> TopicLog:
        """The topic's own log."""
        if topic not in self.logs:
            self.logs[topic] = TopicLog(self.store, topic, self.clock)
        return self.logs[topic]

    def create(self, *topics: str, is_shared: bool = True, **config: str | int) -> None:
        """Settings have underscores for dots."""
        settings = TopicConfig.parse({name.replace("_", "."): value for name, value in config.items()})
        for topic in topics:
            topic_id = new_id()
            self.journals.get(0).refresh()
            number = self.journals.get(0).state.topics.next_number(topic_id)
            at = Attachment(0, number, number) if is_shared else None
            change = CreateTopic(name=topic, partition_count=2, config=settings, topic_id=topic_id, attachment=at)
            Committer(self.log(topic), new_id=new_id).commit(change)

    def append(
        self, topic: str, *values: bytes, partition: int = 0, timestamps_ms: int | Sequence[int] = 0
    ) -> AppendOutcome:
        """One request."""
        topic_id = self.log(topic).refresh().topic_id
        outcome = self.anywhere.append(
            self.log(topic), batch_of(topic_id, values, partition, timestamps_ms=timestamps_ms)
        )
        assert not isinstance(outcome, Exception), outcome
        return outcome

    def flush(self, values: dict[str, Sequence[bytes]], partition: int = 0) -> None:
        """One flush of the journal with records of all these topics, those of typed ones judged."""
        routed = []
        for topic, of_topic in values.items():
            state = self.log(topic).refresh()
            batch, subjects = batch_of(state.topic_id, of_topic, partition), state.config.subjects
            if subjects.are_set:
                typed = StoredReaders(self.store, self.clock).newest(subjects).typed(batch.records)[0]
                batch = batch.with_typed(typed, subjects)
            routed.append(RoutedBatch(state, batch))
        outcomes = Committer(self.journals.get(0), new_id=new_id).commit(JournalAppend(routed, new_id)).result
        assert not [each for each in outcomes if isinstance(each, Exception)], outcomes

    def drain(self, topic: str, *, note: bool = True) -> None:
        """The topic's table has its records then; the journal knows unless ``note`` is false."""
        entry = self.anywhere.drain(self.log(topic))
        if note and entry is not None:
            self.anywhere.note(0, [entry])

    def own(self, topic: str) -> list[int]:
        """Where the topic's own table ends."""
        offsets: list[int] = self.log(topic).refresh().next_offsets.tolist()
        return offsets

    def journal(self) -> JournalState:
        """The journal at its head."""
        return self.journals.get(0).refresh()

    def look(self, topic: str) -> TopicState:
        """The topic with what only its journal has."""
        return refresh_topic(self.log(topic), self.journals.get)
