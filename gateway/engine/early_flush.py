"""Early flushes: when a flush, or a commit to a system table, may begin before its timer (``flush.ms``, or a table's pace).

A flush costs ``flush.ms`` of time. A queue earns time as it goes by, saves what it does not spend, and pays for early flushes
from its savings. So in the long run it has no more flushes than one each ``flush.ms``. A queue that is opened has what was
earned since it was last written to: opening it again and again gives nothing more. Those that share a queue share its savings
(``savings_shares``).

An early flush helps a sender that waits for an answer. It helps nobody while other senders go on sending. So it begins when no
flush is under way, and either

1. every sender of the last ``flush.ms`` has as many batches waiting as it had when it last waited for an answer. A sender that
   sent more while its batches were committed is expected to send twice as many, so a sender that streams soon waits for the
   timer. If it sends nothing more until the rest is committed, too, all of these batches were what it had under way;
2. or nothing has come for ``QUIET_SECONDS_MIN``, and for ``QUIET_GAPS`` times the mean gap between two batches, counted from
   the end of the previous flush at the earliest.

A sender is a connection. Batches without one (the audit, the publisher of delayed records) never begin a flush early.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final, Self

from gateway.engine.group_commit import IMMEDIATELY, Entry, EntryQueue, ImmediateSchedule
from gateway.engine.open_table import TableAccess
from gateway.engine.savings_shares import SavingsShares
from gateway.engine.savings_watch import (
    FLUSH_ADVICE,
    WARNING_REPEAT_SECONDS,
    FlushReason,
    QueueKind,
    warn_spent,
)

OTHERS_SHARE_DIVISOR: Final = 4
WRONG_GUESSES_MAX: Final = 3
STREAM_FLUSHES: Final = 20
"""Rule for a pool of connections that streams. It streams if others sent during ``WRONG_GUESSES_MAX`` flushes in a row that all
known senders waited for, at least a quarter (1 / ``OTHERS_SHARE_DIVISOR``) as fast as batches came before the flush: a pool's
connections always look like new senders. For the time of ``STREAM_FLUSHES`` flushes only silence begins a flush early."""
QUIET_SECONDS_MIN: Final = 0.02
"""Silence that is longer than a client usually takes to send its next request after an answer."""
QUIET_GAPS: Final = 6
STREAM_QUIETS: Final = 4
"""Factor of the silence needed where connections of a pool stream: a client that is busy pauses, too, and goes on."""
QUIET_LATE_SECONDS_MAX: Final = 0.005
"""Lateness of the event loop beyond which a silence does not count: a busy loop has not heard what came meanwhile."""
SENDERS_MAX: Final = 256
"""Number of senders remembered for one queue. Among more of them one is always sending, so the timer gathers their batches."""
_OLD_GAPS: Final = 7 / 8
"""Weight of the previous mean when the newest gap is averaged in."""


@dataclass(slots=True)
class _Sender:
    """A connection that sent batches. ``window``: number of batches that it has under way when it waits for an answer.

    ``answered``: batches that were committed while it had more under way, and since when it has sent nothing.
    """

    arrived: float = 0.0
    window: int = 1
    waiting: int = 0
    under_way: int = 0
    answered: int = 0

    @property
    def may_send_more(self) -> bool:
        """Whether the sender may send more before it waits for an answer."""
        return self.waiting < self.window


class EarlyFlush:
    """Savings and senders of one queue, which decide whether its next flush begins early.

    Times are the event loop's, in seconds.

    Args:
        first_seconds: maximum of the savings at first.
        seconds_max: maximum of the savings.
        label: name of the queue in the log.
        advice: what can be done once the savings are spent, for the log.
        rested: returns for how long the queue was not written to.
    """

    __slots__ = (
        "__weakref__",
        "_advice",
        "_arrived",
        "_crowded_at",
        "_ended_at",
        "_flush_seconds",
        "_gap",
        "_gathered_seconds",
        "_guess",
        "_is_short",
        "_label",
        "_lacking",
        "_may_spend",
        "_removals",
        "_rested",
        "_saved",
        "_saved_at",
        "_seconds_max",
        "_seen",
        "_senders",
        "_shares",
        "_streams_until",
        "_warned_at",
        "_wrong_guesses",
    )

    def __init__(
        self,
        first_seconds: float,
        seconds_max: float,
        label: str,
        advice: str = FLUSH_ADVICE,
        rested: Callable[[], float] = lambda: inf,
    ) -> None:
        self._saved = min(first_seconds, seconds_max)
        self._saved_at: float | None = None
        """Time of the last flush, from which savings grow; None before the first flush."""
        self._rested = rested
        self._shares = SavingsShares()
        self._may_spend = False
        """Whether one of the waiting entries' payers has spent no more than its share."""
        self._seconds_max = seconds_max
        self._senders: dict[Hashable, _Sender] = {}
        """Senders by key, least recently heard of first."""
        self._lacking = 0
        self._crowded_at = -inf
        """Time when a batch came whose sender found no room in ``_senders``."""
        self._seen = self._removals = 0
        self._arrived = -inf
        self._gap = 0.0
        self._label, self._advice = label, advice
        self._warned_at = self._ended_at = self._streams_until = -inf
        self._guess: Entry[Any, Any] | None = None
        """First entry of the last flush that began because all known senders waited."""
        self._wrong_guesses = 0
        """Number of such flushes in a row during which others sent."""
        self._flush_seconds = self._gathered_seconds = 0.0
        """Cost of the last flush, and time that its first batch had waited."""
        self._is_short = False
        """Whether a flush would have begun early if savings had allowed it."""

    @classmethod
    def for_queue(
        cls,
        kind: QueueKind,
        label: str,
        access: TableAccess,
        rested: Callable[[], float],
        *,
        seconds_max: float = inf,
        advice: str = FLUSH_ADVICE,
    ) -> Self:
        """Return one for a queue with the gateway's settings, which metrics report from now on.

        Args:
            kind: kind of the queue, for metrics.
            seconds_max: further maximum of the savings.

        Other arguments: see ``EarlyFlush``.
        """
        bounds = access.bounds
        seconds_max = min(bounds.flush_savings_max_ms / 1000, seconds_max)
        early = cls(bounds.flush_savings_first_ms / 1000, seconds_max, label, advice, rested)
        access.metrics.savings.register(kind, early)
        return early

    def saved_seconds(self, now: float) -> float:
        """Return the savings in seconds: what is left, plus what was earned since the last flush."""
        if self._saved_at is None:
            return min(self._saved, self._rested())
        return min(self._seconds_max, self._saved + max(0.0, now - self._saved_at))

    def is_spent(self, now: float, payer: Hashable = None) -> bool:
        """Return whether only the timer begins flushes, for all or for a payer: less than the cost of two flushes is saved. Two
        is about what comes in while one flush waits for the timer."""
        left = self.saved_seconds(now)
        return left < 2 * self._flush_seconds or not self._shares.may_spend(payer, left)

    def due(self, waiting: EntryQueue[Any], now: float, *, flush_seconds: float, is_under_way: bool) -> float:
        """Return when a flush of the waiting entries may begin early; infinity if it may not.

        ``flush_seconds``: cost of the flush; ``is_under_way``: whether an earlier flush is under way.
        """
        self._notice(waiting, now - flush_seconds)
        is_crowded = self._crowded_at > now - flush_seconds
        if is_under_way or is_crowded or not self._senders:
            return inf
        if self.saved_seconds(now) < flush_seconds or not self._may_spend:
            self._is_short = True
            return inf
        if self._all_wait(now):
            return IMMEDIATELY
        # A sender that has just been answered gets time to send again.
        quiet_seconds = max(QUIET_SECONDS_MIN, QUIET_GAPS * self._gap) * (
            STREAM_QUIETS if now < self._streams_until else 1
        )
        quiet_at = max(self._arrived, self._ended_at) + quiet_seconds
        if now > quiet_at + QUIET_LATE_SECONDS_MAX:
            self._ended_at, quiet_at = now, now + quiet_seconds
        return quiet_at

    def reason(self, timer_at: float, now: float) -> FlushReason:
        """Return why a flush that is not full begins now. ``timer_at``: the latest time at which it would have begun."""
        if timer_at <= now:
            return "timer"
        if not self._senders:
            return "drain"
        return "senders_wait" if self._all_wait(now) else "quiet"

    def on_taken(
        self, waiting: EntryQueue[Any], count: int, now: float, flush_seconds: float, *, is_late: bool = False
    ) -> None:
        """Pay ``flush_seconds`` for a flush of the first ``count`` entries, early or not; savings never become negative.

        ``is_late``: whether the timer began the flush.
        """
        self._notice(waiting, -inf)
        if is_late and self._is_short and self._seconds_max and now - self._warned_at >= WARNING_REPEAT_SECONDS:
            self._warned_at = now
            warn_spent(self._label, flush_seconds, self._advice, self._shares.largest)
        self._is_short = False
        self._flush_seconds = flush_seconds
        self._saved = max(0.0, self.saved_seconds(now) - flush_seconds)
        self._saved_at = now
        self._shares.pay((entry.payer for entry in waiting.entries[:count]), flush_seconds, now)
        self._may_spend = any(map(self._may_pay, waiting.entries[count:]))
        first = next(iter(waiting.entries), None)
        self._guess = None if self._lacking else first
        self._gathered_seconds = 0.0 if first is None else now - first.arrived
        self._seen -= count
        for entry in waiting.entries[:count]:
            if (sender := self._senders.get(entry.sender)) is not None:
                self._lacking -= sender.may_send_more
                sender.waiting -= 1
                sender.under_way += 1
                self._lacking += sender.may_send_more

    def on_ended(self, waiting: EntryQueue[Any], entries: Sequence[Entry[Any, Any]], now: float) -> None:
        """Learn from an ended flush how many batches its senders have under way when they wait.

        ``entries``: entries of the flush; ``waiting``: entries that came since it was taken.
        """
        self._notice(waiting, -inf)
        self._ended_at = now
        counts: dict[Hashable, int] = {}
        for entry in entries:
            counts[entry.sender] = counts.get(entry.sender, 0) + 1
        if entries and entries[0] is self._guess:
            others = sum(entry.sender not in counts for entry in waiting.entries)
            seconds = now - (now if self._saved_at is None else self._saved_at)
            streamed = len(entries) * min(1.0, seconds / max(self._gathered_seconds, 1e-6))
            self._wrong_guesses = self._wrong_guesses + 1 if others and OTHERS_SHARE_DIVISOR * others >= streamed else 0
            if self._wrong_guesses >= WRONG_GUESSES_MAX:
                self._streams_until = now + STREAM_FLUSHES * self._flush_seconds
        for key, count in counts.items():
            if (sender := self._senders.get(key)) is not None:
                self._lacking -= sender.may_send_more
                sender.under_way -= count
                more = sender.waiting + sender.under_way
                sender.answered += count
                sender.window = 2 * (count + more) if more else sender.answered
                sender.answered = sender.answered if more else 0
                self._lacking += sender.may_send_more

    def _all_wait(self, now: float) -> bool:
        """Return whether every known sender is assumed to wait for answers."""
        return not self._lacking and now >= self._streams_until

    def _notice(self, waiting: EntryQueue[Any], oldest: float) -> None:
        """Take in the entries that came since the last call, and drop the senders not heard of since ``oldest``."""
        if waiting.removals != self._removals:
            self._removals, self._seen, self._may_spend = waiting.removals, 0, False
            for sender in self._senders.values():
                sender.waiting = 0
            self._lacking = len(self._senders)
        for number, entry in enumerate(waiting.entries[self._seen :], self._seen):
            if entry.sender is not None:
                self._arrive(entry, is_first=not number)
        self._seen = len(waiting.entries)
        self._forget(oldest)

    def rest(self, now: float) -> None:
        """Drop senders not heard of for ``flush.ms``, so that a queue that nobody writes to any more is not looked at again."""
        if self._senders:
            self._forget(now - self._flush_seconds)

    def _forget(self, oldest: float) -> None:
        while self._senders:
            key, sender = next(iter(self._senders.items()))
            if sender.arrived >= oldest or sender.waiting or sender.under_way:
                break
            self._lacking -= sender.may_send_more
            del self._senders[key]

    def _may_pay(self, entry: Entry[Any, Any]) -> bool:
        """Return whether a flush may begin early for this entry's payer."""
        return entry.sender is not None and self._shares.may_spend(entry.payer, self.saved_seconds(entry.arrived))

    def _arrive(self, entry: Entry[Any, Any], *, is_first: bool) -> None:
        """Take in an entry. ``is_first``: no other entry waits, so its gap to the previous one tells nothing about streaming."""
        if not is_first:
            self._gap = _OLD_GAPS * self._gap + (1 - _OLD_GAPS) * max(0.0, entry.arrived - self._arrived)
        self._arrived = entry.arrived
        self._may_spend = self._may_spend or self._may_pay(entry)
        sender = self._senders.pop(entry.sender, None)
        if sender is None:
            if len(self._senders) >= SENDERS_MAX:
                self._crowded_at = entry.arrived
                return
            sender = _Sender()
            self._lacking += 1
        self._senders[entry.sender] = sender
        self._lacking -= sender.may_send_more
        sender.arrived = entry.arrived
        sender.answered = 0
        sender.waiting += 1
        self._lacking += sender.may_send_more


PACED_SAVINGS_SECONDS_MAX: Final = 3_600.0
_DAY_SECONDS: Final = 86_400.0


class PacedSchedule(ImmediateSchedule):
    """Schedule of groups of all waiting items: early while savings pay for it, else ``seconds`` after the last group was taken.

    ``per_second`` is the long-run rate, kept for whole days: no day has more groups, those paid from savings included.
    """

    def __init__(self, early: EarlyFlush, per_second: float) -> None:
        self._early = early
        self._seconds = (_DAY_SECONDS + PACED_SAVINGS_SECONDS_MAX) / _DAY_SECONDS / per_second
        self._taken_at = -inf

    def due(self, waiting: EntryQueue[Any], now: float) -> float:
        """Return ``IMMEDIATELY`` if savings pay for it and all senders wait, else the time that the pace or silence allows."""
        paced = self._taken_at + self._seconds
        return min(paced, self._early.due(waiting, now, flush_seconds=self._seconds, is_under_way=False))

    def take(self, waiting: EntryQueue[Any], now: float) -> int:
        """Take all waiting items."""
        is_late = now >= self._taken_at + self._seconds
        self._taken_at = now
        self._early.on_taken(waiting, len(waiting.entries), now, self._seconds, is_late=is_late)
        return len(waiting.entries)
