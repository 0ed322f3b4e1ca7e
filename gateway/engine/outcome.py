"""The outcome of an item of a group commit: settled once, and waited for within time limits.

One timer serves many waits: a timer for each would cost more than the wait itself. Used on the event loop only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from log_format.errors import BackOff, OutcomeUnknown, TidelogError

OutcomeT = TypeVar("OutcomeT")


def settle(settled: asyncio.Future[OutcomeT], outcome: OutcomeT | TidelogError) -> None:
    """Settle the future with the outcome. Only the first call counts."""
    if settled.done():
        return
    if isinstance(outcome, TidelogError):
        settled.set_exception(outcome)
        settled.exception()  # Marked as retrieved: its caller may have gone.
    else:
        settled.set_result(outcome)


class _Wait(Generic[OutcomeT]):
    """A caller's wait for ``settled``. ``answer`` is the caller's own future: when the caller is cancelled, ``settled`` goes
    on."""

    __slots__ = ("answer", "due", "ends_within_ms", "is_taken", "label", "settled", "withdraw")

    def __init__(
        self,
        settled: asyncio.Future[OutcomeT],
        withdraw: Callable[[], bool],
        label: str,
        due: float,
        ends_within_ms: float,
    ) -> None:
        self.settled = settled
        self.withdraw = withdraw
        self.label = label
        self.due = due
        self.ends_within_ms = ends_within_ms
        self.is_taken = False
        self.answer: asyncio.Future[OutcomeT] = settled.get_loop().create_future()
        settled.add_done_callback(self._on_settled)

    def _on_settled(self, settled: asyncio.Future[OutcomeT]) -> None:
        if self.answer.done():
            return
        error = settled.exception()
        if error is None:
            self.answer.set_result(settled.result())
        else:
            self.answer.set_exception(error)
            self.answer.exception()  # Marked as retrieved: its caller may be going.


class TimeLimits:
    """Timer of waits. One object may serve all waits of an event loop."""

    __slots__ = ("_alarm", "_waits")

    def __init__(self) -> None:
        self._waits: set[_Wait[Any]] = set()
        self._alarm: asyncio.TimerHandle | None = None

    async def outcome(
        self,
        settled: asyncio.Future[OutcomeT],
        withdraw: Callable[[], bool],
        *,
        label: str,
        taken_within_ms: float,
        ends_within_ms: float,
    ) -> OutcomeT:
        """Return the outcome that the item is settled with.

        Args:
            settled: the item's future.
            withdraw: withdraws the item; returns False if a group has taken it.
            label: target of the commit, in errors.
            taken_within_ms: time until a group must have taken the item.
            ends_within_ms: time beyond that until the group must have ended.

        Raises the item's error; ``BackOff`` if no group took the item in time: then it is withdrawn; ``OutcomeUnknown`` if its
        group takes too long.
        """
        if settled.done():
            return settled.result()
        wait = _Wait(settled, withdraw, label, settled.get_loop().time() + taken_within_ms / 1000, ends_within_ms)
        self._waits.add(wait)
        if self._alarm is None or wait.due < self._alarm.when():
            self._set_alarm(wait.due)
        try:
            return await wait.answer
        finally:
            self._waits.discard(wait)
            if not self._waits:
                self._waits = set()  # An emptied set keeps the room of its largest size.

    def _set_alarm(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(due, self._look)

    def _look(self) -> None:
        """End the waits whose time is over. The timer is not cancelled for waits that have ended: it may fire for none."""
        self._alarm = None
        now = asyncio.get_running_loop().time()
        for wait in [wait for wait in self._waits if wait.due <= now]:
            self._end(wait, now)
        if self._waits:
            self._set_alarm(min(wait.due for wait in self._waits))

    def _end(self, wait: _Wait[Any], now: float) -> None:
        if wait.settled.done():
            self._waits.discard(wait)
        elif wait.is_taken:
            self._waits.discard(wait)
            unknown = OutcomeUnknown(f"The commit of {wait.label} takes too long: its outcome is unknown.")
            settle(wait.answer, unknown)
        elif wait.withdraw():
            self._waits.discard(wait)
            settle(wait.settled, BackOff(f"The store does not answer for {wait.label}: the change was not written."))
        else:
            wait.is_taken, wait.due = True, now + wait.ends_within_ms / 1000
