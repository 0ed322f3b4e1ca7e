"""The table of transactions is bounded: compacted, it tells the same, and it forgets what no client can ask for."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import deltalake
import msgspec
import pytest

from log_format import limits
from log_format.checkpoints.checkpoint import write_table_checkpoint
from log_format.clock import SystemClock
from log_format.delta.committer import Committer
from log_format.delta.log import TableLog
from log_format.errors import BackOff, ErrorCode, TidelogError
from log_format.stores.local import LocalStore
from log_format.topic import producer_id
from log_format.topic.producers import ProducerStamp
from log_format.transactions.changes import (
    BeginAndCommit,
    BeginTransaction,
    Decide,
    DecideCommit,
    Decision,
    FinishTransaction,
    ForbidTransaction,
    judge_request,
)
from log_format.transactions.compaction import Compact
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.state import TransactionsState, TransactionsView, _forget, transactions_table

NOW_MS = 1_800_000_000_000
WHO = producer_id.issue(producer_id.PLAIN, NOW_MS, "0" * 20, b"key")
PLACES = (Place("flights", 0, 7, 1),)


class Bench:
    """The table in a directory; ids are counted."""

    def __init__(self, directory: Path) -> None:
        self.ids = count()
        self.store = LocalStore(directory)
        self.log = TableLog(self.store, transactions_table(), SystemClock())
        self.committer = Committer(self.log, new_id=self.new_id)

    def new_id(self) -> str:
        return f"id-{next(self.ids)}"

    def decide(self, *decisions: Decision) -> list[Any]:
        return list(self.committer.commit(Decide(decisions, self.new_id)).result)

    def compact(self) -> int:
        return self.committer.commit(Compact(self.new_id, files_min=2)).result

    def loaded(self) -> TransactionsState:
        return TableLog(self.store, transactions_table(), SystemClock()).refresh()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _at_once(sequence: int | None, transaction_id: str | None = None) -> BeginAndCommit:
    stamp = None if sequence is None else ProducerStamp(WHO, 0, sequence)
    return BeginAndCommit(transaction_id=transaction_id or f"r{sequence}", staged=("s",), stamp=stamp)


def _some_history(bench: Bench) -> None:
    bench.decide(BeginTransaction(transactional_id="a", transaction_id="t1", new_producer_id="pa", timeout_ms=60_000))
    bench.decide(BeginTransaction(transactional_id="b", transaction_id=None, new_producer_id="pb"))
    bench.decide(DecideCommit(transaction_id="t1", staged=("x",)))
    for sequence in range(8):
        bench.decide(_at_once(sequence))
        bench.decide(FinishTransaction(transaction_id=f"r{sequence}", places=PLACES))


def _tells(state: TransactionsState) -> tuple[Any, ...]:
    judged = [judge_request(state, ProducerStamp(WHO, 0, number), SystemClock().now_ms()) for number in range(10)]
    answers = [one.code if isinstance(one, TidelogError) else one for one in judged]
    epochs = {name: (row.producer_id, row.epoch) for name, row in state.producers.items()}
    return (answers, epochs, dict(state.transactions), dict(state.unfinished), state.floor - state.version)


def test_compacted_it_tells_the_same(bench: Bench, tmp_path: Path) -> None:
    """Live, replayed and behind a checkpoint: each answer is what it was, and one file is left."""
    _some_history(bench)
    before = _tells(bench.log.state)
    assert bench.compact() == 19
    for state in (bench.log.state, bench.loaded()):
        assert (_tells(state)[:4], len(state.files)) == (before[:4], 1)
    write_table_checkpoint(bench.store, "system/transactions/", bench.log.state.version, NOW_MS)
    for version in range(bench.log.state.version + 1):
        bench.store.delete(f"system/transactions/_delta_log/{version:020d}.json")
    assert _tells(bench.loaded())[:4] == before[:4]
    bench.decide(FinishTransaction(transaction_id="t1", places=PLACES))
    assert bench.loaded().transactions["t1"].places == PLACES
    table = deltalake.DeltaTable(str(tmp_path / "system" / "transactions"))
    assert table.to_pyarrow_table().num_rows == len(before[2]) + 2, "one row each, the epoch, and the new row"


def test_only_the_newest_five_requests_are_known_again(bench: Bench) -> None:
    """However many rows are still there: five are duplicates, older ones out of order; live, compacted, behind a checkpoint."""
    for sequence in range(8):
        bench.decide(_at_once(sequence))
        bench.decide(FinishTransaction(transaction_id=f"r{sequence}", places=PLACES))
    states = [bench.log.state, bench.loaded()]
    assert len(bench.log.state.transactions) == 8, "the others are not forgotten within the minute"
    bench.compact()
    states.append(bench.loaded())
    write_table_checkpoint(bench.store, "system/transactions/", bench.log.state.version, NOW_MS)
    states.append(bench.loaded())
    for state in states:
        judged = [judge_request(state, ProducerStamp(WHO, 0, number), SystemClock().now_ms()) for number in range(8)]
        assert [getattr(one, "code", None) for one in judged[:3]] == [ErrorCode.SEQUENCE_OUT_OF_ORDER] * 3
        assert [one.places for one in judged[3:] if isinstance(one, TransactionRow)] == [PLACES] * 5


def test_a_small_table_is_left_alone(bench: Bench) -> None:
    """One file is not worth a commit."""
    bench.decide(BeginTransaction(transactional_id="a", transaction_id="t1", new_producer_id="pa", timeout_ms=60_000))
    assert (bench.compact(), bench.log.state.version) == (0, 0)


def test_an_old_epoch_stays_behind_a_compaction(bench: Bench) -> None:
    """A transactional id outlives its transactions: its next epoch is higher, whatever was compacted."""
    long_ago_ms = SystemClock().now_ms() - 2 * limits.TRANSACTION_REMEMBERED_MS
    begin = BeginTransaction(transactional_id="a", transaction_id="t1", new_producer_id="pa", timeout_ms=1)
    _, begun = begin.decide(TransactionsState(), long_ago_ms)
    assert isinstance(begun, TransactionRow)
    bench.decide(_Rows([msgspec.structs.replace(begun, state="aborted")]))
    bench.decide(ForbidTransaction(transaction_id="x"))
    assert "t1" not in bench.log.state.transactions
    bench.decide(ForbidTransaction(transaction_id="y"))
    bench.compact()
    assert bench.loaded().producers["a"].epoch == 0
    assert bench.loaded().transactions.keys() == bench.log.state.transactions.keys()


class _Rows:
    """Writes rows as they are."""

    def __init__(self, rows: list[TransactionRow]) -> None:
        self._rows = rows

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[list[TransactionRow], TransactionRow]:
        return self._rows, self._rows[-1]


def _after(state: TransactionsState, decision: Decision, now_ms: int) -> TransactionsState:
    return state.with_rows(decision.decide(state, now_ms)[0])


def test_requests_take_no_more_than_their_newest() -> None:
    """Of a producer the newest five are remembered, of requests without a producer none; a bound holds them all together."""
    state = TransactionsState()
    for number in range(50):
        now_ms = NOW_MS + number * limits.TRANSACTION_PASSING_MS
        for decision in (_at_once(number), _at_once(None, f"u{number}")):
            state = _after(state, decision, now_ms)
        for name in (f"r{number}", f"u{number}"):
            state = _after(state, FinishTransaction(transaction_id=name, places=PLACES), now_ms)
        assert len(state.transactions) <= limits.PRODUCER_REQUESTS_REMEMBERED + 4
    again = judge_request(state, ProducerStamp(WHO, 0, 46), now_ms)
    assert isinstance(again, TransactionRow)
    assert again.places == PLACES


def test_the_longest_ended_are_forgotten_first_when_there_are_too_many() -> None:
    """However many transactions a day brings, memory is bounded; what is not at its end is kept."""
    state = TransactionsState()
    for number in range(50):
        begin = BeginTransaction(
            transactional_id=f"i{number}", transaction_id=f"t{number}", new_producer_id="p", timeout_ms=9
        )
        state = _after(state, begin, NOW_MS)
        state = _after(state, DecideCommit(transaction_id=f"t{number}", staged=()), NOW_MS)
        if number:
            state = _after(state, FinishTransaction(transaction_id=f"t{number}", places=()), NOW_MS)
    assert state.floor == state.version + 1 == 0
    rows = dict(state.transactions)
    forgotten = _forget(rows, NOW_MS, 10, 0)
    assert [row.transaction_id for row in forgotten] == [f"t{number}" for number in range(1, 41)]
    assert len(rows) == 10
    assert rows["t0"].state == "committing"


def test_what_is_forbidden_is_never_committed() -> None:
    """What is staged for a request without a row may be deleted once it is forbidden: its late decision is refused."""
    state = _after(TransactionsState(), ForbidTransaction(transaction_id="r0"), NOW_MS)
    rows, outcome = _at_once(0).decide(state, NOW_MS)
    assert (rows, type(outcome)) == ((), BackOff)
    state = _after(TransactionsState(), _at_once(0), NOW_MS)
    assert _after(state, ForbidTransaction(transaction_id="r0"), NOW_MS) == state


def test_a_request_waits_for_the_one_before_it() -> None:
    """While a producer's request is decided and not in its topics, no gateway decides its next one."""
    state = _after(TransactionsState(), _at_once(0), NOW_MS)
    refusal = judge_request(state, ProducerStamp(WHO, 0, 1), NOW_MS)
    assert isinstance(refusal, BackOff)
    assert refusal.code is ErrorCode.UNAVAILABLE
    state = _after(state, FinishTransaction(transaction_id="r0", places=()), NOW_MS)
    assert judge_request(state, ProducerStamp(WHO, 0, 1), NOW_MS) is None
