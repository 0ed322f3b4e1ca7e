"""Decisions about the transactions of Kafka's clients: a (producer id, epoch) has many, one after another (KIP-98, KIP-360).

1. A client gets its epoch before its first transaction, by a row in state ``producer``. Only that epoch begins and ends
   transactions of the transactional id.
2. A transaction that was aborted without a request of its client ends the epoch: what the client sends later could be half of it.
3. A client that raises its own epoch gets the same answer again if it retries the request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from log_format.errors import ErrorCode, RequestRefused, TidelogError
from log_format.topic.producer_id import is_numbered
from log_format.topic.producers import fenced_error
from log_format.transactions.changes import NotFinished, Outcome, abort_row, may_know_epoch, next_owners
from log_format.transactions.row import NO_EPOCH, TransactionRow
from log_format.transactions.state import TransactionsView

LAST_EPOCH: Final = 2**15 - 2
"""Last epoch of a producer id. Then the transactional id gets another producer id, as Kafka's brokers do it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducer:
    """A decision that gives the transactional id its next epoch.

    ``asked``: producer id and epoch of a client that raises its own epoch; None for any other client.
    """

    transactional_id: str
    new_producer_id: str
    """Producer id for a transactional id that has none, or has used all of its epochs."""
    timeout_ms: int
    """Timeout of the epoch's transactions."""
    owner: str = ""
    """Fingerprint of the new epoch's owner; empty if the epoch has no owner."""
    asked: tuple[str, int] | None = None

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the fenced transaction's row and the new one; ``NotFinished`` if the previous one is decided but not
        finished."""
        known = state.producers.get(self.transactional_id)
        if known is not None and known.state == "committing":
            return (), NotFinished(known)
        if self.asked is not None and known is not None and self.asked != (known.producer_id, known.epoch):
            resumed = known.resumed_producer_id or known.producer_id, known.resumed_epoch
            if known.state == "producer" and self.asked == resumed:
                return (), known
            return (), fenced_error(self.asked[0], self.asked[1], known.epoch)
        rows: list[TransactionRow] = []
        if known is not None and known.state == "open":
            rows.append(abort_row(known, "expired" if now_ms > known.expires_at_ms else "fenced", now_ms))
        is_next = known is not None and is_numbered(known.producer_id) and known.epoch < LAST_EPOCH
        row = TransactionRow(
            transaction_id="",
            transactional_id=self.transactional_id,
            producer_id=known.producer_id if known is not None and is_next else self.new_producer_id,
            epoch=known.epoch + 1 if known is not None and is_next else 0,
            state="producer",
            began_at_ms=now_ms,
            expires_at_ms=now_ms + self.timeout_ms,
            recorded_at_ms=now_ms,
            owners=next_owners(() if known is None else known.owners, self.owner),
            resumed_epoch=NO_EPOCH if self.asked is None else self.asked[1],
            resumed_producer_id="" if self.asked is None or is_next else self.asked[0],
        )
        return [*rows, row], row


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginNext:
    """A decision that begins the epoch's next transaction, unless one is open."""

    transactional_id: str
    producer_id: str
    epoch: int
    transaction_id: str
    """Id for the new transaction if none is open."""
    owner: str = ""
    """Fingerprint of the principal that asks; an epoch of another owner counts as none."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the open transaction; ``NotFinished`` if the previous one is decided but not finished."""
        known = row_of_epoch(state, self.transactional_id, self.producer_id, self.epoch, self.owner)
        if isinstance(known, TidelogError):
            return (), known
        if known.state == "committing":
            return (), NotFinished(known)
        if known.state == "open" and now_ms > known.expires_at_ms:
            late = abort_row(known, "expired", now_ms)
            return [late], given_up_error(late)
        if known.state == "open":
            return (), known
        if known.reason not in ("", "asked"):
            return (), given_up_error(known)
        row = TransactionRow(
            transaction_id=self.transaction_id,
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            epoch=self.epoch,
            state="open",
            began_at_ms=now_ms,
            expires_at_ms=now_ms + known.expires_at_ms - known.began_at_ms,
            recorded_at_ms=now_ms,
            last_number=known.committed_number,
            owners=known.owners,
            lanes=known.lanes,
        )
        return [row], row


def row_of_epoch(
    state: TransactionsView, transactional_id: str, producer_id: str, epoch: int, owner: str = ""
) -> Outcome:
    """Return the newest row of the transactional id, if it is of this producer, epoch and owner (a fingerprint); else the error.

    An owner is told that any other epoch is fenced, even one that is still to come. Anybody else gets the same answer for
    another's epoch as for one that was never issued.
    """
    known = state.producers.get(transactional_id)
    if known is None or known.producer_id != producer_id or not may_know_epoch(known, epoch, owner):
        return RequestRefused(
            f"Epoch {epoch} of producer {producer_id} is not one of {transactional_id!r}.",
            code=ErrorCode.UNKNOWN_PRODUCER,
        )
    return known if epoch == known.epoch else fenced_error(producer_id, epoch, known.epoch)


def given_up_error(row: TransactionRow) -> TidelogError:
    """Return the error for continuing in the epoch of a transaction that was aborted without a request of its client."""
    why = {
        "expired": "its timeout passed",
        "topic": "one of its topics was deleted",
        "offsets": "a group refused its offsets",
    }
    return RequestRefused(
        f"The transaction of {row.transactional_id!r} was aborted: {why.get(row.reason, row.reason)}.",
        code=ErrorCode.TRANSACTION_NOT_OPEN,
        reason=row.reason,
    )
