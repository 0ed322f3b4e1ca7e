"""The decision of a transaction that a job stages and commits without a gateway, such as a batch that Spark writes.

1. Staging needs no row: the transaction's id says that it is a job's (``producer_id.JOB``). Staged objects without a row are kept
   for ``ORPHAN_GRACE_MS``. Whoever deletes them then forbids the transaction first. Since that row is forgotten later, a
   transaction staged more than ``JOB_MS_MAX`` ago is never decided.
2. A query is a transactional id, and its batches are the numbers of its transactions. Each number is committed once. The number
   is judged at the head, in the commit that decides, so no second process of the query can come between.
3. The next number is decided only after the previous one is finished, so records keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from log_format.errors import ErrorCode, RequestRefused
from log_format.topic.producer_id import is_numbered
from log_format.transactions.changes import NotFinished, Outcome, abort_row
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.staged_age import JOB_MS_MAX, earlier_outcome
from log_format.transactions.state import TransactionsView


class NumberCommitted(RequestRefused, code=ErrorCode.TRANSACTION_NOT_OPEN):
    """Error: the transactional id has committed this number already, and all of it is visible. Nothing happened now."""

    def __init__(self, transactional_id: str, number: int) -> None:
        super().__init__(f"Transaction {number} of {transactional_id!r} is committed already.")


class NumberPassed(RequestRefused, code=ErrorCode.FENCED_PRODUCER):
    """Error: the transactional id has committed a later number, since the client runs from an old copy of its state."""

    def __init__(self, transactional_id: str, number: int, last_number: int) -> None:
        super().__init__(f"{transactional_id!r} has committed transaction {last_number}, which is later than {number}.")
        self.last_number = last_number


def judge_number(transactional_id: str, number: int, last_number: int) -> RequestRefused | None:
    """Return the error if ``number`` can't be committed after ``last_number`` (``NO_NUMBER``: none was), else None."""
    if last_number == NO_NUMBER or number > last_number:
        return None
    if number == last_number:
        return NumberCommitted(transactional_id, number)
    return NumberPassed(transactional_id, number, last_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitJob:
    """A decision that commits exactly these staged objects. ``transactional_id`` empty: a job that writes once,
    without a number."""

    transaction_id: str
    staged: tuple[str, ...]
    new_producer_id: str
    """Producer id for a new transactional id."""
    transactional_id: str = ""
    number: int = NO_NUMBER

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``committing``; an earlier decision stays.

        The outcome is ``NotFinished`` if the previous one is decided but not finished; ``NumberCommitted``, ``NumberPassed``.
        """
        earlier = earlier_outcome(state, self.transaction_id, JOB_MS_MAX, now_ms)
        if earlier is not None:
            return (), earlier
        rows: list[TransactionRow] = []
        newest = state.producers.get(self.transactional_id) if self.transactional_id else None
        if newest is not None:
            if newest.state == "committing":
                return (), NotFinished(newest)
            refusal = judge_number(self.transactional_id, self.number, newest.committed_number)
            if refusal is not None:
                return (), refusal
            if newest.state == "open":
                rows.append(abort_row(newest, "expired" if now_ms > newest.expires_at_ms else "fenced", now_ms))
        goes_on = newest is not None and not is_numbered(newest.producer_id)
        row = TransactionRow(
            transaction_id=self.transaction_id,
            transactional_id=self.transactional_id,
            producer_id=newest.producer_id if newest is not None and goes_on else self.new_producer_id,
            epoch=newest.epoch + 1 if newest is not None and goes_on else 0,
            state="committing",
            began_at_ms=now_ms,
            expires_at_ms=now_ms,
            recorded_at_ms=now_ms,
            staged=self.staged,
            decided_version=state.version + 1,
            number=self.number,
            last_number=NO_NUMBER if newest is None else newest.committed_number,
        )
        return [*rows, row], row
