"""Decides and finishes transactions, for programs other than the gateway: Spark's jobs, maintenance.

1. A decided transaction is applied topic by topic, with one topic's records in memory at a time. Then its last row names the
   places, and then the staged objects are deleted. Repeating it changes nothing, in any process
   (``log_format.topic.applied_transactions``).
2. When a call raises after the decision, the same job, a gateway or maintenance finishes the transaction later.
3. Only gateways commit offsets of groups: a transaction with some is not finished here.

These programs compact ``system/transactions`` only where no gateway does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from log_format import limits
from log_format.bounded_read import read_bounded
from log_format.checkpoints.checkpoint import hinted_checkpoint, is_due, write_table_checkpoint
from log_format.checkpoints.topic_log import TopicLog
from log_format.clock import Clock
from log_format.delta.committer import Committer
from log_format.delta.log import Map, TableLog
from log_format.errors import (
    BackOff,
    CorruptData,
    ErrorCode,
    ObjectMissing,
    OutcomeUnknown,
    StoreUnavailable,
    TidelogError,
    TopicReplaced,
    UnknownTopic,
)
from log_format.ids import NewId
from log_format.store import ObjectStore
from log_format.topic.append import Append
from log_format.topic.appended import Duplicate
from log_format.topic.applied_transactions import TransactionEnded
from log_format.transactions.batch import transaction_batch
from log_format.transactions.changes import Decide, Decision, Finish
from log_format.transactions.compaction import Compact
from log_format.transactions.row import Place, TransactionRow
from log_format.transactions.staged_offsets import SUFFIX
from log_format.transactions.staged_records import StagedRecords, decode_staged, parse_names, staged_key, staged_prefix
from log_format.transactions.state import TransactionsState, transactions_table

ATTEMPTS_MAX: Final = 5
"""Tries of a commit while the store refuses it or leaves its outcome unknown."""
PAUSE_MS: Final = 500
"""The first pause between two tries; each next one is longer by as much."""
FILES_MIN: Final = 400
"""Live data files of the table that are rewritten into one. Gateways, where there are any, do so at half as many."""

ResultT = TypeVar("ResultT")


class TransactionFinishing:
    """For one thread at a time. ``log_of``: a topic's log. ``engine``: the program's name in the table's history."""

    def __init__(
        self,
        store: ObjectStore,
        clock: Clock,
        *,
        new_id: NewId,
        log_of: Callable[[str], TopicLog],
        engine: str,
        fetch_all: Map = map,
    ) -> None:
        self.log: TableLog[TransactionsState] = TableLog(store, transactions_table(), clock, fetch_all=fetch_all)
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._log_of = log_of
        self._engine = engine
        self._committer = Committer(self.log, new_id=new_id, engine=engine)

    def decide(self, decision: Decision) -> TransactionRow:
        """The current row once the decision is in the store.

        Raises the decision's refusal; ``BackOff`` (nothing happened), ``OutcomeUnknown``, ``CorruptData``. The same decision
        again has the same outcome.
        """
        (outcome,) = self._tried(lambda: self._committer.commit(Decide([decision], self._new_id)).result)
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    def finish(self, row: TransactionRow) -> TransactionRow:
        """The row of the finished transaction, all of it visible. One that is undecided, or has ended, is returned unchanged.

        Raises ``BackOff``, ``OutcomeUnknown``, ``CorruptData``: it is not finished then.
        """
        if row.state != "committing":
            return row
        if any(name.endswith(SUFFIX) for name in row.staged):
            raise BackOff(f"Transaction {row.transaction_id} has offsets of a group: a gateway brings it to its end.")
        try:
            places = [place for names in _by_topic(row.staged) for place in self._applied(row, names)]
            done = self._recorded(row, sorted(places, key=lambda place: (place.topic, place.partition)))
        except (CorruptData, TransactionEnded):
            # Another process may have finished it meanwhile, and deleted the staged objects.
            newer = self._fresh().transactions.get(row.transaction_id)
            if newer is not None and newer.state != "committed":
                raise
            return newer if newer is not None else msgspec.structs.replace(row, state="committed", staged=())
        self.delete_staged(row.transaction_id)
        return done

    def delete_staged(self, transaction_id: str) -> None:
        """Delete the transaction's staged objects, best effort: maintenance collects what is left."""
        try:
            for info in list(self._store.list(staged_prefix(transaction_id))):
                self._store.delete(info.key)
        except StoreUnavailable:
            return

    def keep_small(self) -> None:
        """Rewrite the table and write its checkpoint when due. Raises ``TidelogError``, ``StoreUnavailable``."""
        if len(self.log.state.files) >= FILES_MIN:
            self._committer.commit(Compact(self._new_id, files_min=FILES_MIN))
        version, root = self.log.state.version, self.log.table.root
        if is_due(version, None, 0) and is_due(version, hinted_checkpoint(self._store, root), 0):
            write_table_checkpoint(self._store, root, version, self._clock.now_ms())

    def _applied(self, row: TransactionRow, names: Sequence[str]) -> list[Place]:
        """The places of the records in the topic; none when the topic was deleted since the decision."""
        requests = [request for name in names if (request := self._read(row, name)).records.num_rows]
        if not requests:
            return []
        topic = requests[0].topic
        batch = transaction_batch(row, requests, self.log.state.floor, self._clock.now_ms())
        committer = Committer(self._log_of(topic), new_id=self._new_id, engine=self._engine)
        append = Append([batch], self._new_id)
        (outcome,) = self._tried(lambda: committer.commit(append).result)
        if isinstance(outcome, UnknownTopic | TopicReplaced):
            return []
        if isinstance(outcome, TidelogError):
            raise outcome
        appended = outcome.places if isinstance(outcome, Duplicate) else outcome
        return [Place(topic, place.partition, place.base_offset, place.count) for place in appended]

    def _recorded(self, row: TransactionRow, places: Sequence[Place]) -> TransactionRow:
        try:
            return self.decide(Finish(transaction_id=row.transaction_id, places=tuple(places)))
        except TidelogError as error:
            if error.code is not ErrorCode.UNKNOWN_TRANSACTION:
                raise
            # Another process finished it, and it is already forgotten; the places are the same for all.
            return msgspec.structs.replace(row, state="committed", places=tuple(places), staged=())

    def _read(self, row: TransactionRow, name: str) -> StagedRecords:
        key = staged_key(row.transaction_id, name)
        try:
            return decode_staged(read_bounded(self._store, key, limits.JOB_TOPIC_BYTES_MAX), key)
        except ObjectMissing as problem:
            raise CorruptData(f"The staged records {key} are missing.", object=key) from problem
        except StoreUnavailable as problem:
            raise BackOff(f"The store does not serve staged records: {problem.detail}.") from problem

    def _fresh(self) -> TransactionsState:
        try:
            return self.log.refresh()
        except StoreUnavailable as problem:
            raise BackOff(f"The store did not show {self.log.table.label}: {problem.detail}.") from problem

    def _tried(self, commit: Callable[[], ResultT]) -> ResultT:
        """The result of ``commit``, tried again on failure: the same commit is in the log once, whatever earlier tries did."""
        for attempt in range(1, ATTEMPTS_MAX):
            try:
                return commit()
            except (BackOff, OutcomeUnknown):
                self._clock.sleep_ms(PAUSE_MS * attempt)
        return commit()


def _by_topic(names: Sequence[str]) -> Iterator[list[str]]:
    """The names of each topic's staged objects, in order."""
    topics: dict[str, list[str]] = {}
    for name in names:
        for staged in parse_names((name,)):
            topics.setdefault(staged.topic_hash, []).append(name)
    yield from topics.values()
