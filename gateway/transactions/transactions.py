"""One gateway's transactions (DESIGN, "Transactions"). Nothing of a transaction is kept here: any gateway serves the next call.

1. A commit is decided by one row that names the exact staged objects; before it nothing of the transaction is in a topic,
   behind it every gateway that looks at the transaction brings it to its end.
2. A topic gets the records of a transaction by one commit that names it (``log_format.applied_transactions``): applied twice, it
   is in the log once, at the first places.
3. Offsets of groups are prepared before the decision and settled after it (``group_offsets``).
4. The client hears of the commit when every topic has its records, every group its offsets, and the last row says where.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gateway.engine.bounds import SEQUENCE_AHEAD_MAX, SEQUENCE_WAIT_MS_MAX
from gateway.engine.open_topic import OpenTopic
from gateway.engine.producer_ids import ProducerIds
from gateway.engine.registry import TopicRegistry
from gateway.engine.writer import Acknowledgement
from gateway.transactions.decider import Decider
from gateway.transactions.group_offsets import GroupOffsets, groups_of
from gateway.transactions.staging import Staged, Staging
from log_format.append import Batch
from log_format.appended import Duplicate
from log_format.applied_transactions import TransactionEnded, TransactionStamp
from log_format.clock import Clock
from log_format.errors import (
    BackOff,
    CorruptData,
    ErrorCode,
    OutcomeUnknown,
    RequestRefused,
    TidelogError,
    TopicReplaced,
    UnknownTopic,
)
from log_format.producer_id import TRANSACTIONAL
from log_format.producers import ProducerStamp, fenced, out_of_order
from log_format.staged_offsets import StagedOffsets
from log_format.staged_records import StagedRecords, topic_hash
from log_format.transaction_changes import Begin, DecideAbort, DecideCommit, Finish, Forbid, not_open, unknown, usable
from log_format.transaction_row import Place, Reason, TransactionRow

_log = logging.getLogger("gateway.transactions")
SWEEP_PAUSE_MS = 10_000
"""Between two looks for transactions that nobody brings to an end."""
_LEFT_ALONE_MS = 15_000
"""How long a decided transaction is left to the gateway that decided it."""
_AGAIN_MS = 100


class Transactions:
    """Belongs to the event loop. ``append`` appends a batch to a topic and waits until it is in the store."""

    def __init__(
        self,
        decider: Decider,
        staging: Staging,
        topics: TopicRegistry,
        producer_ids: ProducerIds,
        group_offsets: GroupOffsets,
        *,
        clock: Clock,
    ) -> None:
        group_offsets.finish = self._finished_for_group
        self._group_offsets = group_offsets
        self._decider = decider
        self._staging = staging
        self._topics = topics
        self._producer_ids = producer_ids
        self._clock = clock
        self._sweeping: asyncio.Task[None] | None = None

    def start_sweeping(self) -> None:
        """From now on bring to an end what other gateways left."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def drain(self) -> None:
        """End the sweep; decide what was asked."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._decider.drain()

    async def new_epoch(self, transactional_id: str) -> TransactionRow:
        """The transactional id's next epoch, older ones fenced. Raises ``BackOff``, ``OutcomeUnknown``."""
        new_producer_id = await self._producer_ids.issue(TRANSACTIONAL)
        return await self._decider.decide(
            Begin(transactional_id=transactional_id, transaction_id=None, new_producer_id=new_producer_id)
        )

    async def begin(self, transactional_id: str, timeout_ms: int) -> TransactionRow:
        """A new transaction, older ones of the id fenced. Raises ``BackOff``, ``OutcomeUnknown``."""
        return await self._decider.decide(
            Begin(
                transactional_id=transactional_id,
                transaction_id=await self._producer_ids.issue(TRANSACTIONAL),
                new_producer_id=await self._producer_ids.issue(TRANSACTIONAL),
                timeout_ms=timeout_ms,
            )
        )

    async def check(self, stamp: ProducerStamp) -> None:
        """Raise ``RequestRefused`` where the stamp is not of a transactional id's newest epoch; ``BackOff``."""
        for row in (await self._decider.fresh()).producers.values():
            if row.producer_id == stamp.producer_id and stamp.epoch <= row.epoch:
                if stamp.epoch < row.epoch:
                    raise fenced(stamp.producer_id, stamp.epoch, row.epoch)
                return
        raise RequestRefused(
            f"Epoch {stamp.epoch} of producer {stamp.producer_id[:100]!r} was never issued.",
            code=ErrorCode.UNKNOWN_PRODUCER,
        )

    async def usable(self, transaction_id: str) -> TransactionRow:
        """The row of an open transaction. Raises ``RequestRefused``, ``BackOff``."""
        outcome = usable(await self._decider.fresh(), transaction_id, self._clock.now_ms())
        if isinstance(outcome, TidelogError):
            raise outcome
        return outcome

    async def stage(self, transaction_id: str, topic: str, batch: Batch, stamp: ProducerStamp | None) -> bool:
        """Put the records beside the topics; False when an earlier try of this request did.

        Raises ``RequestRefused`` (not open, fenced, out of order, too large), ``BackOff``.
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
        await self.usable(transaction_id)  # it may have been fenced or decided while the object was on its way
        return True

    async def stage_offsets(self, transaction_id: str, offsets: StagedOffsets) -> None:
        """Put a group's offsets beside the staged records.

        Raises ``RequestRefused`` (not open, fenced, too large, refused by the group), ``BackOff``.
        """
        await self.usable(transaction_id)
        await self._group_offsets.check(offsets)
        await self._staging.put_offsets(transaction_id, await self._staging.listed(transaction_id), offsets)
        await self.usable(transaction_id)  # it may have been fenced or decided while the object was on its way

    async def commit(self, transaction_id: str) -> TransactionRow:
        """The committed row, every record visible. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        row = await self._known(transaction_id)
        staged: Staged | None = None
        if row.state == "open":
            listed = await self._staging.listed(transaction_id)
            names = tuple(name.name for name in listed.names)
            try:
                staged = await self._staging.read(transaction_id, names)
            except CorruptData:
                # An earlier try, by another gateway, may have brought it to its end meanwhile and deleted them.
                row = await self._known(transaction_id)
                if row.state == "open":
                    raise
        if row.state == "open" and staged is not None:
            row = await self._decided(transaction_id, names, staged)
            staged = staged if row.staged == names else None
        if row.state == "aborted":
            raise not_open(row)
        return await self.finished(row, staged)

    async def _decided(self, transaction_id: str, names: tuple[str, ...], staged: Staged) -> TransactionRow:
        """The row once it is decided, for or against. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        if not await self.topics_stand(staged.records):
            return await self._aborted(transaction_id, "topic")
        groups = groups_of(staged.offsets)
        try:
            await self._group_offsets.prepare(transaction_id, staged.offsets)
        except RequestRefused as refusal:
            row = await self._aborted(transaction_id, "offsets")
            if row.state == "aborted":
                await self._group_offsets.settle(transaction_id, groups, is_committed=False)
                raise refusal
            return row
        try:
            return await self._decider.decide(DecideCommit(transaction_id=transaction_id, staged=names))
        except RequestRefused:
            await self._group_offsets.settle(transaction_id, groups, is_committed=False)
            raise

    async def abort(self, transaction_id: str) -> TransactionRow:
        """The aborted row. Raises ``RequestRefused``, ``BackOff``, ``OutcomeUnknown``."""
        row = await self._decider.decide(DecideAbort(transaction_id=transaction_id, reason="asked"))
        await self.clean(transaction_id)
        return row

    async def look(self, transaction_id: str) -> TransactionRow:
        """The row as it is now; one whose time is over reads as aborted. Raises ``RequestRefused``, ``BackOff``."""
        row = await self._known(transaction_id)
        if row.state == "open" and self._clock.now_ms() > row.expires_at_ms:
            return await self._decider.decide(DecideAbort(transaction_id=transaction_id, reason="expired"))
        return row

    async def _aborted(self, transaction_id: str, reason: Reason) -> TransactionRow:
        """The aborted row, or the one that was decided to commit before."""
        try:
            return await self._decider.decide(DecideAbort(transaction_id=transaction_id, reason=reason))
        except RequestRefused:
            row = await self._known(transaction_id)
            if row.state not in ("committing", "committed"):
                raise
            return row

    async def _finished_for_group(self, transaction_id: str, abort: bool) -> bool | None:
        """See ``group_offsets.Finish``."""
        row = (await self._decider.fresh()).transactions.get(transaction_id)
        if row is None:
            if not abort:
                return None  # a transaction that is one request has no row before it is decided
            row = await self._decider.decide(Forbid(transaction_id=transaction_id))
        if row.state == "open" and (abort or self._clock.now_ms() > row.expires_at_ms):
            row = await self._aborted(transaction_id, "offsets")
        if row.state == "committing":
            row = await self.finished(row, None)
        return None if row.state == "open" else row.state == "committed"

    async def _known(self, transaction_id: str) -> TransactionRow:
        row = (await self._decider.fresh()).transactions.get(transaction_id)
        if row is None:
            raise unknown(transaction_id)
        return row

    async def finished(self, row: TransactionRow, staged: Staged | None) -> TransactionRow:
        """Bring a decided transaction to its end. What is in the log already stays as it is."""
        if row.state != "committing":
            return row
        try:
            if staged is None:
                staged = await self._staging.read(row.transaction_id, row.staged)
            return await self._ended(row, staged)
        except (CorruptData, TransactionEnded):
            # Another gateway may have finished it meanwhile, and deleted what was staged.
            newer = (await self._decider.fresh()).transactions.get(row.transaction_id)
            if newer is None or newer.state != "committed":
                raise
            return newer

    async def _ended(self, row: TransactionRow, staged: Staged) -> TransactionRow:
        try:
            applied = await asyncio.gather(
                *(self._applied(row, requests) for requests in _by_topic(staged.records)), return_exceptions=True
            )
            places: list[Place] = []
            for found in applied:
                if isinstance(found, BaseException):
                    raise found
                places += found
            places.sort(key=lambda place: (place.topic, place.partition))
            # Behind the records: who goes on from these offsets finds in the topics what the transaction made of those before.
            await self._group_offsets.settle(row.transaction_id, groups_of(staged.offsets), is_committed=True)
            done = await self._decider.decide(Finish(transaction_id=row.transaction_id, places=tuple(places)))
        except TransactionEnded:
            raise
        except TidelogError as error:
            raise OutcomeUnknown(
                f"Transaction {row.transaction_id} is decided, but not all of it is visible yet: {error.detail}"
            ) from error
        await self.clean(row.transaction_id)
        return done

    async def _applied(self, row: TransactionRow, requests: Sequence[StagedRecords]) -> list[Place]:
        """Where the topic has the records. Those of a topic that was deleted since the decision are gone with it."""
        first = requests[0]
        batch = Batch(
            topic_id=first.topic_id,
            records=pa.concat_tables([request.records for request in requests]),
            partitions=np.concatenate([request.partitions for request in requests]),
            record_bytes_max=0,  # it was within the limit when it was staged: a decided transaction can't be refused
            transaction=TransactionStamp(row.transaction_id, row.decided_version, self._decider.log.state.floor),
        )
        try:
            topic = await self._topics.fresh(first.topic, self._clock.monotonic_ms())
            topic.existing()
            acknowledged = await _appended(topic, batch)
        except (UnknownTopic, TopicReplaced):
            return []
        places = acknowledged.places if isinstance(acknowledged, Duplicate) else acknowledged
        return [Place(first.topic, place.partition, place.base_offset, place.count) for place in places]

    async def topics_stand(self, staged: Sequence[StagedRecords]) -> bool:
        """Whether every topic is the one that its records were routed for. Raises ``BackOff``."""
        for name, topic_id in sorted({(request.topic, request.topic_id) for request in staged}):
            topic = await self._topics.fresh(name, self._clock.monotonic_ms())
            if topic.state.topic_id != topic_id:
                return False
        return True

    async def clean(self, transaction_id: str) -> None:
        """Delete what is staged, as well as that goes."""
        try:
            await self._staging.delete(transaction_id)
        except BackOff as problem:
            _log.warning("staged records of %s are left to the collector: %s", transaction_id, problem.detail)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_PAUSE_MS / 1000)
            try:
                await self.sweep_once()
            except TidelogError as error:
                _log.warning("transactions can't be looked after: %s", error.detail)

    async def sweep_once(self) -> None:
        """Finish what was decided and left, abort what is late, delete what is staged for nobody. Raises ``TidelogError``."""
        staged = await self._staging.transaction_ids()
        transactions = (await self._decider.fresh()).transactions
        now_ms = self._clock.now_ms()
        for row in list(transactions.values()):
            try:
                if row.state == "committing" and now_ms - row.recorded_at_ms > _LEFT_ALONE_MS:
                    await self.finished(row, None)
                elif row.state == "open" and now_ms > row.expires_at_ms:
                    await self._decider.decide(DecideAbort(transaction_id=row.transaction_id, reason="expired"))
            except TidelogError as error:
                _log.warning("transaction %s is not at its end yet: %s", row.transaction_id, error.detail)
        for transaction_id in staged:
            ended = transactions.get(transaction_id)  # none: it ended long ago, since staging looks first
            if ended is None or (ended.has_ended and now_ms - ended.recorded_at_ms > _LEFT_ALONE_MS):
                await self.clean(transaction_id)
        await self._group_offsets.sweep(_LEFT_ALONE_MS)


async def _appended(topic: OpenTopic, batch: Batch) -> Acknowledgement:
    """What became of the batch."""
    return await topic.writer.submit(batch, None).settled


def _by_topic(staged: Sequence[StagedRecords]) -> list[list[StagedRecords]]:
    """The requests of each topic that have records, in order."""
    topics: dict[str, list[StagedRecords]] = {}
    for request in staged:
        if request.records.num_rows:
            topics.setdefault(request.topic, []).append(request)
    return list(topics.values())


def _check_stamp(stamp: ProducerStamp, row: TransactionRow) -> None:
    if stamp.producer_id == row.producer_id and stamp.epoch == row.epoch:
        return
    if stamp.producer_id == row.producer_id and stamp.epoch < row.epoch:
        raise fenced(stamp.producer_id, stamp.epoch, row.epoch)
    raise RequestRefused(
        f"The producer headers are not those of transaction {row.transaction_id}.",
        errors=[{"where": "Tidelog-Producer-Id", "what": "must be the transaction's, with its epoch"}],
    )
