"""The simulation of queues can fail: each of these defects, planted into the real gateway, breaks a promise in some history."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from gateway.queues.coordinator import Coordinator
from gateway.queues.dead_letters import DeadLetters
from gateway.queues.leases import Leases
from gateway.queues.live_queue import LiveQueue
from gateway.queues.outcomes import released_run
from gateway.queues.partitions import Partitions
from gateway.queues.publishing import QueuePublisher
from gateway.queues.queue_partition import HeldRange
from log_format.queues.changes import ConcludeSettlement, SettleRuns
from log_format.queues.row import QueueChanges, QueueRow
from log_format.queues.runs import RELEASED, SETTLED, Run, overlay_runs
from log_format.queues.state import QueuesState, snapshot
from tests.simulation.simulated.faults import Profile
from tests.simulation.simulated.seeds import shows
from tests.simulation.simulated_queues.world import FAULTY, PASSING, RENEWED, simulate_queues
from tests.simulation.simulated_service.service import Code

SEEDS_MAX = 40


def _settles_unfenced(self: SettleRuns, state: Any, now_ms: int) -> Any:
    row = state.queue(self.queue).row
    return _decide(replace(self, epoch=self.epoch if row is None else row.epoch), state, now_ms)


def _takes_over_without_waiting(self: LiveQueue, row: QueueRow, parts: Any) -> None:
    _begin(self, row, parts)
    self.quiet_until_ms = self.blind_until_ms = 0


async def _gives_by_memory(self: Coordinator, name: str) -> LiveQueue:
    known = self._queues.get(name)
    return await _live(self, name) if known is None or known.is_lost else known


async def _is_always_mine(_self: Coordinator, _queue: LiveQueue) -> bool:
    return True


def _settles_what_is_over(self: Leases, settlement: Any, transaction_id: str) -> Any:
    lease = self._leases.get(settlement.lease)
    for part in () if lease is None else lease.parts:
        part.deadline_ms += 10**9
    found = _find(self, settlement, transaction_id)
    for part in () if lease is None else lease.parts:
        part.deadline_ms -= 10**9
    return found


async def _answers_before_the_commit(self: LiveQueue, runs: Any, forgotten: Any = ()) -> None:
    self._early = asyncio.create_task(_swallowed(_write(self, runs, forgotten)))  # type: ignore[attr-defined]


async def _swallowed(work: Any) -> None:
    await asyncio.gather(work, return_exceptions=True)


async def _publishes_ahead_of_settling(
    self: QueuePublisher, queue: Any, records: Any, changes: Any, *more: Any
) -> None:
    await _publish(self, queue, records, (), *more)
    await _publish(self, queue, [one for one in records if False], changes, *more)


async def _settles_without_publishing(self: QueuePublisher, queue: Any, records: Any, changes: Any, *more: Any) -> None:
    await _publish(self, queue, [one for one in records if False], changes, *more)


def _forgets_the_count(settings: Any, span: Any, deliveries: int, **more: Any) -> Run:
    run = released_run(settings, span, deliveries, **more)
    return msgspec.structs.replace(run, count=0) if run.state == RELEASED else run


def _knows_no_limit(settings: Any, span: Any, deliveries: int, **more: Any) -> Run:
    return released_run(msgspec.structs.replace(settings, max_deliveries=1_000), span, deliveries, **more)


def _forgets_in_a_rewrite(state: QueuesState) -> QueueChanges:
    whole = snapshot(state)
    return msgspec.structs.replace(whole, partitions=whole.partitions[:-1])


def _settles_one_too_many(start_offset: int, runs: Any, more: Any) -> Any:
    wide = [Run(run.first, run.last + 1, SETTLED) if run.state == SETTLED else run for run in more]
    return _overlaid(start_offset, runs, wide[:1] if wide and wide[0].state == SETTLED else more)


def _lets_go_in_a_transaction(self: Partitions, pending_id: str, held: Any) -> None:
    _wait_for(self, pending_id, held)
    for share, part in self._pending.pop(pending_id):
        share.release(part)


def _drops_at_the_commit(self: ConcludeSettlement, state: Any, now_ms: int) -> Any:
    return _conclude(replace(self, pending_ids=frozenset()), state, now_ms)


def _counts_what_nobody_began(part: HeldRange, now_ms: int, delay_ms: int) -> Run:
    return Run(part.first, part.last, RELEASED, part.count + 1, now_ms + delay_ms)


def _ends_locks_early(self: Leases, lease: Any, parts: Any, lock_ms: int) -> None:
    _lock(self, lease, parts, lock_ms // 2)


def _goes_by_the_name(self: Partitions, topic: str, key: Any, log_start: int) -> Any:
    """Keeps the state of a topic that was deleted for the one that was made anew."""
    first = _first_ids.setdefault((self._queue, topic), key[0])
    return _share(self, topic, (first, key[1]), log_start)


async def _forgets_no_topic(*_: Any) -> None:
    """What was settled of topics that are no more stays."""


async def _moves_of_whatever_has_the_name(self: DeadLetters, queue: Any, key: Any, settled: Any, dead: Any) -> bool:
    state = (await self._topics.fresh(settled.topic, self._clock.monotonic_ms())).state
    return await _move_of(self, queue, (state.topic_id or key[0], key[1]), settled, dead)


_share, _move_of, _first_ids = Partitions.share, DeadLetters._move_of, dict[Any, str]()
_decide, _conclude, _begin, _live = SettleRuns.decide, ConcludeSettlement.decide, LiveQueue.__init__, Coordinator.live
_find, _lock, _write, _publish = Leases.find, Leases.lock, LiveQueue.write, QueuePublisher.publish
_wait_for, _overlaid = Partitions.wait_for, overlay_runs


@dataclass(frozen=True, slots=True)
class Planted:
    """A defect, and the histories in which it shows soon."""

    profile: Profile
    targets: tuple[tuple[str, Any], ...]
    first_seed: int = 0


_MEMORY = (
    ("gateway.queues.coordinator.Coordinator.live", _gives_by_memory),
    ("gateway.queues.coordinator.Coordinator.is_current", _is_always_mine),
    ("gateway.queues.live_queue.LiveQueue.is_current", property(lambda self: not self.is_lost)),
)
PLANTED: dict[str, Planted] = {
    "fences no coordinator": Planted(
        PASSING, (("log_format.queues.changes.SettleRuns.decide", _settles_unfenced), *_MEMORY), first_seed=0
    ),
    "takes over without waiting": Planted(
        PASSING, (("gateway.queues.live_queue.LiveQueue.__init__", _takes_over_without_waiting),), first_seed=35
    ),
    "gives locks by memory": Planted(PASSING, _MEMORY, first_seed=16),
    "settles what is over": Planted(
        PASSING, (("gateway.queues.leases.Leases.find", _settles_what_is_over),), first_seed=85
    ),
    "answers before the commit": Planted(
        FAULTY, (("gateway.queues.live_queue.LiveQueue.write", _answers_before_the_commit),), first_seed=49
    ),
    "never ends a lock": Planted(PASSING, (("gateway.queues.leases.Leases.ended", lambda self: []),), first_seed=20),
    "counts what nobody began": Planted(
        PASSING, (("gateway.queues.outcomes.unbegun_run", _counts_what_nobody_began),), first_seed=0
    ),
    "ends locks early": Planted(PASSING, (("gateway.queues.leases.Leases.lock", _ends_locks_early),), first_seed=15),
    "publishes ahead of settling": Planted(
        FAULTY, (("gateway.queues.publishing.QueuePublisher.publish", _publishes_ahead_of_settling),), first_seed=12
    ),
    "settles without publishing": Planted(
        PASSING, (("gateway.queues.publishing.QueuePublisher.publish", _settles_without_publishing),), first_seed=10
    ),
    "forgets the delivery count": Planted(
        PASSING, (("gateway.queues.outcomes.released_run", _forgets_the_count),), first_seed=4
    ),
    "knows no limit of deliveries": Planted(
        PASSING,
        (
            ("gateway.queues.outcomes.released_run", _knows_no_limit),
            ("gateway.queues.receiving.QueueReceiver._end", lambda self, take, share, some: None),
        ),
        first_seed=2,
    ),
    "forgets a partition in a rewrite": Planted(
        PASSING, (("log_format.queues.changes.snapshot", _forgets_in_a_rewrite),), first_seed=60
    ),
    "lets go what a transaction holds": Planted(
        PASSING,
        (
            ("gateway.queues.partitions.Partitions.wait_for", _lets_go_in_a_transaction),
            ("gateway.queues.partitions.Partitions._hold", lambda self, pending: None),
        ),
        first_seed=34,
    ),
    "drops settlements at the commit": Planted(
        PASSING, (("log_format.queues.changes.ConcludeSettlement.decide", _drops_at_the_commit),), first_seed=0
    ),
    "keeps the state of the topic before": Planted(
        RENEWED,
        (
            ("gateway.queues.partitions.Partitions.share", _goes_by_the_name),
            ("gateway.queues.watch.TopicWatch._forget_topics", _forgets_no_topic),
        ),
    ),
    "moves dead records of whatever has the name": Planted(
        RENEWED,
        (("gateway.queues.dead_letters.DeadLetters._move_of", _moves_of_whatever_has_the_name),),
        first_seed=1,
    ),
    "settles one too many": Planted(PASSING, (("log_format.queues.state.overlay_runs", _settles_one_too_many),)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    """The simulation sees every one of these defects."""
    planted = PLANTED[name]
    _first_ids.clear()
    code = Code(planted=planted.targets)
    assert shows(simulate_queues, planted.first_seed, SEEDS_MAX, profile=planted.profile, code=code)
