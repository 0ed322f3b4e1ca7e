"""Check-back: an offer belongs to one asker for half a minute; the fifteenth is the last (docs/http-api.md section 12.2)."""

from __future__ import annotations

from log_format.limits import CHECK_PAUSE_MS, CHECKS_MAX
from log_format.transactions.changes import BeginTransaction, DecideCommit
from log_format.transactions.check_back import NotDue, OfferForCheck, due_rows
from log_format.transactions.row import TransactionRow, decode_tag, encode_tag
from log_format.transactions.state import TransactionsEdit, TransactionsState

ID = "t" + "0" * 32 + "_" + "0" * 20
TIMEOUT_MS = 900_000


def begun(check_after_ms: int | None = 5_000) -> TransactionsEdit:
    """A state with one open transaction, begun at 0."""
    state = TransactionsEdit(TransactionsState())
    begin = BeginTransaction(
        transactional_id="orders-1",
        transaction_id=ID,
        new_producer_id=ID,
        timeout_ms=TIMEOUT_MS,
        check_after_ms=check_after_ms,
    )
    for row in begin.decide(state, 0)[0]:
        state.apply(row)
    return state


def offered(state: TransactionsEdit, now_ms: int) -> TransactionRow | None:
    """The row that an asker gets, which is then in the state."""
    rows, outcome = OfferForCheck(transaction_id=ID).decide(state, now_ms)
    for row in rows:
        state.apply(row)
    assert isinstance(outcome, TransactionRow | NotDue)
    return outcome if isinstance(outcome, TransactionRow) else None


def test_it_is_offered_once_in_each_pause_and_fifteen_times() -> None:
    """Never to two askers within a pause; behind the last offer's pause it is as good as aborted."""
    state, now_ms = begun(), 5_000
    assert offered(state, now_ms - 1) is None
    for check in range(1, CHECKS_MAX + 1):
        row = offered(state, now_ms)
        assert row is not None
        assert row.checks == check
        assert offered(state, now_ms + CHECK_PAUSE_MS - 1) is None
        now_ms += CHECK_PAUSE_MS
    assert offered(state, now_ms) is None
    assert state.transactions[ID].expires_at_ms == now_ms
    rows, _ = DecideCommit(transaction_id=ID, staged=()).decide(state, now_ms + 1)
    assert [row.state for row in rows] == ["aborted"]


def test_only_those_that_asked_for_it_are_offered() -> None:
    """Without ``check_after_ms`` never, and each prefix has its own."""
    state = begun(None)
    assert offered(state, 100_000) is None
    rows = list(begun().transactions.values())
    assert [row.transaction_id for row in due_rows(rows, "orders-", 5_000)] == [ID]
    assert due_rows(rows, "other", 5_000) == []
    assert due_rows(rows, "", TIMEOUT_MS + 1) == []


def test_offers_survive_a_replay() -> None:
    """What was offered, and when next, is in the row."""
    state = begun()
    row = offered(state, 6_000)
    assert row is not None
    assert decode_tag(encode_tag([row])) == [row]
