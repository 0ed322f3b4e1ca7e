"""Decisions about transactions. Many share one commit of ``system/transactions``; each is accepted or refused on its own.

A decision is judged at the state with the earlier decisions of its commit applied, and again at each newer head. So an expired,
fenced or ended transaction is never committed, whatever others decide concurrently (KIP-890: one producer id and epoch name one
transaction).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from log_format import limits
from log_format.delta.system_table import Decide as SharedDecide
from log_format.delta.system_table import SystemTable, TableContents
from log_format.errors import BackOff, ErrorCode, RequestRefused, TidelogError
from log_format.topic.append_outcome import Duplicate
from log_format.topic.producer_id import is_numbered
from log_format.topic.producers import ProducerStamp, SequenceCheck, out_of_order_error
from log_format.transactions.lanes import NO_LANES, Lanes
from log_format.transactions.row import (
    NEVER_CHECKED,
    NO_NUMBER,
    NO_SEQUENCE,
    OWNERS_MAX,
    SCHEMA,
    TAG_TRANSACTIONS,
    Place,
    Reason,
    TransactionRow,
    encode_rows,
    encode_tag,
)
from log_format.transactions.staged_age import REQUEST_MS_MAX, earlier_outcome
from log_format.transactions.state import NAME, TransactionsEdit, TransactionsState, TransactionsView

Outcome = TransactionRow | TidelogError
"""Current row, or the error if nothing was decided."""


class NotFinished(BackOff):
    """Error: an earlier transaction is decided, but not applied to all of its topics, so the next one must wait. Nothing
    happened."""

    def __init__(self, row: TransactionRow) -> None:
        super().__init__(f"Transaction {row.transaction_id} of {row.transactional_id!r} is not visible everywhere yet.")
        self.row = row


class Decision(Protocol):
    """A decision about one transaction or transactional id."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the rows to write, and the outcome. No rows: the decision was made before, or is refused. Pure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransaction:
    """A decision that raises a transactional id's epoch, fencing an open transaction. ``transaction_id`` None: begin no
    transaction."""

    transactional_id: str
    transaction_id: str | None
    new_producer_id: str
    """Producer id for a new transactional id."""
    timeout_ms: int = 0
    number: int = NO_NUMBER
    """The client's own number of the transaction. The new row also has the newest number that the id has committed."""
    owner: str = ""
    """Fingerprint of the new epoch's owner; empty if the epoch has no owner."""
    check_after_ms: int | None = None
    """Time after which the transaction is offered to askers; None for never."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the fenced transaction's row and the new one; ``NotFinished`` if the previous one is decided but not
        finished."""
        known = state.producers.get(self.transactional_id)
        rows: list[TransactionRow] = []
        before = state.transactions.get(known.transaction_id) if known is not None else None
        if before is not None and before.state == "committing":
            return (), NotFinished(before)
        if before is not None and before.state == "open":
            rows.append(abort_row(before, "expired" if now_ms > before.expires_at_ms else "fenced", now_ms))
        goes_on = known is not None and not is_numbered(known.producer_id)
        row = TransactionRow(
            transaction_id=self.transaction_id or "",
            transactional_id=self.transactional_id,
            producer_id=known.producer_id if known is not None and goes_on else self.new_producer_id,
            epoch=known.epoch + 1 if known is not None and goes_on else 0,
            state="producer" if self.transaction_id is None else "open",
            began_at_ms=now_ms,
            expires_at_ms=now_ms + self.timeout_ms,
            recorded_at_ms=now_ms,
            number=self.number,
            last_number=NO_NUMBER if known is None else known.committed_number,
            owners=next_owners(() if known is None else known.owners, self.owner),
            check_at_ms=NEVER_CHECKED if self.check_after_ms is None else now_ms + self.check_after_ms,
        )
        return [*rows, row], row


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideCommit:
    """A decision that commits an open transaction with exactly these staged objects."""

    transaction_id: str
    staged: tuple[str, ...]
    lanes: Lanes = NO_LANES
    """Lanes after what is staged, for a Kafka client's transaction."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``committing``; a transaction that was decided to commit before keeps that decision."""
        row = state.transactions.get(self.transaction_id)
        if row is not None and row.state in ("committing", "committed"):
            return (), row
        if row is not None and row.state == "open" and now_ms > row.expires_at_ms:
            late = abort_row(row, "expired", now_ms)
            return [late], not_open_error(late)
        refusal = require_open(state, self.transaction_id, now_ms)
        if isinstance(refusal, TidelogError):
            return (), refusal
        decided = msgspec.structs.replace(
            refusal,
            state="committing",
            recorded_at_ms=now_ms,
            staged=self.staged,
            lanes=self.lanes,
            decided_version=state.version + 1,
        )
        return [decided], decided


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginAndCommit:
    """A decision that commits a transaction of one request. ``stamp``: the producer's request; a retry keeps the
    first decision."""

    transaction_id: str
    staged: tuple[str, ...]
    stamp: ProducerStamp | None

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``committing``; or the row of another transaction that committed the same request before."""
        earlier = earlier_outcome(state, self.transaction_id, REQUEST_MS_MAX, now_ms)
        if earlier is not None:
            return (), earlier
        if self.stamp is not None:
            verdict = judge_request(state, self.stamp, now_ms)
            if verdict is not None:
                return (), verdict
        row = TransactionRow(
            transaction_id=self.transaction_id,
            transactional_id="",
            producer_id="" if self.stamp is None else self.stamp.producer_id,
            epoch=0 if self.stamp is None else self.stamp.epoch,
            sequence=NO_SEQUENCE if self.stamp is None else self.stamp.sequence,
            state="committing",
            began_at_ms=now_ms,
            expires_at_ms=now_ms,
            recorded_at_ms=now_ms,
            staged=self.staged,
            decided_version=state.version + 1,
        )
        return [row], row


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbidTransaction:
    """A decision that a transaction without a row is never committed. A transaction with a row stays as it is."""

    transaction_id: str

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return a row in state ``aborted``, or the existing row."""
        known = state.transactions.get(self.transaction_id)
        if known is not None:
            return (), known
        row = TransactionRow(
            transaction_id=self.transaction_id,
            transactional_id="",
            producer_id="",
            epoch=0,
            state="aborted",
            reason="offsets",
            began_at_ms=now_ms,
            expires_at_ms=now_ms,
            recorded_at_ms=now_ms,
        )
        return [row], row


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideAbort:
    """A decision that aborts an open transaction; an aborted one stays aborted."""

    transaction_id: str
    reason: Reason
    lanes: Lanes | None = None
    """Lanes after what is staged, for a Kafka client that continues in its epoch; None: the lanes stay as they were."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``aborted``; refused if the transaction is decided to commit, or fenced."""
        row = state.transactions.get(self.transaction_id)
        if row is None:
            return (), unknown_transaction_error(self.transaction_id)
        if row.state == "aborted":
            return (), row if row.reason != "fenced" else not_open_error(row)
        if row.state != "open":
            return (), not_open_error(row)
        # A Kafka client that did not ask for the abort must not continue in its epoch: what it sends now would be half of its
        # transaction.
        is_others = is_numbered(row.producer_id) and self.reason == "asked" and self.lanes is None
        reason: Reason = "fenced" if is_others else self.reason
        ended = abort_row(row, "expired" if now_ms > row.expires_at_ms else reason, now_ms)
        if self.lanes is not None:
            ended = msgspec.structs.replace(ended, lanes=self.lanes)
        return [ended], ended


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTransaction:
    """A decision that records that all records of a decided transaction are in their topics, at ``places``."""

    transaction_id: str
    places: tuple[Place, ...]

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``committed``; the first answer stays."""
        row = state.transactions.get(self.transaction_id)
        if row is None:
            return (), unknown_transaction_error(self.transaction_id)
        if row.state != "committing":
            return (), row
        # The staged objects are deleted next, so their names, perhaps many, are of no more use.
        done = msgspec.structs.replace(row, state="committed", recorded_at_ms=now_ms, places=self.places, staged=())
        return [done], done


def next_owners(before: tuple[str, ...], owner: str) -> tuple[str, ...]:
    """Return the owners of a transactional id once its next epoch is ``owner``'s; empty if that epoch has no owner."""
    if not owner:
        return ()
    others = [one for one in before if one != owner]
    return (*others[-(OWNERS_MAX - 1) :], owner)


def may_know_epoch(row: TransactionRow, epoch: int, owner: str) -> bool:
    """Return whether the owner may know of this epoch of the row's producer.

    ``owner`` is a fingerprint, or empty for nobody. An owner may know if it has the newest epoch, or had this one, which was
    fenced.
    """
    if not owner or not row.owners or owner == row.owners[-1]:
        return True
    return epoch < row.epoch and owner in row.owners


class Decide(SharedDecide[TransactionsState, Decision, Outcome]):
    """A change that commits several decisions about transactions."""

    table = SystemTable(name=NAME, schema=SCHEMA, directory="decisions")

    def judge(
        self, decisions: Sequence[Decision], state: TransactionsState, now_ms: int
    ) -> tuple[list[Outcome], TableContents | None]:
        """Return the transactions after their decisions."""
        rows: list[TransactionRow] = []
        outcomes: list[Outcome] = []
        ahead = TransactionsEdit(state)
        for decision in decisions:
            more, outcome = decision.decide(ahead, now_ms)
            for row in more:
                ahead.apply(row)
            rows += more
            outcomes.append(outcome)
        if not rows:
            return outcomes, None
        return outcomes, TableContents(
            data=encode_rows(rows), row_count=len(rows), tags={TAG_TRANSACTIONS: encode_tag(rows)}
        )


def judge_request(state: TransactionsView, stamp: ProducerStamp, now_ms: int) -> Outcome | None:
    """Return the outcome of a producer's one-request transaction if it was decided before, or its refusal; None if it is the next
    one."""
    verdict = SequenceCheck(state.requests, now_ms, limits.PRODUCER_EXPIRATION_MS).judge(stamp)
    if verdict is None:
        before = unfinished_previous_request(state, stamp)
        return None if before is None else BackOff("The request before this one is not visible everywhere yet.")
    if not isinstance(verdict, Duplicate):
        return verdict
    row = state.transactions.get(state.by_stamp.get(stamp, ""))
    return row or out_of_order_error(stamp, state.requests.expected_sequence(stamp.producer_id, stamp.epoch))


def unfinished_previous_request(state: TransactionsView, stamp: ProducerStamp) -> TransactionRow | None:
    """Return the producer's previous request if it is not finished: its records must come before those of this one."""
    before = state.by_stamp.get(stamp._replace(sequence=stamp.sequence - 1))
    row = None if before is None else state.transactions.get(before)
    return row if row is not None and not row.has_ended else None


def require_open(state: TransactionsView, transaction_id: str, now_ms: int) -> Outcome:
    """Return the row of an open transaction, or the refusal."""
    row = state.transactions.get(transaction_id)
    if row is None:
        return unknown_transaction_error(transaction_id)
    newest = state.producers.get(row.transactional_id)
    if row.state == "open" and newest is not None and newest.epoch != row.epoch:
        return not_open_error(msgspec.structs.replace(row, reason="fenced"))
    if row.state != "open" or now_ms > row.expires_at_ms:
        return not_open_error(row)
    return row


def not_open_error(row: TransactionRow) -> TidelogError:
    """Return the error for using a transaction that is not open."""
    if row.reason == "fenced":
        return RequestRefused(
            f"Transaction {row.transaction_id} is fenced: a newer epoch of {row.transactional_id!r} has begun.",
            code=ErrorCode.FENCED_PRODUCER,
        )
    why: Mapping[str, str] = {
        "expired": "its timeout passed",
        "topic": "one of its topics was deleted meanwhile",
        "offsets": "its group's offsets were refused, or a lock of its settlements had expired",
    }
    what = why.get(row.reason, f"it is {row.state}" if row.state != "open" else why["expired"])
    return RequestRefused(f"Transaction {row.transaction_id} is not open: {what}.", code=ErrorCode.TRANSACTION_NOT_OPEN)


def unknown_transaction_error(transaction_id: str) -> TidelogError:
    """Return the error for a transaction that was never begun, or is forgotten (a day after its end, or earlier if there are
    many)."""
    return RequestRefused(f"There is no transaction {transaction_id[:100]!r}.", code=ErrorCode.UNKNOWN_TRANSACTION)


def abort_row(row: TransactionRow, reason: Reason, now_ms: int) -> TransactionRow:
    """Return the row of the aborted transaction, without its records."""
    return msgspec.structs.replace(row, state="aborted", reason=reason, recorded_at_ms=now_ms)
