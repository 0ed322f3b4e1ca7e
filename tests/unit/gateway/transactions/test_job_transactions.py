"""Gateways and the transactions of jobs: what a job staged is left alone, what it decided is finished, if it is not too large."""

from __future__ import annotations

import uuid

import pytest

from log_format import limits
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import SystemClock
from log_format.errors import TidelogError
from log_format.topic.producer_id import JOB, issue
from log_format.transactions.job import CommitJob
from log_format.transactions.staged_age import JOB_MS_MAX
from log_format.transactions.staged_records import StagedRecords, encode_staged, staged_name, staged_prefix
from log_format.transactions.transaction_finisher import TransactionFinisher
from tests.support.engine import Gateway, batch_of, make_gateway, values_of

STAGED = "system/transactions/staged/"


def new_id() -> str:
    return uuid.uuid4().hex


async def staged(gateway: Gateway, *, issued_ms: int) -> CommitJob:
    """A job's decision, its objects staged as Spark's executors do."""
    transaction_id = issue(JOB, issued_ms, new_id(), b"key")
    names = []
    for name in ("a", "b"):
        batch = batch_of(await gateway.topic(name, flush_ms=0), [name.encode()])
        records = StagedRecords(topic=name, topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)
        names.append(staged_name(0, name, None, new_id()))
        gateway.store.put(f"{staged_prefix(transaction_id)}{names[-1]}", encode_staged(records))
    return CommitJob(transaction_id=transaction_id, staged=tuple(names), new_producer_id="p")


def job_of(gateway: Gateway) -> TransactionFinisher:
    """A job's hand on the table."""
    clock = SystemClock()
    return TransactionFinisher(
        gateway.store,
        clock,
        new_id=new_id,
        log_of=lambda topic: TopicLog(gateway.store, topic, clock),
        engine="tidelog-test",
    )


async def values(gateway: Gateway) -> list[list[bytes]]:
    return [values_of(await gateway.fetch(topic=name)) for name in ("a", "b")]


async def test_what_a_job_decided_is_finished() -> None:
    """The job is dead: a gateway's sweep brings its transaction to its end; one above a gateway's bound it leaves as it is."""
    gateway = make_gateway(left_alone_ms=-1)
    job = job_of(gateway)
    row = job.decide(await staged(gateway, issued_ms=SystemClock().now_ms()))
    small = make_gateway(objects=gateway.store.objects, left_alone_ms=-1, transaction_bytes_max=10)
    await small.engine.sweeping.sweep_once()
    assert await values(gateway) == [[], []]
    await gateway.engine.sweeping.sweep_once(left_alone_ms=-1)
    assert await values(gateway) == [[b"a"], [b"b"]]
    assert job.finish(row).state == "committed"
    assert await values(gateway) == [[b"a"], [b"b"]]
    await gateway.engine.drain()  # what is staged is deleted behind the finish
    assert not list(gateway.store.list(STAGED))


@pytest.mark.parametrize("age_ms", [JOB_MS_MAX - 60_000, limits.ORPHAN_GRACE_MS + 60_000])
async def test_what_a_job_stages_is_left_alone_for_a_day(gateway: Gateway, age_ms: int) -> None:
    """It has no row until it is decided, perhaps after hours; a collector first makes sure that it is never decided."""
    decision = await staged(gateway, issued_ms=SystemClock().now_ms() - age_ms)
    await gateway.engine.sweeping.sweep_once()
    is_left = bool(list(gateway.store.list(STAGED)))
    assert is_left is (age_ms < limits.ORPHAN_GRACE_MS)
    if is_left:
        assert job_of(gateway).finish(job_of(gateway).decide(decision)).state == "committed"
    else:
        with pytest.raises(TidelogError, match="discarded"):
            job_of(gateway).decide(decision)
