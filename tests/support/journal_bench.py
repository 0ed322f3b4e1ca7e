"""A journal and topics in a store in memory, with what reads and writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from log_format.checkpoints.journal_log import journal_table
from log_format.checkpoints.topic_log import TopicLog
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.delta.table import StateT
from log_format.journal.append import JournalAppend, RoutedBatch
from log_format.journal.drain import Drain
from log_format.journal.entries import Close, Entry
from log_format.journal.journal_object import assign_run_offsets
from log_format.journal.notes import JournalNotes
from log_format.journal.state import JournalState
from log_format.journal.view import journal_topic
from log_format.records.schema import RECORD_SCHEMA
from log_format.topic.append import Append
from log_format.topic.attachment import Attachment, TopicMove
from log_format.topic.changes import CreateTopic, MoveTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producers import ProducerStamp
from log_format.topic.state import TopicState
from tests.support.clocks import ManualClock
from tests.support.faulty_store import FaultyStore
from tests.support.records import batch_of
from tests.support.topic_bench import counted_ids

AT_JOURNAL = Attachment(journal=0, number=1, first=1)


@dataclass
class JournalBench:
    """Journal 0; ids are ``id-1``, ``id-2``, …"""

    store: FaultyStore
    clock: ManualClock
    new_id: Callable[[], str] = field(default_factory=counted_ids)

    def committer(self, log: TableLog[StateT]) -> Committer[StateT]:
        """One for this log."""
        return Committer(log, new_id=self.new_id, jitter=lambda: 1.0)

    def journal(self) -> TableLog[JournalState]:
        """As one more gateway reads it."""
        log = TableLog(self.store, journal_table(0), self.clock)
        log.refresh()
        return log

    def topic(
        self, name: str, attachment: Attachment | None = AT_JOURNAL, *, partition_count: int = 2, **config: Any
    ) -> TopicState:
        """Make a topic; by default it is at the journal."""
        log = TopicLog(self.store, name, self.clock)
        settings = {setting.replace("_", "."): value for setting, value in config.items()}
        created = CreateTopic(
            name=name,
            partition_count=partition_count,
            config=TopicConfig.parse(settings),
            topic_id=f"{name}-id",
            attachment=attachment,
        )
        return self.committer(log).commit(created).state

    def append(
        self,
        journal: TableLog[JournalState],
        *records: tuple[TopicState, Sequence[bytes], int],
        notes: Sequence[Entry] = (),
        **stamps: Any,
    ) -> Sequence[Any]:
        """Append values to a partition, each its own batch, in one flush. The outcomes."""
        routed = [
            RoutedBatch(state, batch_of(state.topic_id, values, partition, record_bytes_max=10, **stamps))
            for state, values, partition in records
        ]
        return self.committer(journal).commit(JournalAppend(routed, self.new_id, notes=notes)).result

    def note(self, journal: TableLog[JournalState], *entries: Entry) -> JournalState:
        """Commit entries."""
        return self.committer(journal).commit(JournalNotes(entries)).state


def drained(bench: JournalBench, name: str, state: JournalState, ends: list[int] | None = None) -> TopicState:
    """The topic's table after a drain of everything, or up to ``ends``."""
    log = TopicLog(bench.store, name, bench.clock)
    topic = journal_topic(log.refresh(), state)
    assert topic is not None
    undrained = state.runs.of(topic.topic_id)
    until = np.array(topic.next_offsets if ends is None else ends, np.int64)
    tables = [RECORD_SCHEMA.empty_table()]
    runs = [run for part in ([] if undrained is None else undrained.parts()) for run in part.runs]
    for run in sorted(runs, key=lambda run: (run.partition, run.base_offset)):
        if run.end_offset <= until[run.partition]:
            batch = batch_of("x", [b"%d" % offset for offset in range(run.base_offset, run.end_offset)], run.partition)
            tables.append(assign_run_offsets(batch.records, run.partition, run.base_offset))
    return bench.committer(log).commit(Drain(topic, pa.concat_tables(tables), until, bench.new_id)).state


def leave(bench: JournalBench, state: TopicState, journal: TableLog[JournalState]) -> TopicLog:
    """The topic gets its own commits."""
    here = state.attachment
    assert here is not None
    bench.note(journal, Close(f"{state.topic}-id", here.number))
    drained(bench, state.topic, journal.state)
    log = TopicLog(bench.store, state.topic, bench.clock)
    bench.committer(log).commit(
        MoveTopic(topic_id=f"{state.topic}-id", move=TopicMove(here, topic_id=f"{state.topic}-id"))
    )
    return log


def own(bench: JournalBench, log: TopicLog, stamp: ProducerStamp, values: list[bytes]) -> Any:
    """The outcome of an own append."""
    batch = batch_of(log.state.topic_id, values, stamp=stamp, record_bytes_max=10)
    return bench.committer(log).commit(Append([batch], bench.new_id)).result[0]
