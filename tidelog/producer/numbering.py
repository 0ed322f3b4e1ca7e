"""Numbers a producer's requests to each topic, so that the gateway recognises each and keeps them in order.

The gateway promises (docs/http-api.md section 4.3) to take requests of one producer id to one topic in the order of their
sequences, without gaps. The same sequence again appends nothing; a refused request uses no sequence up. This module relies only
on what follows from that:

1. Several requests may be on their way, numbered in the order of the batches. Each is repeated until its outcome is known.
2. When a request is refused while others behind it are on their way, its number stays a gap for ever. None of the others can be
   in the log, whatever became of their answers. They are sent again, in order, under a new producer id.
3. When a request is given up in doubt, those behind it go on under their numbers. One that the gateway refuses as ahead, and of
   which no try is in doubt, is not in the log either. Any other one is in doubt, too.
4. A new producer id begins only when every request before has its outcome, so the order holds across ids.

Safe from any thread; each batch is one thread's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

import msgspec

from log_format.errors import ErrorCode, TidelogError
from tidelog.calls.producers import ProducerIdentity, Stamp
from tidelog.deadline import Deadline
from tidelog.errors import DeliveryTimeout, GatewayError, OutcomeUnknown

_T = TypeVar("_T")

TIMES_NUMBERED_MAX = 8
"""How often one request gets a new number: after a refusal, a forgotten producer or a deleted topic voids the old one."""

_PAUSE_S, _PAUSE_S_MAX = 0.01, 5.0

_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.SEQUENCE_OUT_OF_ORDER, ErrorCode.FENCED_PRODUCER)


class _Identity(msgspec.Struct, eq=False):
    """One producer id, for one topic."""

    producer: ProducerIdentity
    next_sequence: int = 0
    acknowledged: int = 0
    """How many of its requests the gateway has taken, as far as is known."""
    gap_at: int | None = None
    """The smallest sequence that will never be in the log."""
    retired: bool = False

    def never(self, sequence: int) -> bool:
        """Whether a request of this sequence is not in the log and never will be."""
        return self.gap_at is not None and self.gap_at < sequence


class _Number(msgspec.Struct, eq=False):
    identity: _Identity
    sequence: int
    is_last: bool
    """Whether the batch needs no further number when this one is used."""

    def stamp(self) -> Stamp:
        return Stamp(self.identity.producer, self.sequence)

    def is_final(self, error: GatewayError) -> bool:
        """Whether trying again under this number can't help."""
        if error.code is not ErrorCode.SEQUENCE_OUT_OF_ORDER:
            return False
        expected = error.fields.get("expected_sequence")
        is_forgotten = isinstance(expected, int) and expected < self.identity.acknowledged
        return is_forgotten or self.identity.retired


Post = Callable[[Stamp, Callable[[GatewayError], bool]], _T]
"""Sends one request with this stamp, and repeats it where that may help and the error is not final."""


class _Lane(msgspec.Struct, eq=False):
    """One topic's batches that are on their way, in order, and the numbers that they hold."""

    batches: deque[int] = msgspec.field(default_factory=deque)
    numbers: dict[int, _Number] = msgspec.field(default_factory=dict)
    identity: _Identity | None = None

    def behind(self, number: _Number) -> bool:
        """Whether a request under a later number of the same identity is on its way."""
        return any(
            other.identity is number.identity and other.sequence > number.sequence for other in self.numbers.values()
        )


class Numbering:
    """The numbers of one producer's requests."""

    def __init__(self, issue: Callable[[str, Deadline], ProducerIdentity], *, renews: bool) -> None:
        """``issue`` gives the producer for a topic's requests, until a deadline.

        ``renews``: each call issues another one, so that a refused or forgotten request can be numbered anew.
        """
        self._issue = issue
        self._renews = renews
        self._lanes: dict[str, _Lane] = {}
        self._changed = threading.Condition()

    def enter(self, topic: str, batch: int) -> None:
        """Note that a batch is on its way, behind all that entered before."""
        with self._changed:
            self._lanes.setdefault(topic, _Lane()).batches.append(batch)

    def leave(self, topic: str, batch: int) -> None:
        """Note that the batch has its outcome."""
        with self._changed:
            lane = self._lanes[topic]
            lane.batches.remove(batch)
            lane.numbers.pop(batch, None)
            self._changed.notify_all()

    def start_over(self) -> None:
        """Begin every topic under another producer id. Nothing may be on its way."""
        with self._changed:
            assert not any(lane.batches for lane in self._lanes.values())
            self._lanes = {}

    def send(self, topic: str, batch: int, deadline: Deadline, post: Post[_T], *, is_last: bool) -> _T:
        """Post one request of the batch under its number. ``is_last``: if it succeeds the batch needs no further one.

        Raises ``OutcomeUnknown`` when it may be in the log; any other ``TidelogError`` says that it is not.
        """
        lane = self._lanes[topic]
        times, pause_s = 0, _PAUSE_S
        while times < TIMES_NUMBERED_MAX and not (times and deadline.near):
            number = self._take(topic, batch, deadline, is_last=is_last)
            try:
                result = post(number.stamp(), number.is_final)
            except TidelogError as error:
                if not self._is_to_be_repeated(lane, batch, number, error):
                    raise
                if times and error.code is ErrorCode.UNKNOWN_PRODUCER and not number.identity.acknowledged:
                    # An id of this moment is refused: of a topic that was repaired just now (docs/operations.md).
                    threading.Event().wait(min(pause_s, deadline.remaining_ms() / 1000))
                    pause_s = min(2 * pause_s, _PAUSE_S_MAX)
                else:
                    times += 1
            else:
                with self._changed:
                    number.identity.acknowledged = max(number.identity.acknowledged, number.sequence + 1)
                    if not is_last:
                        del lane.numbers[batch]
                    self._changed.notify_all()
                return result
        raise DeliveryTimeout(f"Topic {topic!r} forgot its producers again and again. The records are not stored.")

    def _take(self, topic: str, batch: int, deadline: Deadline, *, is_last: bool) -> _Number:
        """The batch's next number. Waits until the batches before it have theirs."""
        lane = self._lanes[topic]
        with self._changed:
            if not self._changed.wait_for(lambda: self._may_take(lane, batch), deadline.remaining_s()):
                raise DeliveryTimeout("Records before these took all the time for delivery. These were not sent.")
            if lane.identity is not None and not lane.identity.retired:
                return self._next(lane, lane.identity, batch, is_last=is_last)
        # No other batch does the same: this one is the first, and the others wait for its number.
        identity = _Identity(self._issue(topic, deadline))
        with self._changed:
            lane.identity = identity
            return self._next(lane, identity, batch, is_last=is_last)

    def _next(self, lane: _Lane, identity: _Identity, batch: int, *, is_last: bool) -> _Number:
        number = _Number(identity, identity.next_sequence, is_last)
        identity.next_sequence += 1
        lane.numbers[batch] = number
        self._changed.notify_all()
        return number

    def _may_take(self, lane: _Lane, batch: int) -> bool:
        if lane.batches[0] == batch:
            return True
        identity = lane.identity
        if identity is None or identity.retired:
            return False
        for other in lane.batches:
            if other == batch:
                return True
            number = lane.numbers.get(other)
            if number is None or number.identity is not identity or not number.is_last:
                return False
        return False

    def _is_to_be_repeated(self, lane: _Lane, batch: int, number: _Number, error: TidelogError) -> bool:
        """Note that a request failed: whether to send it under another number. Raises ``OutcomeUnknown``."""
        with self._changed:
            del lane.numbers[batch]
            identity = number.identity
            was_sent = error.may_have_happened or (isinstance(error, GatewayError) and error.after_doubt)
            self._changed.notify_all()
            if was_sent and not identity.never(number.sequence):
                identity.retired = True
                if error.may_have_happened:
                    raise error
                unknown = OutcomeUnknown(f"An earlier try may have happened; the last one was refused: {error.detail}")
                unknown.__cause__ = error
                raise unknown
            is_forgotten = self._renews and (error.code in _FORGOTTEN or identity.never(number.sequence))
            if is_forgotten or identity.retired or lane.behind(number):
                identity.retired = True
                gaps = [number.sequence] + ([] if identity.gap_at is None else [identity.gap_at])
                identity.gap_at = min(gaps)
            else:
                identity.next_sequence = number.sequence
            return is_forgotten
