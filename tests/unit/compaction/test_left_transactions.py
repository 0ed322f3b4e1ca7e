"""A transaction that a job decided and left is brought to its end by maintenance, unless it is still young."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa

from compaction.left_transactions import finish_left
from compaction.report import LogReporter
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.job import CommitJob
from log_format.transactions.staged_records import STAGED, StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.without_gateway import TransactionFinishing

CLOCK = SystemClock()


def new_id() -> str:
    return uuid.uuid4().hex


def test_what_a_job_left_is_finished() -> None:
    """Every topic has its records, nothing is left staged; a dry run and a young one change nothing."""
    store = MemoryStore()
    finishing = TransactionFinishing(
        store, CLOCK, new_id=new_id, log_of=lambda topic: TopicLog(store, topic, CLOCK), engine="tidelog-test"
    )
    transaction_id = issue(JOB, CLOCK.now_ms(), new_id(), b"key")
    names = []
    for topic in ("a", "b"):
        log = TopicLog(store, topic, CLOCK)
        create = CreateTopic(name=topic, partition_count=1, config=TopicConfig.parse({}), topic_id=topic)
        Committer(log, new_id=new_id).commit(create)
        rows = [{"timestamp": 0, "key": None, "value": b"v", "headers": None}]
        records = StagedRecords(
            topic=topic,
            topic_id=topic,
            records=pa.Table.from_pylist(rows, schema=BATCH_SCHEMA),
            partitions=np.zeros(1, np.int32),
        )
        names.append(staged_name(0, topic, None, new_id()))
        store.put(f"{staged_prefix(transaction_id)}{names[-1]}", encode_staged(records))
    finishing.decide(CommitJob(transaction_id=transaction_id, staged=tuple(names), new_producer_id="p"))

    def ends() -> list[int]:
        return [TopicLog(store, topic, CLOCK).refresh().high_watermark(0) for topic in ("a", "b")]

    finish_left(store, CLOCK, new_id, LogReporter(), is_dry_run=False)
    finish_left(store, CLOCK, new_id, LogReporter(), is_dry_run=True, left_alone_ms=-1)
    assert ends() == [0, 0]
    state = finish_left(store, CLOCK, new_id, LogReporter(), is_dry_run=False, left_alone_ms=-1)
    assert ends() == [1, 1]
    assert [row.state for row in state.transactions.values()] == ["committed"]
    assert not list(store.list(STAGED))
