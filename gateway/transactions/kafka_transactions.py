"""Transactions of Kafka's clients (decision 048). The gateway keeps nothing of a transaction: any gateway serves the next call.

1. A client gets an epoch first; in an epoch its transactions follow each other. Each is a transaction like any other: staged,
   decided by one row, finished by any gateway.
2. A batch is staged under its partition, sequence and number of records. The commit puts batches in order, leaves out
   duplicates, and is refused if a batch is missing.
3. A batch that is answered as staged belongs to the transaction that was open when it was put; otherwise it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.engine.bounds import PARALLEL_PUTS_MAX
from gateway.engine.producer_ids import ProducerIds
from gateway.tasks.parallel import run_parallel
from gateway.transactions.needed_rights import Require
from gateway.transactions.transactions import Transactions
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY, fingerprint
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.topic.append import Batch
from log_format.topic.producer_id import TRANSACTIONAL, format_number, split_partition
from log_format.transactions.damaged_transactions import require_undamaged
from log_format.transactions.kafka_producers import BeginNext, InitProducer, given_up_error, row_of_epoch
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedLane, StagedRecords, incarnation_hash

NO_PRODUCER: Final = -1


class TransactionalProducer(NamedTuple):
    """The producer that a request names. ``producer_id``: the client's number. ``owner``: the principal that asks."""

    transactional_id: str
    producer_id: int
    epoch: int
    owner: str = NOBODY

    @property
    def text(self) -> str:
        """Producer id in the form of rows."""
        return format_number(self.producer_id)


class KafkaTransactions:
    """Transactions of Kafka's clients. Used on the event loop only."""

    def __init__(
        self, transactions: Transactions, finishing: FinishingParts, producer_ids: ProducerIds, *, clock: Clock
    ) -> None:
        self._transactions = transactions
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._producer_ids = producer_ids
        self._clock = clock

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, asked: TransactionalProducer | None = None, owner: str = NOBODY
    ) -> TransactionRow:
        """Begin the transactional id's next epoch, and fence older ones; return its row. ``asked``: the epoch of a client that
        raises its own.

        Raises ``RequestRefused`` (``FENCED_PRODUCER``), ``BackOff``, ``OutcomeUnknown``.
        """
        return await self._transactions.begin_epoch(
            InitProducer(
                transactional_id=transactional_id,
                new_producer_id=format_number(self._producer_ids.issue_number()),
                timeout_ms=timeout_ms,
                owner=fingerprint(owner),
                asked=None if asked is None else (asked.text, asked.epoch),
            )
        )

    async def begin(self, producer: TransactionalProducer) -> TransactionRow:
        """Return the epoch's open transaction; begin one if none is open. Raises ``RequestRefused``, ``BackOff``,
        ``OutcomeUnknown``."""
        known = self._table.state.producers.get(producer.transactional_id)
        if known is not None and _is_open(known, producer, self._clock.now_ms()):
            row = await self.newest(producer)  # Raises if the epoch is another owner's.
            if _is_open(row, producer, self._clock.now_ms()):
                return row  # Otherwise another gateway has ended it since.
        return await self._transactions.begin_epoch(
            BeginNext(
                transactional_id=producer.transactional_id,
                producer_id=producer.text,
                epoch=producer.epoch,
                transaction_id=await self._producer_ids.issue(TRANSACTIONAL, producer.owner),
                owner=fingerprint(producer.owner),
            )
        )

    async def newest(self, producer: TransactionalProducer) -> TransactionRow:
        """Return the newest row of the transactional id, which must be of this epoch. Raises ``RequestRefused``
        (``FENCED_PRODUCER``, ``UNKNOWN_PRODUCER``), ``BackOff``."""
        transactional_id, owner = producer.transactional_id, fingerprint(producer.owner)
        row = row_of_epoch(await self._table.fresh(), transactional_id, producer.text, producer.epoch, owner)
        if isinstance(row, TidelogError):
            raise row
        return row

    async def by_transactional_id(self) -> Mapping[str, TransactionRow]:
        """Return the newest row of each transactional id. Raises ``BackOff``."""
        return (await self._table.fresh()).producers

    async def newest_of(self, transactional_id: str) -> TransactionRow | None:
        """Return the newest row of a transactional id, with its places while they are remembered; None if there is none. Raises
        ``BackOff``."""
        state = await self._table.fresh()
        row = state.producers.get(transactional_id)
        return None if row is None else state.transactions.get(row.transaction_id, row)

    async def open(self, producer: TransactionalProducer) -> TransactionRow:
        """Return the epoch's open transaction. Raises what ``newest`` raises, and ``RequestRefused``
        (``TRANSACTION_NOT_OPEN``)."""
        row = await self.newest(producer)
        if _is_open(row, producer, self._clock.now_ms()):
            return row
        raise _abandoned_error(row, self._clock.now_ms()) or _none_open_error(producer)

    async def stage(
        self, producer: TransactionalProducer, batches: Sequence[tuple[str, Batch]]
    ) -> list[TidelogError | None]:
        """Stage each batch, given with its topic; the batch's stamp has its partition and sequence.

        Return an error for each batch that is not staged, or may not be, else None. Raises what ``open`` raises: then nothing
        is staged.
        """
        transaction_id = (await self.open(producer)).transaction_id

        async def put(placed: tuple[str, Batch]) -> TidelogError | None:
            try:
                await self._staging.put_lane(transaction_id, *_staged_records(*placed))
            except TidelogError as error:
                return error
            return None

        outcomes = await run_parallel(put, batches, limit=PARALLEL_PUTS_MAX)
        try:
            await self._transactions.require_open(transaction_id)
        except BackOff as problem:
            late: TidelogError = OutcomeUnknown(
                f"It is not known whether the transaction was still open: {problem.detail}"
            )
            return [outcome or late for outcome in outcomes]
        except TidelogError as refusal:
            return [refusal] * len(outcomes)
        return outcomes

    async def stage_offsets(self, producer: TransactionalProducer, offsets: StagedOffsets) -> None:
        """Make a group's offsets pending: a rebalance before the commit changes nothing. Raises what ``open`` and
        ``Transactions.stage_offsets`` raise."""
        row = await self.open(producer)
        try:
            await self._transactions.stage_offsets(row.transaction_id, offsets, judged_now=True)
        except RequestRefused as refusal:
            raise await self._why_not(producer, refusal) from refusal

    async def end(self, producer: TransactionalProducer, require: Require, *, is_committed: bool) -> None:
        """Commit or abort the epoch's transaction; repeating the call changes nothing. ``require``: as in
        ``Transactions.commit``.

        Raises what ``open`` raises, ``SEQUENCE_OUT_OF_ORDER`` if a staged batch is missing, ``Unauthorized``, and a group's
        refusal of its offsets.
        """
        row = await self.newest(producer)
        is_other = row.state == ("aborted" if is_committed else "committed")
        if is_other or row.state == "producer":
            raise _abandoned_error(row, self._clock.now_ms()) or _none_open_error(producer)
        try:
            if is_committed and row.state == "committed":
                require_undamaged(row)
            elif is_committed:
                await self._transactions.commit(row.transaction_id, require)
            elif row.state != "aborted":
                await self._transactions.abort_lanes(row)
        except RequestRefused as refusal:
            raise await self._why_not(producer, refusal) from refusal

    async def _why_not(self, producer: TransactionalProducer, refusal: RequestRefused) -> TidelogError:
        """Return the refusal, or the one that says that the transaction was given up meanwhile. Raises what ``newest`` raises."""
        if refusal.code is not ErrorCode.TRANSACTION_NOT_OPEN:
            return refusal
        return _abandoned_error(await self.newest(producer), self._clock.now_ms()) or refusal


def _none_open_error(producer: TransactionalProducer) -> RequestRefused:
    return RequestRefused(
        f"No transaction of {producer.transactional_id!r} is open.", code=ErrorCode.TRANSACTION_NOT_OPEN
    )


def _abandoned_error(row: TransactionRow, now_ms: int) -> TidelogError | None:
    """Return the refusal to go on in the row's epoch, if its transaction was aborted by the gateway, or is overdue; else None."""
    if row.state == "open" and now_ms > row.expires_at_ms:
        return given_up_error(msgspec.structs.replace(row, reason="expired"))
    return None if row.reason in ("", "asked") else given_up_error(row)


def _is_open(row: TransactionRow, producer: TransactionalProducer, now_ms: int) -> bool:
    is_of_epoch = (row.producer_id, row.epoch) == (producer.text, producer.epoch)
    return is_of_epoch and row.state == "open" and now_ms <= row.expires_at_ms


def _staged_records(topic: str, batch: Batch) -> tuple[StagedRecords, StagedLane]:
    assert batch.stamp is not None
    _, partition = split_partition(batch.stamp.producer_id)
    records = StagedRecords(topic=topic, topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)
    incarnation = incarnation_hash(batch.topic_id)
    return records, StagedLane(partition, batch.stamp.sequence, batch.record_count, incarnation)
