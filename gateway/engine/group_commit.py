"""Group commit: items submitted while a commit is under way share the next one.

1. The queue is bounded. Groups take items in the order of submission; the schedule says when and how many.
2. Groups are taken one after another, and ``work`` commits each. The next group is taken when ``work`` has ended, or as soon
   as ``work`` has called ``Group.allow_next``. Then both groups upload in parallel, and ``Group.wait_for_earlier`` keeps their
   commits in order.
3. Each item is settled exactly once, even when its caller has gone.
4. An error of ``work`` settles the items that ``work`` has not settled; a defect settles them with ``OutcomeUnknown``. A
   defect before ``allow_next`` also refuses the items that no group has taken: ``BackOff``, nothing happened.

What is committed, and where, is up to ``work``. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, Generic, Protocol, TypeVar

from gateway.call import current_call, detached_from_call
from gateway.engine.outcome import TimeLimits, settle
from gateway.problem import overloaded
from log_format.errors import BackOff, OutcomeUnknown, TidelogError

_log = logging.getLogger("gateway.commit")

ItemT = TypeVar("ItemT")
OutcomeT = TypeVar("OutcomeT")

IMMEDIATELY: Final = -inf
"""Time of a schedule for a group that is due immediately."""


@dataclass(slots=True, eq=False)
class Entry(ABC, Generic[ItemT, OutcomeT]):
    """An item under way.

    ``arrived``: loop time of its submission. ``sender``: connection that sent it, if somebody waits for the answer. ``payer``:
    topic, group or queue that the item is for, if several share the savings.
    """

    item: ItemT
    size_bytes: int
    arrived: float = field(init=False)
    sender: Hashable = field(init=False, default=None)
    payer: Hashable = field(init=False, default=None)

    @abstractmethod
    def settle(self, outcome: OutcomeT | TidelogError) -> None:
        """Settle the item with its outcome or error. Only the first call counts."""


@dataclass(slots=True, eq=False)
class Pending(Entry[ItemT, OutcomeT]):
    """An item whose outcome a caller awaits: the future ``settled`` gets it."""

    settled: asyncio.Future[OutcomeT]

    def settle(self, outcome: OutcomeT | TidelogError) -> None:
        """Settle the future with the outcome (``Entry.settle``)."""
        settle(self.settled, outcome)


@dataclass(slots=True, eq=False)
class EntryQueue(Generic[ItemT]):
    """Items that no group has taken, in the order of submission."""

    entries: list[Entry[ItemT, Any]] = field(default_factory=list)
    size_bytes: int = 0
    removals: int = 0
    """Number of items that their callers have withdrawn."""

    def __bool__(self) -> bool:
        return bool(self.entries)

    def append(self, entry: Entry[ItemT, Any]) -> None:
        """Add an item at the end."""
        self.entries.append(entry)
        self.size_bytes += entry.size_bytes

    def remove(self, entry: Entry[ItemT, Any]) -> bool:
        """Remove an item; return False if it is not in this queue."""
        try:
            self.entries.remove(entry)
        except ValueError:
            return False
        self.size_bytes -= entry.size_bytes
        self.removals += 1
        return True

    def take(self, count: int) -> list[Entry[ItemT, Any]]:
        """Remove and return the first ``count`` items, or all if there are fewer."""
        taken, self.entries[:count] = self.entries[:count], []
        self.size_bytes -= sum(pending.size_bytes for pending in taken)
        return taken


class Schedule(Protocol):
    """Rule that decides when a group is taken, and how many of the waiting items it takes. ``waiting`` is never empty."""

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        """Return the loop time from which a group may be taken."""
        ...

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        """Return whether another group may be under way in addition to the groups that have made way."""
        ...

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Return how many items the group takes, at least one. Called once for each group."""
        ...


class ImmediateSchedule:
    """Schedule of groups of all waiting items, each as soon as the last group has ended."""

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        """Return ``IMMEDIATELY``."""
        del waiting, now
        return IMMEDIATELY

    def has_room(self, waiting: EntryQueue[Any]) -> bool:
        """Return True."""
        del waiting
        return True

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Return the number of waiting items."""
        del now
        return len(waiting.entries)


class Group(Generic[ItemT, OutcomeT]):
    """Items of one commit."""

    def __init__(
        self,
        pending: Sequence[Entry[ItemT, OutcomeT]],
        before: asyncio.Task[None] | None,
        on_next_allowed: Callable[[], None],
    ) -> None:
        self.pending = pending
        self.size_bytes = sum(each.size_bytes for each in pending)
        self.allows_next = False
        self._before = before
        self._on_next_allowed = on_next_allowed

    @property
    def items(self) -> list[ItemT]:
        """Items in the order of submission."""
        return [each.item for each in self.pending]

    @property
    def is_next(self) -> bool:
        """Whether every group that was taken earlier has ended."""
        return self._before is None or self._before.done()

    def allow_next(self) -> None:
        """Let the next group be taken while this one is under way."""
        if not self.allows_next:
            self.allows_next = True
            self._on_next_allowed()

    async def wait_for_earlier(self) -> None:
        """Wait until every group that was taken earlier has ended."""
        before, self._before = self._before, None
        if before is not None and not before.done():
            await asyncio.wait((before,))

    def settle(self, outcomes: Sequence[OutcomeT | TidelogError]) -> None:
        """Settle each item with its own outcome. Callers resume in a later iteration of the event loop."""
        for each, outcome in zip(self.pending, outcomes, strict=True):
            each.settle(outcome)

    def fail(self, error: TidelogError) -> None:
        """Settle all unsettled items with the error."""
        for each in self.pending:
            each.settle(error)


class GroupCommit(Generic[ItemT, OutcomeT]):
    """Queue of items that are committed in groups.

    ``work`` commits a group and settles it. ``label`` names the target of the commits in errors.
    """

    def __init__(
        self,
        work: Callable[[Group[ItemT, OutcomeT]], Awaitable[None]],
        *,
        schedule: Schedule,
        label: str,
        waiting_max: int,
    ) -> None:
        self._work = work
        self._schedule = schedule
        self._label = label
        self._waiting_max = waiting_max
        self._waiting: EntryQueue[ItemT] = EntryQueue()
        self._draining = False
        self._under_way: frozenset[asyncio.Task[None]] = frozenset()
        self._newest: asyncio.Task[None] | None = None
        self._next_is_allowed = True
        """Whether the newest group has made way."""
        self._is_due = False
        """Whether a group has become due, which it remains until it is taken."""
        self._is_taking = False
        """Whether a group will be taken in the next iteration of the event loop."""
        self._alarm: tuple[float, asyncio.TimerHandle] | None = None
        """Loop time at which the schedule is asked again, and the timer."""

    @property
    def is_idle(self) -> bool:
        """Whether no item waits and no group is under way."""
        return not self._waiting and not self._under_way

    @property
    def waiting(self) -> EntryQueue[ItemT]:
        """Items that no group has taken."""
        return self._waiting

    @property
    def waiting_count(self) -> int:
        """Number of items that no group has taken."""
        return len(self._waiting.entries)

    def submit(
        self, item: ItemT, size_bytes: int = 0, sender: Hashable = None, payer: Hashable = None
    ) -> Pending[ItemT, OutcomeT]:
        """Append an item of the present call to the queue.

        Args:
            sender: the item's sender if there is no call.
            payer: see ``Entry``.

        Raises ``BackOff`` (``OVERLOADED``) when the queue is full.
        """
        pending: Pending[ItemT, OutcomeT] = Pending(item, size_bytes, asyncio.get_running_loop().create_future())
        call = current_call()
        pending.sender = sender if call is None or call.sender is None else call.sender
        pending.payer = payer
        self.enqueue(pending)
        return pending

    def enqueue(self, entry: Entry[ItemT, OutcomeT]) -> None:
        """Append an entry to the queue, without a future for its outcome. Raises what ``submit`` raises."""
        if len(self._waiting.entries) >= self._waiting_max:
            raise overloaded(f"Too many requests wait for a commit of {self._label}.")
        entry.arrived = asyncio.get_running_loop().time()
        if not self._waiting:
            self._is_due = False
        self._waiting.append(entry)
        self._look(entry.arrived)

    async def outcome(
        self,
        pending: Pending[ItemT, OutcomeT],
        time_limits: TimeLimits,
        *,
        taken_within_ms: float,
        ends_within_ms: float,
    ) -> OutcomeT:
        """Return the outcome of an item. The item goes on when the caller is cancelled. Raises what ``TimeLimits.outcome``
        raises."""
        return await time_limits.outcome(
            pending.settled,
            partial(self.withdraw, pending),
            label=self._label,
            taken_within_ms=taken_within_ms,
            ends_within_ms=ends_within_ms,
        )

    def withdraw(self, entry: Entry[ItemT, OutcomeT]) -> bool:
        """Withdraw an item; return False if a group has taken it. The caller settles it."""
        return self._waiting.remove(entry)

    def reconsider(self) -> None:
        """Ask the schedule again, since its inputs have changed."""
        if self._waiting:
            self._look(asyncio.get_running_loop().time())

    async def wait_under_way(self) -> None:
        """Wait until the groups that are under way now have ended."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def drain(self) -> None:
        """Wait until all items are settled. From now on groups are due immediately."""
        self._draining = True
        self.reconsider()
        while not self.is_idle:
            if self._under_way:
                await asyncio.wait(self._under_way)
            else:
                await asyncio.sleep(0)  # A group is taken in this iteration of the event loop.

    def _look(self, now: float) -> None:
        """Let a due group be taken in the next iteration of the event loop, so that items arriving now are part of it."""
        if self._is_taking or not self._next_is_allowed:
            return
        try:
            due = self._schedule.due(self._waiting, now)
            self._is_due = self._is_due or self._draining or due <= now
            self._is_taking = self._is_due and self._schedule.has_room(self._waiting)
        except Exception as error:  # noqa: BLE001 - no other code would settle the waiting items
            _log.error("the commits of %s met a defect", self._label, exc_info=error)
            self._refuse()
            return
        if not self._is_due and self._alarm is not None and self._alarm[0] <= due:
            return  # An earlier timer will ask the schedule again.
        if self._alarm is not None:
            self._alarm[1].cancel()
            self._alarm = None
        if self._is_taking:
            with detached_from_call():  # A group takes other calls' items, too.
                asyncio.get_running_loop().call_soon(self._take)
        elif not self._is_due:
            with detached_from_call():
                self._alarm = due, asyncio.get_running_loop().call_at(due, self._on_timer)

    def _on_timer(self) -> None:
        self._alarm = None
        if self._waiting:
            self._look(asyncio.get_running_loop().time())

    def _take(self) -> None:
        self._is_taking = self._is_due = False
        if not self._waiting:
            return
        try:
            count = self._schedule.take(self._waiting, asyncio.get_running_loop().time())
        except Exception as error:  # noqa: BLE001 - no other code would settle the waiting items
            _log.error("the commits of %s met a defect", self._label, exc_info=error)
            self._refuse()
            return
        self._next_is_allowed = False
        group: Group[ItemT, OutcomeT] = Group(self._waiting.take(count), self._newest, self._on_next_allowed)
        task = self._newest = asyncio.create_task(self._run_group(group))
        self._under_way |= {task}

    def _on_next_allowed(self) -> None:
        self._next_is_allowed = True
        self.reconsider()

    def _refuse(self) -> None:
        """Refuse all waiting items after a defect: none of them was written."""
        for entry in self._waiting.take(self.waiting_count):
            entry.settle(BackOff(f"Internal error in the commits of {self._label}: the change was not written."))

    async def _run_group(self, group: Group[ItemT, OutcomeT]) -> None:
        try:
            await self._work(group)
            group.allow_next()
        except TidelogError as error:
            group.fail(error)
            group.allow_next()
        except Exception as error:  # noqa: BLE001 - the top of this work
            _log.error("a commit of %s met a defect", self._label, exc_info=error)
            if not group.allows_next:
                self._refuse()
        finally:
            group.fail(OutcomeUnknown(f"The commit of {self._label} ended without an outcome."))
            self._under_way = frozenset(task for task in self._under_way if task is not asyncio.current_task())
            group.allow_next()
            self.reconsider()
