"""The table of transactions: decisions are judged one after another, many share a commit, and any Delta reader opens it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pytest

from log_format import limits
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import CorruptData, ErrorCode, TidelogError
from log_format.stores.local import LocalStore
from log_format.topic.producer_id import JOB, TRANSACTIONAL, issue
from log_format.transactions.changes import (
    BeginAndCommit,
    BeginTransaction,
    Decide,
    DecideAbort,
    DecideCommit,
    Decision,
    FinishTransaction,
    ForbidTransaction,
)
from log_format.transactions.job import CommitJob
from log_format.transactions.row import Place, TransactionRow, decode_tag, encode_tag
from log_format.transactions.staged_records import decode_staged
from log_format.transactions.state import ID_BYTES, TransactionsState, row_bytes, transactions_table

HALF_A_DAY_MS = 12 * 3_600_000
MINUTE_MS = 60_000


def _begin(transaction_id: str | None = "t1", who: str = "mine", timeout_ms: int = 1000) -> BeginTransaction:
    return BeginTransaction(
        transactional_id=who, transaction_id=transaction_id, new_producer_id=f"p-{who}", timeout_ms=timeout_ms
    )


def _after(now_ms: int, state: TransactionsState, *decisions: Decision) -> tuple[TransactionsState, list[Any]]:
    outcomes: list[Any] = []
    for decision in decisions:
        rows, outcome = decision.decide(state, now_ms)
        state = state.with_rows(rows)
        outcomes.append(outcome.code if isinstance(outcome, TidelogError) else outcome.state)
    return state, outcomes


def test_what_expired_is_never_committed() -> None:
    """One millisecond too late is too late, and the refusal ends the transaction."""
    state, _ = _after(0, TransactionsState(), _begin())
    commit = DecideCommit(transaction_id="t1", staged=())
    assert _after(1000, state, commit)[1] == ["committing"]
    state, outcomes = _after(1001, state, commit, DecideAbort(transaction_id="t1", reason="asked"))
    assert outcomes == [ErrorCode.TRANSACTION_NOT_OPEN, "aborted"]
    assert state.transactions["t1"].reason == "expired"


def test_decisions_of_one_commit_see_each_other() -> None:
    """Of a new epoch and the old transaction's commit in one commit the first wins, never both.

    A new epoch has to wait for what is decided: its records must not come before.
    """
    state, _ = _after(0, TransactionsState(), _begin())
    commit = DecideCommit(transaction_id="t1", staged=("a",))
    assert _after(5, state, _begin("t2"), commit)[1] == ["open", ErrorCode.FENCED_PRODUCER]
    state, outcomes = _after(5, state, commit, _begin("t2"))
    assert outcomes == ["committing", ErrorCode.UNAVAILABLE]
    assert (state.transactions["t1"].state, state.producers["mine"].epoch) == ("committing", 0)
    assert _after(6, state, FinishTransaction(transaction_id="t1", places=()), _begin("t2"))[1] == ["committed", "open"]


def test_the_first_decision_stays() -> None:
    """Deciding again changes neither the staged objects nor the places that were answered."""
    state, _ = _after(0, TransactionsState(), _begin(), DecideCommit(transaction_id="t1", staged=("a",)))
    places = (Place("flights", 0, 7, 2),)
    again = DecideCommit(transaction_id="t1", staged=("b",))
    state, outcomes = _after(
        1,
        state,
        again,
        FinishTransaction(transaction_id="t1", places=places),
        FinishTransaction(transaction_id="t1", places=()),
        again,
    )
    assert outcomes == ["committing", "committed", "committed", "committed"]
    assert (state.transactions["t1"].staged, state.transactions["t1"].places) == ((), places)


def test_ended_ones_are_forgotten_after_a_day() -> None:
    """Memory is bounded: an ended transaction goes after its day, a decided one that is not applied never does."""
    abort = DecideAbort(transaction_id="t1", reason="asked")
    ended, _ = _after(0, TransactionsState(), _begin(), abort)
    decided, _ = _after(0, TransactionsState(), _begin(), DecideCommit(transaction_id="t1", staged=()))
    for state, is_kept in ((ended, False), (decided, True)):
        later, _ = _after(limits.TRANSACTION_REMEMBERED_MS + 1, state, _begin("t2", "other"))
        assert ("t1" in later.transactions) is is_kept


def test_every_version_is_a_delta_table(tmp_path: Path) -> None:
    """deltalake opens it at each version and sees the rows; a log loaded anew gives the same state."""
    store = LocalStore(tmp_path)
    ids = count()
    log = TableLog(store, transactions_table(), SystemClock())
    committer = Committer(log, new_id=lambda: f"id-{next(ids)}")
    steps: list[list[Decision]] = [
        [_begin(timeout_ms=900_000), _begin("t2", "other", timeout_ms=900_000)],
        [DecideCommit(transaction_id="t1", staged=("s",)), DecideAbort(transaction_id="t2", reason="asked")],
        [FinishTransaction(transaction_id="t1", places=(Place("flights", 1, 0, 3),)), _begin(None)],
    ]
    for step in steps:
        committer.commit(Decide(step, lambda: f"id-{next(ids)}"))
    path = str(tmp_path / "system" / "transactions")
    for version in range(3):
        assert deltalake.DeltaTable(path, version=version).to_pyarrow_table().num_rows == 2 * (version + 1)
    rows = deltalake.DeltaTable(path).to_pyarrow_table().to_pylist()
    assert sorted((row["transaction_id"] or "", row["state"]) for row in rows)[:3] == [
        ("", "producer"),
        ("t1", "committed"),
        ("t1", "committing"),
    ]
    deltalake.DeltaTable(path).create_checkpoint()
    fresh = TableLog(store, transactions_table(), SystemClock()).refresh()
    assert (fresh.version, fresh.transactions, fresh.producers) == (2, log.state.transactions, log.state.producers)


def test_a_tag_is_rows_or_damage() -> None:
    """What was encoded is decoded; anything else is an error of one kind."""
    row = _begin().decide(TransactionsState(), 5)[1]
    assert isinstance(row, TransactionRow)
    assert decode_tag(encode_tag([row])) == [row]
    for bad in ("", "[[1]]", '{"a":1}'):
        with pytest.raises(ValueError, match=r"."):
            decode_tag(bad)


def test_a_damaged_staged_object_is_corrupt() -> None:
    """Bytes that are no staged records raise ``CorruptData`` and nothing else."""
    for data in (b"", b"x" * 100):
        with pytest.raises(CorruptData):
            decode_staged(data, "k")


def test_a_number_outlives_its_transaction() -> None:
    """A transactional id's last commit is known long after the id of its transaction is forgotten.

    Of an id without numbers nothing is known then. At some time, or beyond so many, the longest unused go, too.
    """
    state = TransactionsState()
    for who, number in (("plain", None), ("first", 4), ("second", 5)):
        begin = _begin(who, who) if number is None else replace(_begin(who, who), number=number)
        decisions = (
            begin,
            DecideCommit(transaction_id=who, staged=()),
            FinishTransaction(transaction_id=who, places=()),
        )
        state, _ = _after(0, state, *decisions)
    numbered = state.producers["second"]
    more = [msgspec.structs.replace(numbered, transactional_id=f"n{n}") for n in range(limits.NUMBERED_IDS_MAX - 1)]
    full = state.with_rows(more)
    later = limits.TRANSACTIONAL_ID_REMEMBERED_MS + 1
    state, _ = _after(later, state, _begin("t9", "another"))
    assert set(state.producers) == {"first", "second", "another"}
    assert not {"first", "second"} & state.transactions.keys()
    again, _ = _after(later, state, replace(_begin("t10", "first"), number=5))
    assert (again.producers["first"].last_number, again.producers["first"].epoch) == (4, 1)
    full, _ = _after(later, full, _begin("t11", "more"))
    assert set(full.producers) == {"second", "more", *(row.transactional_id for row in more)}
    gone, _ = _after(limits.NUMBERED_ID_REMEMBERED_MS + 1, state, _begin("t12", "more"))
    assert set(gone.producers) == {"more"}


def test_a_number_is_committed_once() -> None:
    """A driver that repeats it is told that it is committed, or that a later one is.

    While it is not finished the driver waits.
    """
    job = CommitJob(transaction_id="j1", staged=("a",), new_producer_id="p", transactional_id="q", number=3)
    state, outcomes = _after(0, TransactionsState(), job, job, replace(job, transaction_id="j2"))
    assert outcomes == ["committing", "committing", ErrorCode.UNAVAILABLE]
    state, outcomes = _after(
        1, state, FinishTransaction(transaction_id="j1", places=()), replace(job, transaction_id="j2")
    )
    assert outcomes == ["committed", ErrorCode.TRANSACTION_NOT_OPEN]
    state, outcomes = _after(
        2, state, replace(job, transaction_id="j3", number=2), replace(job, transaction_id="j3", number=4)
    )
    assert outcomes == [ErrorCode.FENCED_PRODUCER, "committing"]
    assert (state.producers["q"].epoch, state.producers["q"].last_number) == (1, 3)


def test_a_forbidden_job_is_not_committed() -> None:
    """Its staged objects may be deleted already."""
    forbid = ForbidTransaction(transaction_id="j1")
    job = CommitJob(transaction_id="j1", staged=("a",), new_producer_id="p", transactional_id="q", number=3)
    state, outcomes = _after(0, TransactionsState(), forbid, job)
    assert outcomes == ["aborted", ErrorCode.UNAVAILABLE]
    assert "q" not in state.producers


@pytest.mark.parametrize(
    ("decision", "age_ms"),
    [
        (CommitJob(transaction_id=issue(JOB, 0, "0" * 20, b""), staged=("a",), new_producer_id="p"), HALF_A_DAY_MS),
        (BeginAndCommit(transaction_id=issue(TRANSACTIONAL, 0, "0" * 20, b""), staged=("a",), stamp=None), MINUTE_MS),
    ],
    ids=["a job", "one request"],
)
def test_what_was_staged_long_ago_is_not_committed(decision: Decision, age_ms: int) -> None:
    """A program that slept: its objects may be deleted, and the row that forbids it forgotten. What it decided before stays."""
    assert _after(age_ms + 1, TransactionsState(), decision)[1] == [ErrorCode.UNAVAILABLE]
    state, outcomes = _after(age_ms, TransactionsState(), decision)
    assert outcomes == ["committing"]
    assert _after(age_ms + 1, state, decision)[1] == ["committing"]


def test_what_ended_is_forgotten_early_where_it_takes_too_much() -> None:
    """Places in many partitions, and many transactions, have a bound in bytes; what has not ended is never forgotten for it."""
    places = tuple(Place("t", number, 0, 1) for number in range(2_000))
    state = TransactionsState()
    state, _ = _after(0, state, _begin("open", "open"))
    for number in range(20):
        name = f"t{number}"
        decisions = (
            _begin(name, "id"),
            DecideCommit(transaction_id=name, staged=("a",)),
            FinishTransaction(transaction_id=name, places=places),
        )
        state, _ = _after(number, state, *decisions)
    assert "open" in state.transactions
    assert "t19" in state.transactions
    assert "t0" not in state.transactions
    assert state.memory.all_bytes == sum(map(row_bytes, state.transactions.values())) <= limits.TRANSACTIONS_BYTES_MAX
    assert state.memory.lasting_bytes == row_bytes(state.transactions["open"])
    assert state.memory.ids_bytes == ID_BYTES * 2
    assert state.producers["id"].places == ()
