"""The state of ``system/transactions`` at one version: each transaction's state, and each transactional id's epoch.

1. For a transaction only its newest row counts; for a transactional id only the row with its newest epoch.
2. Forgetting follows from the log alone, by the newest row's own time. A decided, unfinished transaction is never forgotten.
3. The state follows from the live ``add`` actions in the order of their times. A rewrite (``dataChange`` false) only changes
   which files are live.
4. Ended transactions are forgotten early while all rows take more than ``TRANSACTIONS_BYTES_MAX``; the bytes are counted with
   each row. Unfinished ones and transactional ids are not. By ``memory`` a caller decides when to refuse more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Self

import msgspec

from log_format import layout, limits
from log_format.checkpoints.system_table import system_table
from log_format.delta.actions import Add
from log_format.delta.system_table import SystemTableState, decode_add_tag
from log_format.delta.table import Table
from log_format.topic.producer_id import JOB, kind_of
from log_format.topic.producers import NO_PRODUCERS, Producers, ProducerStamp, StampedBatch, decode_producers
from log_format.transactions.row import NO_NUMBER, TAG_TRANSACTIONS, TransactionRow, decode_tag

NAME: Final = "system/transactions"
TAG_REQUESTS: Final = "tidelog.requests"
"""Tag of a compacted file's ``add``: the sequences of producers, which the rows alone don't have."""


def _nothing() -> Mapping[str, TransactionRow]:
    return MappingProxyType({})


class TransactionsMemory(NamedTuple):
    """Estimated bytes that rows take."""

    all_bytes: int = 0
    """Bytes of all transactions."""
    lasting_bytes: int = 0
    """Bytes of the transactions that have not ended."""
    ids_bytes: int = 0
    """Bytes of transactional ids."""

    def with_row(self, row: TransactionRow, sign: Literal[1, -1] = 1) -> TransactionsMemory:
        """Return the memory with a transaction's row added, or removed (-1)."""
        size = row_bytes(row) * sign
        lasting = 0 if row.has_ended else size
        return self._replace(all_bytes=self.all_bytes + size, lasting_bytes=self.lasting_bytes + lasting)


def row_bytes(row: TransactionRow) -> int:
    """Return a row's estimated memory in bytes: measured on CPython 3.11, rounded up."""
    lists = STAGED_BYTES * len(row.staged) + _PLACE_BYTES * len(row.places)
    lists += sum(_PLACE_BYTES + _LANE_BYTES * len(lanes) for _, lanes in row.lanes)
    return ROW_BYTES + lists + _OWNER_BYTES * len(row.owners)


ROW_BYTES: Final = 768
STAGED_BYTES: Final = 128
_PLACE_BYTES: Final = 216
_OWNER_BYTES: Final = 80
_LANE_BYTES: Final = 136
ID_BYTES: Final = 800
"""Memory in bytes of a transactional id with its row, which has no lists: the id may be 255 bytes long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsState(SystemTableState):
    """All transactions at one version. Immutable. ``transactions`` and ``producers`` have the longest unchanged first."""

    transactions: Mapping[str, TransactionRow] = field(default_factory=_nothing)
    """Rows by transaction id."""
    producers: Mapping[str, TransactionRow] = field(default_factory=_nothing)
    """Rows by transactional id, each of its newest epoch."""
    requests: Producers = NO_PRODUCERS
    """Sequences of producers whose requests are transactions of their own; the rows have the places."""
    by_stamp: Mapping[ProducerStamp, str] = field(default_factory=lambda: MappingProxyType({}))
    """Request -> id of that transaction, while it is remembered."""
    unfinished: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Transactions that are decided but not applied to all of their topics -> version of the decision."""
    passing: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Committed transactions that no client can ask for by id or sequence -> time; they are forgotten soon."""
    memory: TransactionsMemory = field(default=TransactionsMemory(), compare=False)

    @property
    def floor(self) -> int:
        """Version below which every decided transaction has ended."""
        return min(self.unfinished.values(), default=self.version + 1)

    def with_adds(self, adds: Iterable[Add]) -> Self:
        """Return the state after these ``add``. Compacted files also have the sequences of producers. Raises ``CorruptData``."""
        state = self
        for add in adds:
            tags = add.tags or {}
            state = state.with_rows(decode_add_tag(NAME, add.path, tags, TAG_TRANSACTIONS, decode_tag))
            if TAG_REQUESTS in tags:
                state = replace(state, requests=decode_add_tag(NAME, add.path, tags, TAG_REQUESTS, _requests))
        return state

    def with_rows(self, rows: Iterable[TransactionRow]) -> Self:
        """Return the state after these rows, without what is too old; version and files stay."""
        edit = TransactionsEdit(self)
        newest_ms = 0
        for row in rows:
            newest_ms = max(newest_ms, row.recorded_at_ms)
            edit.apply(row)
        edit.forget(newest_ms)
        return replace(
            self,
            transactions=MappingProxyType(edit.transactions),
            producers=MappingProxyType(edit.producers),
            requests=edit.requests,
            by_stamp=MappingProxyType(edit.by_stamp),
            unfinished=MappingProxyType(edit.unfinished),
            passing=MappingProxyType(edit.passing),
            memory=edit.memory,
        )


class TransactionsEdit:
    """A change to the state in progress, row by row, at the cost of one copy."""

    def __init__(self, state: TransactionsState) -> None:
        self.version = state.version
        self.transactions, self.producers = dict(state.transactions), dict(state.producers)
        self.requests, self.by_stamp = state.requests, dict(state.by_stamp)
        self.unfinished, self.passing = dict(state.unfinished), dict(state.passing)
        self.memory = state.memory

    def apply(self, row: TransactionRow) -> None:
        """Put the row in place of the one that it replaces."""
        if row.transaction_id:
            before = self.transactions.pop(row.transaction_id, None)
            if before is not None:
                self.memory = self.memory.with_row(before, -1)
            self.transactions[row.transaction_id] = row
            self.memory = self.memory.with_row(row)
            self.unfinished.pop(row.transaction_id, None)
        if row.state == "committing":
            self.unfinished[row.transaction_id] = row.decided_version
        if not row.transactional_id:
            self._take_request(row)
            return
        if row.state == "committed" and kind_of(row.transaction_id) == JOB:
            self.passing[row.transaction_id] = row.recorded_at_ms  # the transactional id's row has the number
        known = self.producers.get(row.transactional_id)
        if known is not None and known.lanes and known.transaction_id not in ("", row.transaction_id):
            self._drop_lanes(known.transaction_id)
        if known is None or row.epoch >= known.epoch or row.producer_id != known.producer_id:
            self.producers.pop(row.transactional_id, None)
            # An ended transaction's lists would stay for days.
            brief = msgspec.structs.replace(row, staged=(), places=()) if row.has_ended and row.places else row
            self.producers[row.transactional_id] = brief
            self.memory = self.memory._replace(ids_bytes=ID_BYTES * len(self.producers))

    def _drop_lanes(self, transaction_id: str) -> None:
        """Drop the lanes of a transaction after the transactional id's next one, whose row has them."""
        before = self.transactions.get(transaction_id)
        if before is not None:
            self.memory = self.memory.with_row(before, -1)
            self.transactions[transaction_id] = msgspec.structs.replace(before, lanes=())
            self.memory = self.memory.with_row(self.transactions[transaction_id])

    def forget(self, now_ms: int) -> None:
        """Drop what no client can ask for any more."""
        for transaction_id, ended_ms in list(self.passing.items()):
            if ended_ms >= now_ms - limits.TRANSACTION_PASSING_MS:
                break
            del self.passing[transaction_id]
            passed = self.transactions.pop(transaction_id, None)
            if passed is not None:
                self.memory = self.memory.with_row(passed, -1)
        since_ms = now_ms - limits.TRANSACTION_REMEMBERED_MS
        surplus_bytes = self.memory.all_bytes - limits.TRANSACTIONS_BYTES_MAX
        for row in _forget(self.transactions, since_ms, limits.TRANSACTIONS_REMEMBERED_MAX, surplus_bytes):
            self.memory = self.memory.with_row(row, -1)
            self.passing.pop(row.transaction_id, None)
            if row.stamp is not None:
                self.by_stamp.pop(row.stamp, None)
        self._forget_ids(now_ms)

    def _forget_ids(self, now_ms: int) -> None:
        """Drop old transactional ids. Numbered ones stay longer, since a query recognizes its committed batch by the number."""
        since_ms = now_ms - limits.TRANSACTIONAL_ID_REMEMBERED_MS
        numbered_since_ms = now_ms - limits.NUMBERED_ID_REMEMBERED_MS
        forgotten: list[str] = []
        kept: list[str] = []
        for transactional_id, row in self.producers.items():
            if row.recorded_at_ms >= since_ms:
                break
            is_kept = row.committed_number != NO_NUMBER and row.recorded_at_ms >= numbered_since_ms
            (kept if is_kept else forgotten).append(transactional_id)
        for transactional_id in [*forgotten, *kept[: max(0, len(kept) - limits.NUMBERED_IDS_MAX)]]:
            del self.producers[transactional_id]
        self.memory = self.memory._replace(ids_bytes=ID_BYTES * len(self.producers))

    def _take_request(self, row: TransactionRow) -> None:
        stamp = row.stamp
        if stamp is None:
            if row.state == "committed" and kind_of(row.transaction_id) != JOB:
                self.passing[row.transaction_id] = row.recorded_at_ms
        elif stamp not in self.by_stamp:
            self.by_stamp[stamp] = row.transaction_id
            batch = StampedBatch(stamp, ())
            self.requests = self.requests.with_batches([batch], row.recorded_at_ms, limits.PRODUCER_EXPIRATION_MS)
            before = stamp._replace(sequence=stamp.sequence - limits.PRODUCER_REQUESTS_REMEMBERED)
            ended = self.by_stamp.pop(before, None)
            if ended is not None:
                self.passing[ended] = row.recorded_at_ms


TransactionsView = TransactionsState | TransactionsEdit
"""State at which a decision is judged. An edit is valid until the next change."""


def transactions_table() -> Table[TransactionsState]:
    """Return the description of the table."""
    return system_table(layout.TRANSACTIONS_ROOT, "the transactions", TransactionsState)


def _requests(tag: str) -> Producers:
    return decode_producers(tag.encode())


def _forget(
    rows: dict[str, TransactionRow], before_ms: int, count_max: int, surplus_bytes: int
) -> list[TransactionRow]:
    """Remove ended rows from the beginning while they are too old, too many, or take too many bytes; return the removed rows.

    Rows that have not ended move to the end.
    """
    forgotten: list[TransactionRow] = []
    kept: dict[str, TransactionRow] = {}
    while rows:
        name, row = next(iter(rows.items()))
        if row.recorded_at_ms >= before_ms and len(rows) + len(kept) <= count_max and surplus_bytes <= 0:
            break
        del rows[name]
        if row.has_ended:
            forgotten.append(row)
            surplus_bytes -= row_bytes(row)
        else:
            kept[name] = row
    rows.update(kept)
    return forgotten
