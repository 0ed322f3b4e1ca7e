"""Deciding and finishing transactions in programs other than the gateway: Spark's jobs, maintenance. All calls block.

1. The rules are those of ``finishing``; one topic's records are in memory at a time.
2. If a call raises after the decision, the same job, a gateway or maintenance finishes the transaction later.
3. Only gateways commit offsets of groups, and the batches in an index: a transaction with these is not finished here.

These programs compact ``system/transactions`` only if no gateway does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from log_format import limits
from log_format.checkpoints.checkpoint import is_checkpoint_due, write_table_checkpoint
from log_format.checkpoints.journal_log import JournalLogs
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.checkpoint_hint import read_hinted_version
from log_format.delta.committer import Committer
from log_format.delta.log import Map, TableLog
from log_format.errors import BackOff, CorruptData, ObjectMissing, OutcomeUnknown, StoreUnavailable, TidelogError
from log_format.ids import NewId
from log_format.journal.reader import JournalReader
from log_format.journal.topic_writer import TopicWriter
from log_format.store import ObjectStore, read_bounded
from log_format.topic.append import TypeRecords
from log_format.topic.append_outcome import AppendedRange, Duplicate
from log_format.transactions.changes import Decide, Decision, FinishTransaction
from log_format.transactions.compaction import Compact
from log_format.transactions.delayed import file_delayed
from log_format.transactions.finishing import finish, staged_offset_names, transaction_batch
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_index import is_index
from log_format.transactions.staged_records import StagedRecords, decode_staged, staged_key, staged_prefix
from log_format.transactions.state import TransactionsState, transactions_table

ATTEMPTS_MAX: Final = 5
"""Most tries of a commit while the store refuses it or leaves its outcome unknown."""
PAUSE_MS: Final = 500
"""First pause between two tries; each next one is longer by as much."""
FILES_MIN: Final = 400
"""Number of live data files from which the table is compacted. Gateways, if there are any, do so at half as many."""
JOURNAL_CACHE_BYTES: Final = 32 * 1024 * 1024
"""Cache of journals' decoded objects in bytes: used only if a large transaction drains its topic."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


class TransactionFinisher:
    """A decider and finisher of transactions. For one thread at a time.

    ``log_of``: returns a topic's log. ``engine``: the program's name in the table's history. ``type_records``: gives records of
    typed topics their columns; None: they are marked as not judged.
    """

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        new_id: NewId,
        log_of: Callable[[str], TopicLog],
        engine: str,
        fetch_all: Map = map,
        type_records: TypeRecords | None = None,
    ) -> None:
        self.log: TableLog[TransactionsState] = TableLog(store, transactions_table(), clock, fetch_all=fetch_all)
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._log_of = log_of
        self._topics = TopicWriter(
            JournalLogs(store, clock, fetch_all=fetch_all).get,
            JournalReader(store, cache_bytes=JOURNAL_CACHE_BYTES),
            new_id=new_id,
            engine=engine,
            type_records=type_records,
        )
        self._committer = Committer(self.log, new_id=new_id, engine=engine)

    def decide(self, decision: Decision) -> TransactionRow:
        """Make the decision, and return the current row once it is in the store. Idempotent.

        Raises the decision's refusal; ``BackOff`` (nothing happened), ``OutcomeUnknown``, ``CorruptData``.
        """
        (outcome,) = self._retry(lambda: self._committer.commit(Decide([decision], self._new_id)).result)
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    def finish(self, row: TransactionRow) -> TransactionRow:
        """Finish the transaction, and return its row once all of it is visible. One that is undecided, or has ended, stays
        unchanged.

        Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``: then it is not finished.
        """
        if row.state == "committing" and (staged_offset_names(row) or any(map(is_index, row.staged))):
            what = "is large, or has offsets of a group"
            raise BackOff(f"Transaction {row.transaction_id} {what}: a gateway brings it to its end.")
        return _run_synchronously(finish(row, self))

    def delete_staged(self, transaction_id: str) -> None:
        """Delete the transaction's staged objects, best effort: maintenance collects what is left."""
        try:
            for info in list(self._store.list(staged_prefix(transaction_id))):
                self._store.delete(info.key)
        except StoreUnavailable:
            return

    def keep_small(self) -> None:
        """Compact the table and write its checkpoint when due. Raises ``TidelogError``, ``StoreUnavailable``."""
        if len(self.log.state.files) >= FILES_MIN:
            self._committer.commit(Compact(self._new_id, files_min=FILES_MIN))
        version, root = self.log.state.version, self.log.table.root
        if is_checkpoint_due(version, None, 0) and is_checkpoint_due(
            version, read_hinted_version(self._store, root), 0
        ):
            write_table_checkpoint(self._store, root, version, self._clock.now_ms())

    # ``Means``: none of these coroutines waits

    async def each(self, work: Callable[[ItemT], Awaitable[ResultT]], items: Sequence[ItemT]) -> list[ResultT]:
        """Do the work for one item after another."""
        return [await work(item) for item in items]

    async def records(self, row: TransactionRow, names: Sequence[str]) -> Sequence[StagedRecords]:
        """Return the staged records, as ``Means.records`` specifies."""
        return [self._read(staged_key(row.transaction_id, name)) for name in names]

    async def append(
        self, row: TransactionRow, requests: Sequence[StagedRecords]
    ) -> Sequence[AppendedRange] | Duplicate:
        """Append one topic's records, as ``Means.append`` specifies."""
        requests = self._retry(lambda: self._without_delayed(row, requests))
        if not requests:
            return ()
        batch = transaction_batch(row, requests, self.log.state.floor, self._clock.now_ms())
        outcome = self._retry(lambda: self._topics.append(self._log_of(requests[0].topic), batch))
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    def _without_delayed(self, row: TransactionRow, requests: Sequence[StagedRecords]) -> Sequence[StagedRecords]:
        if all(request.deliver_at is None for request in requests):
            return requests
        name = requests[0].topic
        try:
            known_version = self._log_of(name).refresh().version
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show topic {name!r}: {problem.detail}.") from problem
        return file_delayed(row, requests, self._store, self._clock, self._new_id, known_version=known_version)

    async def append_indexed(self, row: TransactionRow, name: str) -> Sequence[Place]:
        """Never called, since ``finish`` refuses a transaction with an index."""
        raise AssertionError((row.transaction_id, name))

    async def settle(self, row: TransactionRow, names: Sequence[str]) -> None:
        """Never called, since ``finish`` refuses a transaction with offsets."""
        raise AssertionError((row.transaction_id, names))

    async def record(self, last: FinishTransaction) -> TransactionRow:
        """Write that the transaction has ended, as ``Means.record`` specifies."""
        return self.decide(last)

    async def newest(self, transaction_id: str) -> TransactionRow | None:
        """Return the row at the table's head, as ``Means.newest`` specifies."""
        try:
            return self.log.refresh().transactions.get(transaction_id)
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show {self.log.table.label}: {problem.detail}.") from problem

    async def clean(self, transaction_id: str) -> None:
        """Delete the staged objects, as ``Means.clean`` specifies."""
        self.delete_staged(transaction_id)

    def _read(self, key: str) -> StagedRecords:
        try:
            return decode_staged(read_bounded(self._store, key, limits.JOB_TOPIC_BYTES_MAX), key)
        except ObjectMissing as problem:
            raise CorruptData(f"The staged records {key} are missing.", object=key) from problem
        except StoreUnavailable as problem:
            raise BackOff(f"The store does not serve staged records: {problem.detail}.") from problem

    def _retry(self, commit: Callable[[], ResultT]) -> ResultT:
        """Return the result of ``commit``, with retries, which are safe: the same commit is in the log once, whatever earlier
        tries did."""
        for attempt in range(1, ATTEMPTS_MAX):
            try:
                return commit()
            except (BackOff, OutcomeUnknown):
                self._clock.sleep_ms(PAUSE_MS * attempt)
        return commit()


def _run_synchronously(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run work that never waits, and return its result."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: ResultT = ended.value
        return result
    raise AssertionError("it waits")
