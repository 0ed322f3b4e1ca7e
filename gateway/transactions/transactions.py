"""One gateway's transactions (decision 007). The gateway keeps nothing of a transaction: any gateway serves the next call.

1. One row decides a commit; it names the exact staged objects. Before it nothing of the transaction is in a topic. After it each
   gateway that looks at the transaction brings it to its end (``gateway.finishing``).
2. The client hears of the commit once each topic has its records, each group its offsets, and the last row says where. Offsets of
   groups are made pending before the decision and settled after it.
3. A transactional id's next transaction begins once the one before has ended, so that their records keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gateway.call import second_part, unasked
from gateway.engine.bounds import SEQUENCE_AHEAD_MAX, SEQUENCE_WAIT_MS_MAX
from gateway.engine.producer_ids import ProducerIds
from gateway.finishing.finishing import Finishing
from gateway.finishing.staging import Staged
from gateway.transactions.preparing import Preparing
from log_format.clock import Clock
from log_format.errors import BackOff, CorruptData, ErrorCode, OutcomeUnknown, RequestRefused, TidelogError
from log_format.topic.append import Batch
from log_format.topic.producer_id import TRANSACTIONAL
from log_format.topic.producers import ProducerStamp, fenced, out_of_order
from log_format.transactions.changes import (
    Begin,
    DecideAbort,
    DecideCommit,
    NotFinished,
    not_open,
    usable,
)
from log_format.transactions.row import NO_NUMBER, TransactionRow
from log_format.transactions.staged_offsets import StagedOffsets
from log_format.transactions.staged_records import StagedRecords, topic_hash

_AGAIN_MS = 100


class Transactions:
    """Belongs to the event loop."""

    def __init__(
        self,
        finishing: Finishing,
        preparing: Preparing,
        producer_ids: ProducerIds,
        *,
        clock: Clock,
    ) -> None:
        self._table = finishing.transactions
        self._staging = finishing.staging
        self._finisher = finishing.finisher
        self._preparing = preparing
        self._producer_ids = producer_ids
        self._clock = clock
        self._indexed: Mapping[str, TransactionRow] = {}
        self._by_producer_id: dict[str, TransactionRow] = {}
        """``_indexed`` by another key: made once for each version of the table, not for each request."""

    async def new_epoch(self, transactional_id: str) -> TransactionRow:
        """The transactional id's next epoch; fences older ones. Raises ``BackOff``, ``OutcomeUnknown``."""
        new_producer_id = await self._producer_ids.issue(TRANSACTIONAL)
        return await self._begun(
            Begin(transactional_id=transactional_id, transaction_id=None, new_producer_id=new_producer_id)
        )

    async def begin(self, transactional_id: str, timeout_ms: int, number: int = NO_NUMBER) -> TransactionRow:
        """A new transaction; fences older ones of the id. The row's ``last_number`` is the newest committed one.

        Raises ``BackOff``, ``OutcomeUnknown``.
        """
        return await self._begun(
            Begin(
                transactional_id=transactional_id,
                transaction_id=await self._producer_ids.issue(TRANSACTIONAL),
                new_producer_id=await self._producer_ids.issue(TRANSACTIONAL),
                timeout_ms=timeout_ms,
                number=number,
            )
        )

    async def _begun(self, begin: Begin) -> TransactionRow:
        try:
            return await self._table.decide(begin)
        except NotFinished as refusal:
            with unasked():
                await self._finished_before(refusal.row)
            return await self._table.decide(begin)

    async def _finished_before(self, row: TransactionRow) -> None:
        """Bring the preceding transaction to its end. Raises ``BackOff``: nothing has happened for the new one."""
        try:
            await self._finisher.finished(row)
        except OutcomeUnknown as problem:
            raise BackOff(f"The transaction before this one is not at its end: {problem.detail}") from problem

    async def check(self, stamp: ProducerStamp) -> None:
        """Raise ``RequestRefused`` where the stamp is not of its transactional id's newest epoch; ``BackOff``."""
        producers = (await self._table.fresh()).producers
        if producers is not self._indexed:
            self._indexed, self._by_producer_id = producers, {row.producer_id: row for row in producers.values()}
        row = self._by_producer_id.get(stamp.producer_id)
        if row is not None and stamp.epoch <= row.epoch:
            if stamp.epoch < row.epoch:
                raise fenced(stamp.producer_id, stamp.epoch, row.epoch)
            return
        raise RequestRefused(
            f"Epoch {stamp.epoch} of producer {stamp.producer_id[:100]!r} was never issued.",
            code=ErrorCode.UNKNOWN_PRODUCER,
        )

    async def usable(self, transaction_id: str) -> TransactionRow:
        """The row of an open transaction. Raises ``RequestRefused``, ``BackOff``."""
        outcome = usable(await self._table.fresh(), transaction_id, self._clock.now_ms())
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    async def stage(self, transaction_id: str, topic: str, batch: Batch, stamp: ProducerStamp | None) -> bool:
        """Put the records beside the topics; False where an earlier try of this request did so.

        Raises ``RequestRefused`` (not open, fenced, out of order, too large), ``BackOff``, ``OutcomeUnknown``.
        """
        row = await self.usable(transaction_id)
        if stamp is not None:
            _check_stamp(stamp, row)
        deadline_ms = self._clock.monotonic_ms() + SEQUENCE_WAIT_MS_MAX
        while True:
            listed = await self._staging.listed(transaction_id)
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
                raise out_of_order(stamp, expected)
            await asyncio.sleep(_AGAIN_MS / 1000)
        records = StagedRecords(
            topic=topic, topic_id=batch.topic_id, records=batch.records, partitions=batch.partitions
        )
        await self._staging.put(transaction_id, listed, records, None if stamp is None else stamp.sequence)
        await self._still_usable(transaction_id)
        return True

    async def stage_offsets(self, transaction_id: str, offsets: StagedOffsets) -> None:
        """Put a group's offsets beside the staged records.

        Raises ``RequestRefused`` (not open, fenced, too large, refused by the group), ``BackOff``, ``OutcomeUnknown``.
        """
        await self.usable(transaction_id)
        await self._preparing.check(offsets)
        await self._staging.put_offsets(transaction_id, await self._staging.listed(transaction_id), offsets)
        await self._still_usable(transaction_id)

    async def _still_usable(self, transaction_id: str) -> None:
        """Raise ``RequestRefused`` where the transaction was fenced or decided while its object was on its way: then the object
        does not belong to it. Raises ``OutcomeUnknown`` where that is not known."""
        try:
            await self.usable(transaction_id)
        except BackOff as problem:
            raise OutcomeUnknown(
                f"It is staged, but whether transaction {transaction_id} was still open is not known: {problem.detail}"
            ) from problem

    async def commit(self, transaction_id: str) -> TransactionRow:
        """The committed row, every record visible. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        with second_part():
            return await self._commit(transaction_id)

    async def _commit(self, transaction_id: str) -> TransactionRow:
        row = await self._table.known(transaction_id)
        if row.state == "open":
            listed = await self._staging.listed(transaction_id)
            names = tuple(name.name for name in listed.names)
            try:
                async with self._staging.room(transaction_id, listed.size_bytes):
                    staged = await self._staging.read(transaction_id, names)
                    row = await self._decided(transaction_id, names, staged)
                    if row.staged == names:
                        row = await self._finisher.finished(row, staged)
            except CorruptData:
                # Another gateway may have finished an earlier try meanwhile and deleted the objects.
                row = await self._table.known(transaction_id)
                if row.state == "open":
                    raise
        if row.state == "aborted":
            raise not_open(row)
        return await self._finisher.finished(row)

    async def _decided(self, transaction_id: str, names: tuple[str, ...], staged: Staged) -> TransactionRow:
        """The row once it is decided: committed or aborted. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        if not await self._preparing.topics_stand(staged.records.values()):
            return await self._table.aborted(transaction_id, "topic")
        try:
            await self._preparing.prepare(transaction_id, staged.offsets.values())
        except RequestRefused as refusal:
            row = await self._table.aborted(transaction_id, "offsets")
            if row.state == "aborted":
                await self._preparing.drop(transaction_id, staged.offsets.values())
                raise refusal
            return row
        try:
            return await self._table.decide(DecideCommit(transaction_id=transaction_id, staged=names))
        except RequestRefused:
            await self._preparing.drop(transaction_id, staged.offsets.values())
            raise
        except BackOff as problem:
            if not staged.offsets:
                raise
            # Another try of this commit may build on pending offsets, so they stay; a reader that finds them may abort both
            # tries.
            raise OutcomeUnknown(f"The offsets of groups are pending: {problem.detail}") from problem

    async def abort(self, transaction_id: str) -> TransactionRow:
        """The aborted row. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        row = await self._table.decide(DecideAbort(transaction_id=transaction_id, reason="asked"))
        self._staging.clean_behind(transaction_id)
        return row

    async def look(self, transaction_id: str) -> TransactionRow:
        """The row as it is now; one that is overdue reads as aborted. Raises ``RequestRefused``, ``BackOff``."""
        row = await self._table.known(transaction_id)
        if row.state == "open" and self._clock.now_ms() > row.expires_at_ms:
            return await self._table.decide(DecideAbort(transaction_id=transaction_id, reason="expired"))
        return row


def _check_stamp(stamp: ProducerStamp, row: TransactionRow) -> None:
    if stamp.producer_id == row.producer_id and stamp.epoch == row.epoch:
        return
    if stamp.producer_id == row.producer_id and stamp.epoch < row.epoch:
        raise fenced(stamp.producer_id, stamp.epoch, row.epoch)
    raise RequestRefused(
        f"The producer headers are not those of transaction {row.transaction_id}.",
        errors=[{"where": "Tidelog-Producer-Id", "what": "must be the transaction's, with its epoch"}],
    )
