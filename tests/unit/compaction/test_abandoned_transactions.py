"""A transaction that a job decided and left is brought to its end by maintenance, unless it is still young; one that it never
decided is given up."""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pytest

from compaction.abandoned_transactions import finish_abandoned
from compaction.job import Job
from compaction.report import LogReporter
from compaction.workers import LocalWorkers
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.errors import BackOff
from log_format.limits import ORPHAN_GRACE_MS
from log_format.records.schema import BATCH_SCHEMA
from log_format.stores.memory import MemoryStore
from log_format.topic.changes import CreateTopic
from log_format.topic.config import TopicConfig
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.job import CommitJob
from log_format.transactions.staged_records import STAGED, StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support.clocks import ManualClock

CLOCK = SystemClock()


def new_id() -> str:
    return uuid.uuid4().hex


def test_what_a_job_left_is_finished() -> None:
    """Every topic has its records, nothing is left staged; a dry run and a young one change nothing."""
    store = MemoryStore()
    finishing = TransactionFinisher(
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

    finish_abandoned(store, CLOCK, new_id, LogReporter(), is_dry_run=False)
    finish_abandoned(store, CLOCK, new_id, LogReporter(), is_dry_run=True, left_alone_ms=-1)
    assert ends() == [0, 0]
    state = finish_abandoned(store, CLOCK, new_id, LogReporter(), is_dry_run=False, left_alone_ms=-1)
    assert ends() == [1, 1]
    assert [row.state for row in state.transactions.values()] == ["committed"]
    assert not list(store.list(STAGED))


def test_what_was_staged_too_long_ago_is_given_up_before_it_goes() -> None:
    """A job that slept for a day can't decide what maintenance deletes: the transaction would never come to its end. A dry run
    gives nothing up, and what is younger may still be decided."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    finishing = TransactionFinisher(
        store, clock, new_id=new_id, log_of=lambda topic: TopicLog(store, topic, clock), engine="tidelog-test"
    )

    def job(*, is_dry_run: bool = False) -> Job:
        workers = LocalWorkers(store)
        return Job(store=store, workers=workers, clock=clock, report=LogReporter(), is_dry_run=is_dry_run)

    old = issue(JOB, clock.now_ms(), new_id(), b"key")
    store.put(f"{staged_prefix(old)}{staged_name(0, 'a', None, new_id())}", b"records")
    clock.pass_ms(ORPHAN_GRACE_MS + 1)
    young = issue(JOB, clock.now_ms(), new_id(), b"key")
    store.put(f"{staged_prefix(young)}{staged_name(0, 'a', None, new_id())}", b"records")
    job(is_dry_run=True).run_round(collect=True)
    assert not finishing.log.refresh().transactions
    job().run_round(collect=True)
    assert list(store.list_directories(STAGED)) == [young]
    with pytest.raises(BackOff):
        finishing.decide(CommitJob(transaction_id=old, staged=("x",), new_producer_id="p"))
    assert finishing.decide(CommitJob(transaction_id=young, staged=("x",), new_producer_id="p")).state == "committing"
