"""Decided transactions that lack staged objects: another program deleted or damaged them before their records were in a topic.

Such a transaction can't be finished. It stays ``committing``, its producer can't begin another one, and readers of its groups'
offsets wait. ``plan_commit_without_lost`` ends it without what is lost, if an operator asks for that (decision 091): everything
that is left is committed, and the row says how many objects were lost, so that nobody is told that all of it was committed.

Whoever finishes a transaction writes the ``committed`` row before deleting anything staged. So what is missing while the row at
the head is ``committing`` is lost.

Blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from log_format import limits
from log_format.errors import CorruptData, ObjectMissing, TidelogError
from log_format.ids import NewId
from log_format.store import ObjectStore, read_bounded
from log_format.transactions.changes import Outcome, unknown_transaction_error
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_index import (
    INDEX_BYTES_MAX,
    SUFFIX,
    IndexedBatch,
    decode_index,
    encode_index,
    is_index,
)
from log_format.transactions.staged_offsets import SUFFIX as NOTE_SUFFIX
from log_format.transactions.staged_offsets import decode_offsets
from log_format.transactions.staged_records import decode_staged, staged_key
from log_format.transactions.staged_settlements import decode_settlements, is_settlements
from log_format.transactions.state import TransactionsState, TransactionsView

ADVICE: Final = (
    "Restore its objects from a backup, or end it without the lost objects: "
    "tidelog doctor --store STORE --repair system/transactions"
)
LEFT_ALONE_MS: Final = 60_000
"""Age in ms below which a decision is left to the process that made it."""


class TransactionDamaged(TidelogError):
    """Error: the transaction was committed without objects that another program had deleted. A retry gets the same answer."""

    def __init__(self, row: TransactionRow) -> None:
        super().__init__(
            f"Transaction {row.transaction_id} was committed without {row.lost} of its staged objects, which another program had "
            "deleted or damaged: what they held may be missing.",
            retryable=False,
        )


def require_undamaged(row: TransactionRow) -> TransactionRow:
    """Return the row if nothing of the transaction is lost. Raises ``TransactionDamaged``."""
    if row.lost:
        raise TransactionDamaged(row)
    return row


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWithoutLost:
    """A decision to continue with what is left of a decided transaction. ``seen_row``: its row when the objects were
    looked for."""

    seen_row: TransactionRow
    staged: tuple[str, ...]
    """Names of the staged objects that still exist."""
    lost: int
    """Number of lost objects."""

    def decide(self, state: TransactionsView, now_ms: int) -> tuple[Sequence[TransactionRow], Outcome]:
        """Return the row in state ``committing``, with fewer objects; a row that has changed meanwhile stays as it is."""
        row = state.transactions.get(self.seen_row.transaction_id)
        if row is None:
            return (), unknown_transaction_error(self.seen_row.transaction_id)
        if row != self.seen_row:
            return (), row
        left = msgspec.structs.replace(row, staged=self.staged, lost=row.lost + self.lost, recorded_at_ms=now_ms)
        return [left], left


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedTransaction:
    """A decided transaction that lacks objects. ``lost``: their keys. ``left``: the names that its decision keeps."""

    row: TransactionRow
    lost: tuple[str, ...]
    left: tuple[str, ...]
    indexed: Mapping[str, Sequence[IndexedBatch]] = field(default_factory=dict)
    """Name of each index with lost batches -> the batches that are left."""


def find_damaged(store: ObjectStore, state: TransactionsState, now_ms: int) -> Iterator[DamagedTransaction]:
    """Yield the transactions that lack objects, among the decisions older than ``LEFT_ALONE_MS``. Reads everything that they
    staged.

    Raises ``StoreUnavailable``.
    """
    for row in state.transactions.values():
        if row.state == "committing" and now_ms - row.recorded_at_ms > LEFT_ALONE_MS:
            found = _find_lost(store, row)
            if found.lost:
                yield found


def plan_commit_without_lost(store: ObjectStore, found: DamagedTransaction, new_id: NewId) -> CommitWithoutLost:
    """Return the decision that continues without what is lost, putting the indexes that it names. Raises ``StoreUnavailable``."""
    left: list[str] = []
    for name in found.left:
        if name not in found.indexed:
            left.append(name)
        elif found.indexed[name]:
            left.append(f"{new_id()}{SUFFIX}")
            rows = [(batch.name, batch.size_bytes) for batch in found.indexed[name]]
            store.put(staged_key(found.row.transaction_id, left[-1]), encode_index(rows))
    return CommitWithoutLost(seen_row=found.row, staged=tuple(left), lost=len(found.lost))


def _find_lost(store: ObjectStore, row: TransactionRow) -> DamagedTransaction:
    lost: list[str] = []
    left: list[str] = []
    indexed: dict[str, Sequence[IndexedBatch]] = {}

    def is_whole(name: str) -> bool:
        key = staged_key(row.transaction_id, name)
        try:
            _decode(store, key)
        except (ObjectMissing, CorruptData):
            lost.append(key)
            return False
        return True

    for name in row.staged:
        if not is_whole(name):
            continue
        left.append(name)
        if is_index(name):
            key = staged_key(row.transaction_id, name)
            batches = decode_index(read_bounded(store, key, INDEX_BYTES_MAX), key)
            kept = [batch for batch in batches if is_whole(batch.name)]
            if len(kept) < len(batches):
                indexed[name] = kept
    return DamagedTransaction(row=row, lost=tuple(lost), left=tuple(left), indexed=indexed)


def _decode(store: ObjectStore, key: str) -> None:
    """Raise ``ObjectMissing``, ``CorruptData`` if the object is not what a decision names; ``StoreUnavailable``."""
    if is_index(key):
        decode_index(read_bounded(store, key, INDEX_BYTES_MAX), key)
        return
    data = read_bounded(store, key, limits.JOB_TOPIC_BYTES_MAX)
    if not key.endswith(NOTE_SUFFIX):
        decode_staged(data, key)
    elif is_settlements(data):
        decode_settlements(data, key)
    else:
        decode_offsets(data, key)
