"""Decided transactions through a topic's log: a process that applies one again, whatever it knows, appends nothing (G6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest

from log_format.checkpoints.checkpoint import write_checkpoint
from log_format.delta.actions import decode_commit
from log_format.stores.local import LocalStore
from log_format.topic import producer_id
from log_format.topic.append import Append, Batch
from log_format.topic.append_outcome import AppendedRange, AppendOutcome, Duplicate
from log_format.topic.applied_transactions import (
    FLOOR_APP_ID,
    NO_TRANSACTIONS,
    TransactionEnded,
    TransactionStamp,
    decode_applied,
)
from log_format.topic.changes import DeleteRecords, DeleteTopic
from log_format.topic.producers import Producers
from tests.support.faulty_store import FaultyStore
from tests.support.topic_bench import TopicBench, TopicUser

FIRST = TransactionStamp("first", 3, 3)


def applied(bench: TopicBench, gateway: TopicUser, *stamps: TransactionStamp) -> list[AppendOutcome]:
    """One record for each, in one flush."""
    batches: list[Batch] = [bench.batch(gateway, {0: [stamp.transaction_id.encode()]}) for stamp in stamps]
    for batch, stamp in zip(batches, stamps, strict=True):
        batch.transaction = stamp
    outcomes: list[AppendOutcome] = list(gateway.committer.commit(Append(batches, bench.new_id)).result)
    return outcomes


def newcomer(bench: TopicBench, *, without_commits: bool = False) -> Any:
    """A gateway that knows only what is in the store; ``without_commits``: only the newest checkpoint."""
    gateway = bench.gateway()
    if without_commits:
        for version in range(gateway.log.refresh().version + 1):
            bench.store.delete(bench.key(f"{version:020d}.json"))
        gateway = bench.gateway()
    gateway.log.refresh()
    return gateway


def checkpoint(bench: TopicBench, gateway: TopicUser) -> None:
    write_checkpoint(bench.store, "flights", gateway.log.state.version, bench.clock.now_ms())


def test_a_commit_names_the_transactions_that_it_applies(bench: TopicBench) -> None:
    """The commit itself says which transaction's records it brings: a reader of the log needs nothing else to tell."""
    gateway = bench.create(1)
    applied(bench, gateway, FIRST, TransactionStamp("second", 4, 3))
    key = bench.key(f"{gateway.log.state.version:020d}.json")
    txns = {txn.app_id: txn.version for txn in decode_commit(bench.store.get(key), key).txns}
    assert txns == {"0": 2, "transaction-first": 3, "transaction-second": 4, FLOOR_APP_ID: 3}


def test_whoever_applies_it_again_appends_nothing(bench: TopicBench) -> None:
    """From memory, from the commits, from a checkpoint, within one flush and in a conflict: the first places."""
    gateway = bench.create(1)
    late = newcomer(bench)
    once = Duplicate((AppendedRange(0, 0, 1),))
    assert applied(bench, gateway, FIRST, FIRST) == [once.offset_ranges, once]
    assert applied(bench, gateway, FIRST) == [once]
    assert applied(bench, gateway, FIRST, FIRST) == [once, once]
    assert applied(bench, late, FIRST, FIRST) == [once, once]
    assert applied(bench, newcomer(bench), FIRST) == [once]
    gateway.committer.commit(DeleteRecords(before={0: 1}))
    checkpoint(bench, gateway)
    assert applied(bench, newcomer(bench, without_commits=True), FIRST) == [once]
    assert gateway.log.refresh().high_watermark(0) == 1


def test_what_ended_is_told_by_the_floor(bench: TopicBench) -> None:
    """Memory is bounded by what is not ended, and forgetting never doubles, however late a finisher wakes up."""
    gateway = bench.create(1)
    applied(bench, gateway, FIRST)
    for number in range(4, 50):
        applied(bench, gateway, TransactionStamp(f"t{number}", number, number))
        assert set(gateway.log.state.transactions.by_id) == {f"t{number}"}
    checkpoint(bench, gateway)
    for late in (gateway, newcomer(bench), newcomer(bench, without_commits=True)):
        (outcome,) = applied(bench, late, FIRST)
        assert isinstance(outcome, TransactionEnded)
    assert gateway.log.refresh().high_watermark(0) == 47


def test_one_that_ended_meanwhile_harms_no_other_of_its_flush(bench: TopicBench) -> None:
    """Two finishers at once may share a flush, with each other and with records of others: those stand."""
    gateway = bench.create(1)
    late = TransactionStamp("late", 2, 2)
    applied(bench, gateway, FIRST)
    refused, again, stood = applied(bench, gateway, late, late, TransactionStamp("next", 4, 4))
    assert isinstance(refused, TransactionEnded)
    assert isinstance(again, TransactionEnded)
    assert stood == (AppendedRange(0, 1, 1),)


def test_a_floor_never_goes_down(bench: TopicBench) -> None:
    """A finisher that has not looked for long has an old floor, which lets nothing in that has ended."""
    gateway = bench.create(1)
    applied(bench, gateway, FIRST)
    applied(bench, gateway, TransactionStamp("new", 9, 8))
    applied(bench, gateway, TransactionStamp("slow", 10, 1))
    checkpoint(bench, gateway)
    for late in (gateway, newcomer(bench, without_commits=True)):
        assert late.log.state.transactions.floor == 8
        assert isinstance(applied(bench, late, FIRST)[0], TransactionEnded)


def test_it_takes_no_producers_place_and_needs_none(bench: TopicBench) -> None:
    """A topic that forgot producer ids issued later than the transaction takes its records all the same."""
    gateway = bench.create(1)
    object.__setattr__(gateway.log.state, "producers", Producers({}, bench.clock.now_ms() + 86_400_000))
    transaction = producer_id.issue(producer_id.TRANSACTIONAL, bench.clock.now_ms(), "0" * 20, b"key")
    assert applied(bench, gateway, TransactionStamp(transaction, 3, 3)) == [(AppendedRange(0, 0, 1),)]
    assert len(gateway.log.state.producers) == 0


def test_an_incarnation_knows_no_transactions(bench: TopicBench) -> None:
    """A topic made anew shares nothing with the old one."""
    gateway = bench.create(1)
    applied(bench, gateway, FIRST)
    gateway.committer.commit(DeleteTopic())
    bench.create(1, topic_id="another")
    gateway.log.refresh()
    assert gateway.log.state.transactions == NO_TRANSACTIONS
    checkpoint(bench, gateway)
    assert newcomer(bench, without_commits=True).log.state.transactions == NO_TRANSACTIONS


@pytest.mark.parametrize("ours_before", [False, True])
def test_a_checkpoint_of_somebody_else_doubles_nothing(bench: TopicBench, tmp_path: Path, ours_before: bool) -> None:
    """deltalake's checkpoint knows nothing of our metadata, and still tells what is applied and what ended."""
    bench.store = FaultyStore(LocalStore(tmp_path))
    gateway = bench.create(1)
    slow = TransactionStamp("slow", 5, 1)
    for stamp in (FIRST, TransactionStamp("new", 6, 5), slow):
        applied(bench, gateway, stamp)
    if ours_before:
        checkpoint(bench, gateway)
        bench.append(gateway, {0: [b"more"]})
    deltalake.DeltaTable(f"{tmp_path}/topics/flights").create_checkpoint()
    late = newcomer(bench, without_commits=True)
    assert isinstance(applied(bench, late, FIRST)[0], TransactionEnded)
    assert isinstance(applied(bench, late, slow)[0], Duplicate)


def test_damage_is_found_out() -> None:
    """What is no such memory raises one kind of error."""
    for bad in (b"", b"[]", b"[1,[[1]]]", b'{"a":1}'):
        with pytest.raises(ValueError, match=r"."):
            decode_applied(bad)
