"""One gateway's transactions (decision 007). The gateway keeps nothing of a transaction: any gateway serves the next call.

1. One row decides a commit; it names the exact staged objects. Before it nothing of the transaction is in a topic. After it
   each gateway that looks at the transaction finishes it (``gateway.applied_transactions``).
2. The client hears of the commit once each topic has its records, each group its offsets, and the last row says where. Offsets
   of groups are made pending before the decision, a Kafka client's when they come, and settled after it.
3. A transactional id's next transaction begins once the previous one has ended, so that their records keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress

from gateway.applied_transactions.finishing_parts import FinishingParts
from gateway.applied_transactions.staging import Staged, StagedListing
from gateway.call import detached_from_call, second_part
from gateway.engine.bounds import SEQUENCE_AHEAD_MAX, SEQUENCE_WAIT_MS_MAX
from gateway.engine.producer_ids import ProducerIds
from gateway.queues.coordinator import Coordinator
from gateway.queues.settlement import Result, Settlement
from gateway.transactions.needed_rights import Require, needed_rights
from gateway.transactions.preparing import TransactionPreparer, check_leases
from log_format.clock import Clock
from log_format.cluster.proof import NOBODY, fingerprint
from log_format.errors import BackOff, CorruptData, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.ids import NewId
from log_format.scheduled.delayed_records import Times
from log_format.topic.append import Batch
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.topic.producers import ProducerStamp, fenced_error, out_of_order_error
from log_format.transactions.changes import (
    BeginTransaction,
    DecideAbort,
    DecideCommit,
    NotFinished,
    may_know_epoch,
    not_open_error,
    require_open,
    unknown_transaction_error,
)
from log_format.transactions.damaged_transactions import require_undamaged
from log_format.transactions.kafka_producers import BeginNext, InitProducer
from log_format.transactions.lanes import Lanes, lanes_after, order_batches
from log_format.transactions.outline import make_outline
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedRecords, topic_hash
from log_format.transactions.staged_settlements import StagedSettlements

_RETRY_MS = 100


class Transactions:
    """Transactions of one gateway. Used on the event loop only."""

    def __init__(
        self,
        finishing: FinishingParts,
        preparing: TransactionPreparer,
        producer_ids: ProducerIds,
        queues: Coordinator,
        *,
        clock: Clock,
        new_id: NewId,
    ) -> None:
        self._queues = queues
        self._new_id = new_id
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._finisher = finishing.finisher
        self._preparing = preparing
        self._producer_ids = producer_ids
        self._clock = clock
        self._indexed: Mapping[str, TransactionRow] = {}
        self._by_producer_id: dict[str, TransactionRow] = {}
        """Rows of ``_indexed`` by producer id: made once for each version of the table, not for each request."""

    async def new_epoch(self, transactional_id: str, owner: str = NOBODY) -> TransactionRow:
        """Begin the transactional id's next epoch for the owner, and fence older ones; return its row. Raises ``BackOff``,
        ``OutcomeUnknown``."""
        return await self.begin_epoch(
            BeginTransaction(
                transactional_id=transactional_id,
                transaction_id=None,
                new_producer_id=await self._producer_ids.issue(TRANSACTIONAL),
                owner=fingerprint(owner),
            )
        )

    async def begin(
        self,
        transactional_id: str,
        timeout_ms: int,
        number: int = NO_NUMBER,
        owner: str = NOBODY,
        check_after_ms: int | None = None,
    ) -> TransactionRow:
        """Begin a transaction of the owner, and fence older ones of the id; return its row.

        ``number``: the client's number for the transaction; the row's ``last_number`` is the newest committed one.
        ``check_after_ms``: silence after which the transaction is offered to askers. Raises ``BackOff``, ``OutcomeUnknown``.
        """
        return await self.begin_epoch(
            BeginTransaction(
                transactional_id=transactional_id,
                transaction_id=await self._producer_ids.issue(TRANSACTIONAL, owner),
                # The id's next epochs may be another owner's.
                new_producer_id=await self._producer_ids.issue(TRANSACTIONAL),
                timeout_ms=timeout_ms,
                number=number,
                owner=fingerprint(owner),
                check_after_ms=check_after_ms,
            )
        )

    async def check_owner(self, transaction_id: str, owner: str) -> None:
        """Raise ``RequestRefused`` (``UNKNOWN_TRANSACTION``) for another owner's transaction, unless it was offered to askers,
        who end it. Raises ``BackOff``."""
        if owner and await self._producer_ids.is_of_another_owner(transaction_id, owner):
            row = await self._table.fetch_row(transaction_id)
            if row is None or not row.checks:
                raise unknown_transaction_error(transaction_id)

    async def begin_epoch(self, begin: BeginTransaction | InitProducer | BeginNext) -> TransactionRow:
        """Return the row of a new epoch or transaction, once the previous one has ended. Raises ``RequestRefused``, ``BackOff``,
        ``OutcomeUnknown``."""
        try:
            return await self._table.decide(begin)
        except NotFinished as refusal:
            with detached_from_call():
                await self._finish_predecessor(refusal.row)
            return await self._table.decide(begin)

    async def _finish_predecessor(self, row: TransactionRow) -> None:
        """Finish the preceding transaction. Raises ``BackOff``: nothing has happened for the new one."""
        try:
            await self._finisher.finish(row)
        except OutcomeUnknown as problem:
            raise BackOff(f"The transaction before this one is not at its end: {problem.detail}") from problem

    async def check(self, stamp: ProducerStamp, owner: str = NOBODY) -> None:
        """Raise ``RequestRefused`` if the stamp is not of its transactional id's newest epoch, or if that is another owner's;
        ``BackOff``."""
        producers = (await self._table.fresh()).producers
        if producers is not self._indexed:
            self._indexed, self._by_producer_id = producers, {row.producer_id: row for row in producers.values()}
        row = self._by_producer_id.get(stamp.producer_id)
        if row is not None and stamp.epoch <= row.epoch and may_know_epoch(row, stamp.epoch, fingerprint(owner)):
            if stamp.epoch < row.epoch:
                raise fenced_error(stamp.producer_id, stamp.epoch, row.epoch)
            return
        raise RequestRefused(
            f"Epoch {stamp.epoch} of producer {stamp.producer_id[:100]!r} was never issued.",
            code=ErrorCode.UNKNOWN_PRODUCER,
        )

    async def transactional_id(self, transaction_id: str) -> str:
        """Return the transactional id; empty if the transaction has none. Raises ``RequestRefused``, ``BackOff``."""
        row = self._table.state.transactions.get(transaction_id) or await self._table.require_row(transaction_id)
        return row.transactional_id

    async def require_open(self, transaction_id: str) -> TransactionRow:
        """Return the row of an open transaction. Raises ``RequestRefused``, ``BackOff``."""
        outcome = require_open(await self._table.fresh(), transaction_id, self._clock.now_ms())
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    async def stage(
        self,
        transaction_id: str,
        topic: str,
        batch: Batch,
        stamp: ProducerStamp | None,
        *,
        deliver_at: Times | None = None,
    ) -> bool:
        """Stage the records; return False if an earlier try of this request did so.

        Raises ``RequestRefused`` (not open, fenced, out of order, too large), ``BackOff``, ``OutcomeUnknown``.
        """
        row = await self.require_open(transaction_id)
        if stamp is not None:
            _check_stamp(stamp, row)
        deadline_ms = self._clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        while True:
            listed = await self._staging.list_staged(transaction_id)
            if stamp is None:
                break
            of_topic = {name.sequence for name in listed.names if name.topic_hash == topic_hash(topic)} - {None}
            if stamp.sequence in of_topic:
                return False
            expected = len(of_topic)
            if stamp.sequence == expected:
                break
            is_late = self._clock.monotonic_ms() >= deadline_ms
            if is_late or not expected < stamp.sequence <= expected + SEQUENCE_AHEAD_MAX:
                raise out_of_order_error(stamp, expected)
            await asyncio.sleep(_RETRY_MS / 1000)
        records = StagedRecords(
            topic=topic,
            topic_id=batch.topic_id,
            records=batch.records,
            partitions=batch.partitions,
            deliver_at=deliver_at,
        )
        await self._staging.put(transaction_id, listed, records, None if stamp is None else stamp.sequence)
        await self._check_still_open(transaction_id)
        return True

    async def stage_offsets(self, transaction_id: str, offsets: StagedOffsets, *, judged_now: bool = False) -> None:
        """Stage a group's offsets.

        ``judged_now``: whether the offsets are made pending now, and not judged again by the commit; until the transaction
        ends the group's next members wait for it. Raises ``RequestRefused`` (not open, fenced, too large, refused by the
        group), ``BackOff``, ``OutcomeUnknown``.
        """
        await self.require_open(transaction_id)
        await self._preparing.check(offsets)
        listed = await self._staging.list_staged(transaction_id)
        name = await self._staging.put_offsets(transaction_id, listed, offsets)
        if judged_now:
            try:
                await self._preparing.prepare(transaction_id, [offsets])
            except RequestRefused:
                await self._staging.withdraw(transaction_id, name)
                raise
        await self._check_still_open(transaction_id)

    async def stage_settlements(
        self, transaction_id: str, queue: str, settlements: Sequence[Settlement]
    ) -> list[Result]:
        """Hold received records until the transaction ends; return the result of each settlement.

        Raises ``RequestRefused`` (not open, fenced, too large, no such queue), ``BackOff``, ``OutcomeUnknown``.
        """
        await self.require_open(transaction_id)
        live = await self._queues.live(queue)
        pending_id = self._new_id()
        note = StagedSettlements(queue=queue, pending_id=pending_id)
        names: list[str] = []

        async def stage() -> None:
            listed = await self._staging.list_staged(transaction_id)
            names.append(await self._staging.put_settlements(transaction_id, listed, note))
            await self._check_still_open(transaction_id)

        try:
            return await live.prepare(settlements, transaction_id, pending_id, stage)
        except OutcomeUnknown:
            raise
        except TidelogError:
            # A note without its pending settlements would make the commit fail.
            for name in names:
                await self._staging.withdraw(transaction_id, name)
            raise

    async def _check_still_open(self, transaction_id: str) -> None:
        """Raise ``RequestRefused`` if the transaction was fenced or decided while its object was being put: then the object does
        not belong to it. Raises ``OutcomeUnknown`` if that is not known."""
        try:
            await self.require_open(transaction_id)
        except BackOff as problem:
            raise OutcomeUnknown(
                f"It is staged, but whether transaction {transaction_id} was still open is not known: {problem.detail}"
            ) from problem

    async def commit(self, transaction_id: str, require: Require) -> TransactionRow:
        """Commit; return the row, once every record is visible. ``require``: raises if the caller lacks a right.

        The caller needs the rights to all that the staged objects name, as if it named them now: an object may have been put
        there by hand. Raises ``RequestRefused``, ``Unauthorized``, ``BackOff``, ``OutcomeUnknown``, ``TransactionDamaged``.
        """
        with second_part():
            return await self._commit(transaction_id, require)

    async def _commit(self, transaction_id: str, require: Require) -> TransactionRow:
        row = await self._table.require_row(transaction_id)
        if row.state == "open":
            listed = await self._staging.list_staged(transaction_id)
            names, lanes = order_batches(listed.names, row.lanes)
            self._staging.check_whole(listed)
            try:
                if self._staging.is_large(listed):
                    return await self._commit_large(row, listed, names, lanes, require)
                async with self._staging.room(transaction_id, listed.size_bytes):
                    staged = await self._staging.read(transaction_id, names)
                    held = await self._preparing.holding(staged.settlements.values())
                    for need in needed_rights(staged, held.values()):
                        require(*need)
                    row = await self._decide(transaction_id, names, lanes, staged, held)
                    if row.staged == names:
                        row = await self._finisher.finish(row, staged)
            except CorruptData:
                # Another gateway may have finished an earlier try meanwhile and deleted the objects.
                row = await self._table.require_row(transaction_id)
                if row.state == "open":
                    raise
        if row.state == "aborted":
            raise not_open_error(row)
        return require_undamaged(await self._finisher.finish(row))

    async def _commit_large(
        self, row: TransactionRow, listed: StagedListing, names: Sequence[str], lanes: Lanes, require: Require
    ) -> TransactionRow:
        """Commit a transaction that no memory holds: one batch of each topic is read, and the names tell the rest."""
        transaction_id = row.transaction_id
        outline = make_outline(names)
        async with self._staging.room(transaction_id, sum(listed.sizes[name] for name in outline.read)):
            staged = await self._staging.read(transaction_id, outline.read)
        held = await self._preparing.holding(staged.settlements.values())
        for need in needed_rights(staged, held.values()):
            require(*need)
        if not outline.matches(staged.records.values()):
            row = await self._table.abort(transaction_id, "topic")
        else:
            index = await self._staging.put_index(transaction_id, listed, outline.batches)
            row = await self._decide(transaction_id, (index, *outline.others), lanes, staged, held)
        if row.state == "aborted":
            raise not_open_error(row)
        return await self._finisher.finish(row)

    async def _decide(
        self, transaction_id: str, names: tuple[str, ...], lanes: Lanes, staged: Staged, held: Container[str]
    ) -> TransactionRow:
        """Commit or abort the transaction, and return its row. ``held``: pending ids that queues hold.

        Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``.
        """
        if not await self._preparing.are_topics_current(staged.records.values()):
            return await self._table.abort(transaction_id, "topic")
        try:
            check_leases(staged.settlements.values(), held)
            await self._preparing.prepare(transaction_id, staged.offsets.values())
        except RequestRefused as refusal:
            row = await self._table.abort(transaction_id, "offsets")
            if row.state == "aborted":
                await self._preparing.drop(transaction_id, staged.offsets.values())
                await self._free_records(transaction_id)
                raise refusal
            return row
        try:
            return await self._table.decide(DecideCommit(transaction_id=transaction_id, staged=names, lanes=lanes))
        except RequestRefused:
            await self._preparing.drop(transaction_id, staged.offsets.values())
            raise
        except BackOff as problem:
            if not staged.offsets:
                raise
            # Another try of this commit may build on pending offsets, so they stay; a reader that finds them may abort both
            # tries.
            raise OutcomeUnknown(f"The offsets of groups are pending: {problem.detail}") from problem

    async def abort_lanes(self, row: TransactionRow) -> None:
        """Abort a Kafka client's transaction, whose epoch goes on. Raises what ``abort`` raises."""
        listed = await self._staging.list_staged(row.transaction_id)
        await self.abort(row.transaction_id, lanes_after(listed.names, row.lanes))

    async def abort(self, transaction_id: str, lanes: Lanes | None = None) -> TransactionRow:
        """Abort; return the row. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        with second_part():
            row = await self._table.decide(DecideAbort(transaction_id=transaction_id, reason="asked", lanes=lanes))
            await self._free_records(transaction_id)
        self._staging.clean_in_background(transaction_id)
        return row

    async def _free_records(self, transaction_id: str) -> None:
        """Free the records that queues hold for an aborted transaction. If that fails, the queues' coordinators do so a little
        later."""
        with detached_from_call(), suppress(TidelogError):
            await self._preparing.free(transaction_id)

    async def look(self, transaction_id: str) -> TransactionRow:
        """Return the row as it is now; an overdue open transaction is aborted first. Raises ``RequestRefused``, ``BackOff``."""
        row = await self._table.require_row(transaction_id)
        if row.state == "open" and self._clock.now_ms() > row.expires_at_ms:
            return await self._table.decide(DecideAbort(transaction_id=transaction_id, reason="expired"))
        return row


def _check_stamp(stamp: ProducerStamp, row: TransactionRow) -> None:
    if stamp.producer_id == row.producer_id and stamp.epoch == row.epoch:
        return
    if stamp.producer_id == row.producer_id and stamp.epoch < row.epoch:
        raise fenced_error(stamp.producer_id, stamp.epoch, row.epoch)
    raise RequestRefused(
        f"The producer headers are not those of transaction {row.transaction_id}.",
        errors=[{"where": "Tidelog-Producer-Id", "what": "must be the transaction's, with its epoch"}],
    )
