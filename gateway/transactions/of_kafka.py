"""Transactions of Kafka's clients (decision 048). The gateway keeps nothing of one: any gateway serves the next call.

1. A client gets an epoch first; its transactions follow each other in it. Each is a transaction like any other: staged, decided
   by one row, brought to its end by any gateway.
2. A batch is staged under its partition, sequence and number of records. The commit puts batches in order, leaves out what came
   twice, and refuses where one is missing.
3. What is answered as staged is staged for the transaction that was open when its batch was put, or was refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from gateway.engine.bounds import PUTS_AT_ONCE
from gateway.engine.producer_ids import ProducerIds
from gateway.finishing.finishing import Finishing
from gateway.side_by_side import side_by_side
from gateway.transactions.needed import Require
from gateway.transactions.transactions import Transactions
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY, fingerprint
from log_format.errors import BackOff, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.topic.append import Batch
from log_format.topic.producer_id import TRANSACTIONAL, numbered, parted
from log_format.transactions.lost import whole
from log_format.transactions.of_kafka import BeginNext, InitProducer, given_up, of_epoch
from log_format.transactions.row import TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedLane, StagedRecords, incarnation_hash

NO_PRODUCER: Final = -1


class Producing(NamedTuple):
    """The producer that a request names. ``producer_id``: the client's number. ``owner``: the principal that asks."""

    transactional_id: str
    producer_id: int
    epoch: int
    owner: str = NOBODY

    @property
    def text(self) -> str:
        """The producer id as rows have it."""
        return numbered(self.producer_id)


class KafkaTransactions:
    """Belongs to the event loop."""

    def __init__(
        self, transactions: Transactions, finishing: Finishing, producer_ids: ProducerIds, *, clock: Clock
    ) -> None:
        self._transactions = transactions
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._producer_ids = producer_ids
        self._clock = clock

    async def init_producer(
        self, transactional_id: str, timeout_ms: int, asked: Producing | None = None, owner: str = NOBODY
    ) -> TransactionRow:
        """The transactional id's next epoch, its older ones fenced. ``asked``: the epoch of a client that raises its own.

        Raises ``RequestRefused`` (``FENCED_PRODUCER``), ``BackOff``, ``OutcomeUnknown``.
        """
        return await self._transactions.begun(
            InitProducer(
                transactional_id=transactional_id,
                new_producer_id=numbered(self._producer_ids.issue_number()),
                timeout_ms=timeout_ms,
                owner=fingerprint(owner),
                asked=None if asked is None else (asked.text, asked.epoch),
            )
        )

    async def begin(self, producing: Producing) -> TransactionRow:
        """The epoch's open transaction; begun where none is open. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        known = self._table.state.producers.get(producing.transactional_id)
        if known is not None and _is_open(known, producing, self._clock.now_ms()):
            row = await self.newest(producing)  # refused where it is another's
            if _is_open(row, producing, self._clock.now_ms()):
                return row  # else another gateway has ended it since
        return await self._transactions.begun(
            BeginNext(
                transactional_id=producing.transactional_id,
                producer_id=producing.text,
                epoch=producing.epoch,
                transaction_id=await self._producer_ids.issue(TRANSACTIONAL, producing.owner),
                owner=fingerprint(producing.owner),
            )
        )

    async def newest(self, producing: Producing) -> TransactionRow:
        """The newest row of the transactional id, of this epoch. Raises ``RequestRefused`` (``FENCED_PRODUCER``,
        ``UNKNOWN_PRODUCER``), ``BackOff``."""
        transactional_id, owner = producing.transactional_id, fingerprint(producing.owner)
        row = of_epoch(await self._table.fresh(), transactional_id, producing.text, producing.epoch, owner)
        if isinstance(row, TidelogError):
            raise row
        return row

    async def by_transactional_id(self) -> Mapping[str, TransactionRow]:
        """The newest row of each transactional id. Raises ``BackOff``."""
        return (await self._table.fresh()).producers

    async def newest_of(self, transactional_id: str) -> TransactionRow | None:
        """The newest row of a transactional id, with its places while they are remembered. Raises ``BackOff``."""
        state = await self._table.fresh()
        row = state.producers.get(transactional_id)
        return None if row is None else state.transactions.get(row.transaction_id, row)

    async def open(self, producing: Producing) -> TransactionRow:
        """The epoch's open transaction. Raises as ``newest``, and ``RequestRefused`` (``TRANSACTION_NOT_OPEN``)."""
        row = await self.newest(producing)
        if _is_open(row, producing, self._clock.now_ms()):
            return row
        raise _given_up(row, self._clock.now_ms()) or _none_open(producing)

    async def stage(self, producing: Producing, batches: Sequence[tuple[str, Batch]]) -> list[TidelogError | None]:
        """Put each batch beside its topic, which it comes with. Its stamp has its partition and sequence.

        Returns an error for each that is not staged, or may not be. Raises as ``open``: nothing is staged.
        """
        transaction_id = (await self.open(producing)).transaction_id

        async def put(placed: tuple[str, Batch]) -> TidelogError | None:
            try:
                await self._staging.put_lane(transaction_id, *_staged(*placed))
            except TidelogError as error:
                return error
            return None

        outcomes = await side_by_side(put, batches, at_once=PUTS_AT_ONCE)
        try:
            await self._transactions.usable(transaction_id)
        except BackOff as problem:
            late: TidelogError = OutcomeUnknown(
                f"It is not known whether the transaction was still open: {problem.detail}"
            )
            return [outcome or late for outcome in outcomes]
        except TidelogError as refusal:
            return [refusal] * len(outcomes)
        return outcomes

    async def stage_offsets(self, producing: Producing, offsets: StagedOffsets) -> None:
        """Make a group's offsets pending: a rebalance before the commit changes nothing. Raises as ``open``, and as
        ``Transactions.stage_offsets``."""
        row = await self.open(producing)
        try:
            await self._transactions.stage_offsets(row.transaction_id, offsets, judged_now=True)
        except RequestRefused as refusal:
            raise await self._why_not(producing, refusal) from refusal

    async def end(self, producing: Producing, require: Require, *, is_committed: bool) -> None:
        """Commit or abort the epoch's transaction; again: nothing more. ``require``: as in ``Transactions.commit``.

        Raises as ``open``, ``SEQUENCE_OUT_OF_ORDER`` where a staged batch is missing, ``Unauthorized``, and what a group
        refuses its offsets with.
        """
        row = await self.newest(producing)
        is_other = row.state == ("aborted" if is_committed else "committed")
        if is_other or row.state == "producer":
            raise _given_up(row, self._clock.now_ms()) or _none_open(producing)
        try:
            if is_committed and row.state == "committed":
                whole(row)
            elif is_committed:
                await self._transactions.commit(row.transaction_id, require)
            elif row.state != "aborted":
                await self._transactions.abort_lanes(row)
        except RequestRefused as refusal:
            raise await self._why_not(producing, refusal) from refusal

    async def _why_not(self, producing: Producing, refusal: RequestRefused) -> TidelogError:
        """The refusal; where the transaction was given up meanwhile, the one that says so. Raises as ``newest``."""
        if refusal.code is not ErrorCode.TRANSACTION_NOT_OPEN:
            return refusal
        return _given_up(await self.newest(producing), self._clock.now_ms()) or refusal


def _none_open(producing: Producing) -> RequestRefused:
    return RequestRefused(
        f"No transaction of {producing.transactional_id!r} is open.", code=ErrorCode.TRANSACTION_NOT_OPEN
    )


def _given_up(row: TransactionRow, now_ms: int) -> TidelogError | None:
    """The refusal to go on in the row's epoch, where its transaction was aborted without being asked for, or is to be."""
    if row.state == "open" and now_ms > row.expires_at_ms:
        return given_up(msgspec.structs.replace(row, reason="expired"))
    return None if row.reason in ("", "asked") else given_up(row)


def _is_open(row: TransactionRow, producing: Producing, now_ms: int) -> bool:
    is_of_epoch = (row.producer_id, row.epoch) == (producing.text, producing.epoch)
    return is_of_epoch and row.state == "open" and now_ms <= row.expires_at_ms


def _staged(topic: str, batch: Batch) -> tuple[StagedRecords, StagedLane]:
    assert batch.stamp is not None
    _, partition = parted(batch.stamp.producer_id)
    records = StagedRecords(topic=topic, topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions)
    incarnation = incarnation_hash(batch.topic_id)
    return records, StagedLane(partition, batch.stamp.sequence, batch.record_count, incarnation)
