"""Decisions about queues: fenced, replayed from tags, rewritten."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from log_format.delta.actions import Add, Commit
from log_format.errors import BackOff, ErrorCode, RequestRefused
from log_format.queues.changes import (
    AllowLocks,
    AlterQueue,
    ClaimQueue,
    Compact,
    ConcludeSettlement,
    CoordinatorFenced,
    Decide,
    DeleteQueue,
    PrepareSettlement,
    PutQueue,
    QueueDecision,
    SettleRuns,
    SubscribeQueue,
)
from log_format.queues.moves import MoveStarts
from log_format.queues.row import PartitionChange, PendingSettlement, QueueSettings
from log_format.queues.runs import RELEASED, SETTLED, Run
from log_format.queues.state import Queue, QueuesState, decode_changes

SETTINGS = QueueSettings(topics=("t",), lock_ms=30_000, max_deliveries=5, max_in_flight=10)


class Table:
    """The table as commits make it: each decision's outcome at the state before it."""

    def __init__(self) -> None:
        self.state = QueuesState()
        self._ids = iter(range(10_000))

    def decide(self, *decisions: QueueDecision) -> Sequence[object]:
        proposal = Decide(decisions, lambda: f"id-{next(self._ids)}").propose(self.state, 1_000)
        self.state = (
            self.state.apply(_commit(proposal.actions), self.state.version + 1) if proposal.actions else self.state
        )
        return proposal.result

    def rewrite(self) -> None:
        proposal = Compact(lambda: f"id-{next(self._ids)}", files_min=1).propose(self.state, 2_000)
        (add,) = (one for one in proposal.actions if isinstance(one, Add))
        assert QueuesState().after(*decode_changes(add.path, add.tags or {})).queues == self.state.queues

    def queue(self) -> Queue:
        return self.state.queue("q")


def _commit(actions: Sequence[object]) -> Commit:
    adds = tuple(one for one in actions if isinstance(one, Add))
    return Commit(commit_id=None, protocol=None, metadata=None, adds=adds, removes=(), txns=())


def change(*runs: Run, topic: str = "t") -> PartitionChange:
    return PartitionChange(queue="q", topic=topic, topic_id=f"{topic}-id", partition=0, runs=runs)


def put(settings: QueueSettings = SETTINGS, *, has_start: bool = False) -> PutQueue:
    return PutQueue(queue="q", queue_id="1", settings=settings, has_start=has_start, starts=())


def test_only_the_last_claimant_settles() -> None:
    """A settlement of an older epoch is refused and changes nothing; of the newest it counts."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    first = table.queue().epoch
    table.decide(ClaimQueue(queue="q", coordinator="b"))
    (refusal,) = table.decide(SettleRuns(queue="q", epoch=first, changes=(change(Run(0, 4, SETTLED)),)))
    assert isinstance(refusal, CoordinatorFenced)
    assert table.queue().partitions == {}
    table.decide(SettleRuns(queue="q", epoch=table.queue().epoch, changes=(change(Run(0, 4, SETTLED)),)))
    assert table.queue().partitions["t-id", 0].start_offset == 5
    table.rewrite()


def test_a_claim_inherits_the_longest_lock() -> None:
    """A first claim inherits none; a later one what was allowed, which grows only by decisions and shrinks when told."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    row = table.queue().row
    assert row is not None
    assert (row.inherited_ms, row.lock_ms_max) == (0, 30_000)
    table.decide(AllowLocks(queue="q", epoch=row.epoch, lock_ms_min=90_000))
    table.decide(AllowLocks(queue="q", epoch=row.epoch, lock_ms_min=60_000))
    table.decide(ClaimQueue(queue="q", coordinator="b"))
    row = table.queue().row
    assert row is not None
    assert (row.inherited_ms, row.lock_ms_max) == (90_000, 90_000)
    table.decide(AllowLocks(queue="q", epoch=row.epoch, lock_ms_max=0))
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    row = table.queue().row
    assert row is not None
    assert row.inherited_ms == 0


def test_another_start_is_refused_an_absent_one_stays() -> None:
    """A queue keeps its start; another one is 409."""
    table = Table()
    table.decide(put())
    (refusal,) = table.decide(put(msgspec.structs.replace(SETTINGS, start="earliest"), has_start=True))
    assert isinstance(refusal, RequestRefused)
    assert refusal.code is ErrorCode.QUEUE_ALREADY_EXISTS
    (queue,) = table.decide(put(msgspec.structs.replace(SETTINGS, start="earliest", lock_ms=5_000)))
    assert isinstance(queue, Queue)
    assert queue.row is not None
    assert (queue.row.settings.start, queue.row.settings.lock_ms) == ("latest", 5_000)


def subscribe(*topics: str) -> SubscribeQueue:
    settings = msgspec.structs.replace(SETTINGS, topics=topics)
    starts = tuple(
        PartitionChange(queue="q", topic=one, topic_id=f"{one}-id", partition=0, start_offset=7) for one in topics
    )
    return SubscribeQueue(queue="q", queue_id="1", settings=settings, starts=starts)


def test_topics_are_added_by_several_at_once() -> None:
    """None is lost, what is settled of the others stays, and so do settings. A topic that is read already begins nowhere anew."""
    table = Table()
    kept = msgspec.structs.replace(SETTINGS, lock_ms=5_000, start="earliest", dead_letter_topic="dead")
    table.decide(put(kept))
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    table.decide(SettleRuns(queue="q", epoch=table.queue().epoch, changes=(change(Run(0, 1, SETTLED)),)))
    table.decide(subscribe("u", "t"), subscribe("v"))
    row = table.queue().row
    assert row is not None
    assert row.settings == msgspec.structs.replace(kept, topics=("t", "u", "v"))
    starts = {key[0]: one.start_offset for key, one in table.queue().partitions.items()}
    assert starts == {"t-id": 2, "u-id": 7, "v-id": 7}
    version = table.state.version
    table.decide(subscribe("v", "t"))
    assert table.state.version == version, "nothing is new, and nothing is written"
    for refused in (subscribe("dead"), subscribe(*(f"t{number}" for number in range(1_000)))):
        (refusal,) = table.decide(refused)
        assert isinstance(refusal, RequestRefused)
    table.decide(DeleteQueue(queue="q"))
    table.decide(subscribe("t"))
    assert table.queue().partitions["t-id", 0].start_offset == 7
    table.rewrite()


def alter(**changes: object) -> AlterQueue:
    settings = msgspec.structs.replace(SETTINGS, topics=())
    return AlterQueue(queue="q", queue_id="1", settings=settings, changes=changes)


def test_a_queue_is_altered_before_it_reads_anything() -> None:
    """Only then it may begin elsewhere."""
    table = Table()
    table.decide(alter(lock_ms=5_000))
    table.decide(alter(start="earliest"))
    row = table.queue().row
    assert row is not None
    assert (row.settings.topics, row.settings.start, row.settings.lock_ms) == ((), "earliest", 5_000)
    table.decide(subscribe("t"), ClaimQueue(queue="q", coordinator="a"))
    (refusal,) = table.decide(alter(start="latest"))
    assert isinstance(refusal, RequestRefused)
    assert refusal.code is ErrorCode.QUEUE_ALREADY_EXISTS
    table.decide(alter(lock_ms=60_000, start="earliest"))
    row = table.queue().row
    assert row is not None
    assert (row.settings.topics, row.settings.lock_ms, row.lock_ms_max) == (("t",), 60_000, 60_000)
    table.rewrite()


def test_a_topic_taken_out_is_forgotten_and_settled_no_more() -> None:
    """What was settled of a topic that the queue does not read any more is gone, and nothing comes after it."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    epoch = table.queue().epoch
    table.decide(SettleRuns(queue="q", epoch=epoch, changes=(change(Run(3, 4, SETTLED)),)))
    table.decide(put(msgspec.structs.replace(SETTINGS, topics=("u",))))
    table.decide(SettleRuns(queue="q", epoch=epoch, changes=(change(Run(5, 6, SETTLED)),)))
    assert table.queue().partitions == {}
    table.rewrite()


def test_what_is_pending_is_concluded_once_by_what_was_decided() -> None:
    """Of a committed transaction only what its decision names counts; the rest is undone. A second conclusion changes nothing."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    epoch = table.queue().epoch
    for number in range(2):
        pending = PendingSettlement(
            pending_id=f"p{number}",
            queue="q",
            transaction_id="T",
            on_commit=(change(Run(number, number, SETTLED)),),
            on_abort=(change(Run(number, number, RELEASED, 1)),),
            prepared_at_ms=0,
        )
        table.decide(PrepareSettlement(pending=pending, epoch=epoch))
    table.rewrite()
    table.decide(ConcludeSettlement(queue="q", transaction_id="T", pending_ids=frozenset({"p0"})))
    settled = table.queue().partitions["t-id", 0]
    assert (settled.start_offset, settled.runs) == (1, (Run(1, 1, RELEASED, 1),))
    assert table.queue().pending == {}
    version = table.state.version
    table.decide(ConcludeSettlement(queue="q", transaction_id="T", pending_ids=frozenset({"p0"})))
    assert table.state.version == version


def test_a_queue_made_anew_repeats_no_epoch() -> None:
    """A settlement for a deleted queue does not count for the one that has its name now."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    before = table.queue().epoch
    table.decide(DeleteQueue(queue="q"))
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="b"))
    assert table.queue().epoch > before
    assert table.state.memory_bytes == table.queue().memory_bytes


def test_a_moved_start_forgets_what_was_settled() -> None:
    """Back as well as ahead, of the partitions that are named.

    A settlement of before is refused, and no member waits for a lock.
    """
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    epoch = table.queue().epoch
    both = (change(Run(0, 4, SETTLED)), msgspec.structs.replace(change(Run(0, 1, SETTLED)), partition=1))
    table.decide(SettleRuns(queue="q", epoch=epoch, changes=both))
    start = msgspec.structs.replace(change(), start_offset=2)
    (refusal,) = table.decide(MoveStarts(queue="q", epoch=epoch - 1, starts=(start,)))
    assert isinstance(refusal, CoordinatorFenced)
    table.decide(MoveStarts(queue="q", epoch=epoch, starts=(start,)))
    (refusal,) = table.decide(SettleRuns(queue="q", epoch=epoch, changes=(change(Run(2, 4, SETTLED)),)))
    assert isinstance(refusal, CoordinatorFenced)
    settled = {key: (one.start_offset, one.runs) for key, one in table.queue().partitions.items()}
    assert settled == {("t-id", 0): (2, ()), ("t-id", 1): (2, ())}
    table.rewrite()
    table.decide(ClaimQueue(queue="q", coordinator="b"))
    row = table.queue().row
    assert row is not None
    assert (row.inherited_ms, row.lock_ms_max) == (0, 30_000)


def test_starts_are_not_moved_beneath_a_transaction() -> None:
    """What waits for its end would be settled behind the move."""
    table = Table()
    table.decide(put())
    table.decide(ClaimQueue(queue="q", coordinator="a"))
    epoch = table.queue().epoch
    waiting = PendingSettlement(
        pending_id="p",
        queue="q",
        transaction_id="x",
        on_commit=(change(Run(0, 0, SETTLED)),),
        on_abort=(),
        prepared_at_ms=0,
    )
    table.decide(PrepareSettlement(pending=waiting, epoch=epoch))
    (refusal,) = table.decide(MoveStarts(queue="q", epoch=epoch, dropped=frozenset({"t"})))
    assert isinstance(refusal, BackOff)
    table.decide(ConcludeSettlement(queue="q", transaction_id="x"))
    table.decide(MoveStarts(queue="q", epoch=epoch, dropped=frozenset({"t"})))
    row = table.queue().row
    assert row is not None
    assert (row.settings.topics, dict(table.queue().partitions)) == ((), {})
    table.rewrite()
