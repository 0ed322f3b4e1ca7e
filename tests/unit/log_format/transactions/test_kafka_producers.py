"""Epochs of Kafka's clients: one epoch has many transactions, fences the older ones, and ends where one was given up."""

from __future__ import annotations

from typing import Any

import pytest

from log_format.errors import ErrorCode, TidelogError
from log_format.topic.producer_id import format_number
from log_format.transactions.changes import (
    BeginTransaction,
    DecideAbort,
    DecideCommit,
    Decision,
    FinishTransaction,
    NotFinished,
)
from log_format.transactions.compaction import snapshot
from log_format.transactions.kafka_producers import LAST_EPOCH, BeginNext, InitProducer
from log_format.transactions.lanes import Lanes
from log_format.transactions.row import TransactionRow, decode_tag, encode_tag
from log_format.transactions.state import TransactionsState, transactions_table

MINE = "mine"
TIMEOUT_MS = 1_000
LANES: Lanes = (("0" * 20, ((0, 5),)),)


class Table:
    """The table's state, decision by decision."""

    def __init__(self) -> None:
        self.state: TransactionsState = transactions_table().absent()
        self.now_ms = 1_000
        self.numbers = iter(range(1, 1_000_000))

    def decide(self, decision: Decision) -> TransactionRow:
        rows, outcome = decision.decide(self.state, self.now_ms)
        self.state = self.state.with_rows(decode_tag(encode_tag(rows)))
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    def init(self, asked: tuple[str, int] | None = None) -> TransactionRow:
        number = format_number(next(self.numbers) << 21)
        return self.decide(
            InitProducer(transactional_id=MINE, new_producer_id=number, timeout_ms=TIMEOUT_MS, asked=asked)
        )

    def begin(self, row: TransactionRow) -> TransactionRow:
        return self.decide(
            BeginNext(
                transactional_id=MINE,
                producer_id=row.producer_id,
                epoch=row.epoch,
                transaction_id=f"t{next(self.numbers)}",
            )
        )

    def refusal(self, row: TransactionRow) -> ErrorCode:
        with pytest.raises(TidelogError) as caught:
            self.begin(row)
        return caught.value.code

    def end(self, row: TransactionRow, decision: Any = None) -> None:
        """Commit it, or what else is decided."""
        if decision is not None:
            self.decide(decision)
            return
        self.decide(DecideCommit(transaction_id=row.transaction_id, staged=(), lanes=LANES))
        self.decide(FinishTransaction(transaction_id=row.transaction_id, places=()))


def test_an_epoch_has_many_transactions() -> None:
    """One at a time, each with the epoch's time-out; the lanes go from one to the next."""
    table = Table()
    epoch = table.init()
    first = table.begin(epoch)
    assert table.begin(epoch) == first, "it is open already"
    assert first.expires_at_ms - first.began_at_ms == TIMEOUT_MS
    table.end(first)
    second = table.begin(epoch)
    assert (second.epoch, second.producer_id) == (first.epoch, first.producer_id)
    assert second.transaction_id != first.transaction_id
    assert second.expires_at_ms - second.began_at_ms == TIMEOUT_MS
    assert second.lanes == LANES
    assert table.state.transactions[first.transaction_id].lanes == ()
    table.end(second, DecideAbort(transaction_id=second.transaction_id, reason="asked", lanes=LANES))
    assert table.begin(epoch).lanes == LANES


def test_a_transaction_waits_for_the_one_before() -> None:
    """Until all of its records are in their topics, none begins and no epoch does."""
    table = Table()
    epoch = table.init()
    first = table.begin(epoch)
    table.decide(DecideCommit(transaction_id=first.transaction_id, staged=()))
    with pytest.raises(NotFinished):
        table.begin(epoch)
    with pytest.raises(NotFinished):
        table.init()


def test_a_new_epoch_fences_and_begins_lanes_anew() -> None:
    """The open transaction of the older one is aborted by the same decision."""
    table = Table()
    old = table.init()
    open_one = table.begin(old)
    new = table.init()
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert table.state.transactions[open_one.transaction_id].reason == "fenced"
    assert table.refusal(old) is ErrorCode.FENCED_PRODUCER
    assert table.begin(new).lanes == ()
    strange = format_number(99 << 21)
    with pytest.raises(TidelogError) as caught:
        table.decide(BeginNext(transactional_id=MINE, producer_id=strange, epoch=0, transaction_id="x"))
    assert caught.value.code is ErrorCode.UNKNOWN_PRODUCER


def test_a_client_raises_its_own_epoch_once() -> None:
    """Its repeat gets the same epoch again. One that was fenced meanwhile is told so."""
    table = Table()
    first = table.init()
    raised = table.init(asked=(first.producer_id, first.epoch))
    assert raised.epoch == first.epoch + 1
    assert table.init(asked=(first.producer_id, first.epoch)) == raised
    table.end(table.begin(raised))
    with pytest.raises(TidelogError) as caught:
        table.init(asked=(first.producer_id, first.epoch))
    assert caught.value.code is ErrorCode.FENCED_PRODUCER
    other = table.init()
    with pytest.raises(TidelogError):
        table.init(asked=(raised.producer_id, raised.epoch))
    assert table.init(asked=(other.producer_id, other.epoch)).epoch == other.epoch + 1


def test_the_last_epoch_is_followed_by_another_number() -> None:
    """An epoch is an int16."""
    table = Table()
    first = table.init()
    row = TransactionRow(**{name: getattr(first, name) for name in first.__struct_fields__} | {"epoch": LAST_EPOCH})
    table.state = table.state.with_rows([row])
    following = table.init()
    assert (following.epoch, following.producer_id != first.producer_id) == (0, True)
    table.state = table.state.with_rows([row])
    raised = table.init(asked=(first.producer_id, LAST_EPOCH))
    assert (raised.epoch, raised.producer_id != first.producer_id) == (0, True)
    assert table.init(asked=(first.producer_id, LAST_EPOCH)) == raised, "the answer was lost"
    for strange in ((format_number(99 << 21), LAST_EPOCH), (raised.producer_id, LAST_EPOCH), (first.producer_id, 0)):
        with pytest.raises(TidelogError) as caught:
            table.init(asked=strange)
        assert caught.value.code is ErrorCode.FENCED_PRODUCER
    assert table.init(asked=(raised.producer_id, 0)).epoch == 1
    with pytest.raises(TidelogError):
        table.init(asked=(first.producer_id, LAST_EPOCH))


@pytest.mark.parametrize("reason", ["expired", "offsets", "topic", "asked"])
@pytest.mark.parametrize("is_rewritten", [False, True])
def test_a_transaction_that_was_given_up_ends_its_epoch(reason: Any, is_rewritten: bool) -> None:
    """What its client sends now would be half of a transaction. ``asked``: by another program than the client."""
    table = Table()
    epoch = table.init()
    row = table.begin(epoch)
    if reason == "expired":
        table.now_ms += TIMEOUT_MS + 1
        assert table.refusal(epoch) is ErrorCode.TRANSACTION_NOT_OPEN
    else:
        table.decide(DecideAbort(transaction_id=row.transaction_id, reason=reason))
    if is_rewritten:
        table.now_ms += 2 * 86_400_000
        table.state = table.state.with_rows([*snapshot(table.state), _another(table.now_ms)])
        assert row.transaction_id not in table.state.transactions
        table.state = transactions_table().absent().with_rows(snapshot(table.state))
    assert table.refusal(epoch) is ErrorCode.TRANSACTION_NOT_OPEN
    table.begin(table.init(asked=(epoch.producer_id, epoch.epoch)))


def _another(now_ms: int) -> TransactionRow:
    return TransactionRow(
        transaction_id="",
        transactional_id="another",
        producer_id=format_number(7),
        epoch=0,
        state="producer",
        began_at_ms=now_ms,
        expires_at_ms=now_ms,
        recorded_at_ms=now_ms,
    )


def test_http_and_kafka_take_a_transactional_id_from_each_other() -> None:
    """Each has ids of its own kind; the other's transaction is aborted."""
    table = Table()
    kafkas = table.begin(table.init())
    https = table.decide(
        BeginTransaction(transactional_id=MINE, transaction_id="h", new_producer_id="t-http", timeout_ms=1)
    )
    assert (https.producer_id, https.epoch) == ("t-http", 0)
    assert table.state.transactions[kafkas.transaction_id].state == "aborted"
    assert table.refusal(kafkas) is ErrorCode.UNKNOWN_PRODUCER
    again = table.init()
    assert again.producer_id != kafkas.producer_id
    assert table.state.transactions["h"].state == "aborted"
