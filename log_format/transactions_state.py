"""The state of ``system/transactions`` at one version: what became of each transaction, and each transactional id's epoch.

1. Of a transaction only its newest row counts, of a transactional id only the row with its newest epoch.
2. Forgetting follows from the log alone: by the newest row's own time, so that every gateway forgets the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Self

import pyarrow.compute as pc

from log_format import layout, limits
from log_format.checkpoint import decode_checkpoint
from log_format.delta import Commit
from log_format.errors import CorruptData
from log_format.producers import NO_PRODUCERS, Producers, ProducerStamp, StampedBatch
from log_format.table import NO_LOG, Table
from log_format.transaction_row import TAG_TRANSACTIONS, TransactionRow, decode_tag

NAME: Final = "system/transactions"


def _nothing() -> Mapping[str, TransactionRow]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsState:
    """Immutable. Both mappings have the longest unchanged first."""

    version: int = NO_LOG
    transactions: Mapping[str, TransactionRow] = field(default_factory=_nothing)
    """By transaction id."""
    producers: Mapping[str, TransactionRow] = field(default_factory=_nothing)
    """By transactional id: a row of its newest epoch."""
    requests: Producers = NO_PRODUCERS
    """The sequences of producers whose requests are transactions of their own; where their records are is in the rows."""
    by_stamp: Mapping[ProducerStamp, str] = field(default_factory=lambda: MappingProxyType({}))
    """The transactions that those are, as long as they are remembered."""
    unfinished: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Transactions that are decided and not in all of their topics, with the versions at which they were decided."""
    modification_time_ms: int = 0

    @property
    def floor(self) -> int:
        """Every transaction that was decided below this version has ended."""
        return min(self.unfinished.values(), default=self.version + 1)

    def apply(self, commit: Commit, version: int) -> Self:
        """The state after the next commit. Raises ``CorruptData``."""
        if version != self.version + 1:
            raise ValueError(f"commit {version} does not follow version {self.version}")
        rows = [row for add in commit.adds if add.data_change for row in _rows(add.path, (add.tags or {}))]
        newest_ms = max([self.modification_time_ms, *(add.modification_time for add in commit.adds)])
        return replace(self.with_rows(rows), version=version, modification_time_ms=newest_ms)

    def with_rows(self, rows: Iterable[TransactionRow]) -> Self:
        """The state after these rows, what is too old forgotten."""
        transactions, producers = dict(self.transactions), dict(self.producers)
        requests, by_stamp, unfinished = self.requests, dict(self.by_stamp), dict(self.unfinished)
        newest_ms = 0
        for row in rows:
            newest_ms = max(newest_ms, row.recorded_at_ms)
            if row.transaction_id:
                transactions.pop(row.transaction_id, None)
                transactions[row.transaction_id] = row
                unfinished.pop(row.transaction_id, None)
            if row.state == "committing":
                unfinished[row.transaction_id] = row.decided_version
            if not row.transactional_id:
                stamp = row.stamp
                if stamp is not None and stamp not in by_stamp:
                    by_stamp[stamp] = row.transaction_id
                    batch = StampedBatch(stamp, ())
                    requests = requests.with_batches([batch], row.recorded_at_ms, limits.PRODUCER_EXPIRATION_MS)
                continue
            known = producers.get(row.transactional_id)
            if known is None or row.epoch >= known.epoch or row.producer_id != known.producer_id:
                producers.pop(row.transactional_id, None)
                producers[row.transactional_id] = row
        for row in _forget(transactions, newest_ms - limits.TRANSACTION_REMEMBERED_MS, ended_only=True):
            if row.stamp is not None:
                by_stamp.pop(row.stamp, None)
        _forget(producers, newest_ms - limits.TRANSACTIONAL_ID_REMEMBERED_MS, ended_only=False)
        return replace(
            self,
            transactions=MappingProxyType(transactions),
            producers=MappingProxyType(producers),
            requests=requests,
            by_stamp=MappingProxyType(by_stamp),
            unfinished=MappingProxyType(unfinished),
        )


def transactions_table() -> Table[TransactionsState]:
    """Where the table lies and how it is read."""
    return Table(
        root=layout.TRANSACTIONS_ROOT,
        label="the transactions",
        fields={},
        absent=TransactionsState,
        read_checkpoint=_read_checkpoint,
    )


def _read_checkpoint(data: bytes, version: int) -> TransactionsState:
    adds = decode_checkpoint(data, layout.TRANSACTIONS_ROOT, version).column("add").combine_chunks().drop_null()
    times = pc.struct_field(adds, "modificationTime")
    state = TransactionsState()
    order = pc.sort_indices(times) if len(adds) else []
    for add in adds.take(order).to_pylist() if len(adds) else []:
        state = state.with_rows(_rows(add["path"], dict(add["tags"] or ())))
    return replace(state, version=version, modification_time_ms=(pc.max(times).as_py() or 0) if len(adds) else 0)


def _rows(path: str, tags: Mapping[str, str | None]) -> list[TransactionRow]:
    tag = tags.get(TAG_TRANSACTIONS)
    try:
        if tag is None:
            raise ValueError(f"it has no tag {TAG_TRANSACTIONS}")
        return decode_tag(tag)
    except ValueError as problem:
        raise CorruptData(f"The entry for {path} of {NAME} can't be used: {problem}.", object=path) from problem


def _forget(rows: dict[str, TransactionRow], before_ms: int, *, ended_only: bool) -> list[TransactionRow]:
    """Take out the rows at the beginning that are older; what was taken out."""
    forgotten: list[TransactionRow] = []
    while rows:
        name, row = next(iter(rows.items()))
        if row.recorded_at_ms >= before_ms or (ended_only and not row.has_ended):
            break
        forgotten.append(rows.pop(name))
    return forgotten
