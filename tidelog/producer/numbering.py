"""Sequence numbers of a producer's requests to each topic, for idempotence and order.

The gateway promises (docs/http-api.md section 4.3) to accept requests of one producer id to one topic in the order of their
sequences, without gaps. A repeated sequence appends nothing; a refused request does not consume its sequence. This module
relies only on what follows:

1. Several requests may be in flight, numbered in the order of the batches. Each is retried until its outcome is known.
2. When a request is refused while later ones are in flight, its sequence remains a gap for ever. None of the later ones can be
   in the log, whatever their answers. They are sent again, in order, under a new producer id.
3. When a request is given up in doubt, later ones continue under their numbers. A later one that the gateway refuses as ahead,
   and of which no attempt is in doubt, is not in the log either. Any other one is in doubt, too.
4. A new producer id starts only when every earlier request has its outcome, so the order holds across ids.

Thread-safe; each batch belongs to one thread.
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
"""Maximum number of times that a request is numbered anew after a refusal, a forgotten producer or a deleted topic voids its
number."""

_PAUSE_S, _PAUSE_S_MAX = 0.01, 5.0

_FORGOTTEN = (ErrorCode.UNKNOWN_PRODUCER, ErrorCode.SEQUENCE_OUT_OF_ORDER, ErrorCode.FENCED_PRODUCER)


class _Identity(msgspec.Struct, eq=False):
    """A producer id for one topic."""

    producer: ProducerIdentity
    next_sequence: int = 0
    acknowledged: int = 0
    """Number of its requests that the gateway has accepted, as far as is known."""
    gap_at: int | None = None
    """Smallest sequence that will never be in the log."""
    retired: bool = False

    def never(self, sequence: int) -> bool:
        """Return whether a request of this sequence is not in the log and never will be."""
        return self.gap_at is not None and self.gap_at < sequence


class _Number(msgspec.Struct, eq=False):
    identity: _Identity
    sequence: int
    is_last: bool
    """Whether the batch needs no further number after this one."""

    def stamp(self) -> Stamp:
        return Stamp(self.identity.producer, self.sequence)

    def is_final(self, error: GatewayError) -> bool:
        """Return whether retrying under this number can't help."""
        if error.code is not ErrorCode.SEQUENCE_OUT_OF_ORDER:
            return False
        expected = error.fields.get("expected_sequence")
        is_forgotten = isinstance(expected, int) and expected < self.identity.acknowledged
        return is_forgotten or self.identity.retired


Post = Callable[[Stamp, Callable[[GatewayError], bool]], _T]
"""Function that sends one request with this stamp, and retries it while that may help and the error is not final."""


class _Lane(msgspec.Struct, eq=False):
    """A topic's batches in flight, in order, and the numbers that they hold."""

    batches: deque[int] = msgspec.field(default_factory=deque)
    numbers: dict[int, _Number] = msgspec.field(default_factory=dict)
    identity: _Identity | None = None

    def behind(self, number: _Number) -> bool:
        """Return whether a request with a later number of the same identity is in flight."""
        return any(
            other.identity is number.identity and other.sequence > number.sequence for other in self.numbers.values()
        )


class SequenceNumbering:
    """Allocator of the numbers of one producer's requests."""

    def __init__(self, issue: Callable[[str, Deadline], ProducerIdentity], *, renews: bool) -> None:
        """Create the allocator.

        Args:
            issue: returns the producer id for a topic's requests, within a deadline.
            renews: whether each call of ``issue`` returns a new id, so that a refused or forgotten request can be renumbered.
        """
        self._issue = issue
        self._renews = renews
        self._lanes: dict[str, _Lane] = {}
        self._changed = threading.Condition()

    def register(self, topic: str, batch: int) -> None:
        """Register a batch as in flight, behind all batches registered before."""
        with self._changed:
            self._lanes.setdefault(topic, _Lane()).batches.append(batch)

    def unregister(self, topic: str, batch: int) -> None:
        """Unregister a batch that has its outcome."""
        with self._changed:
            lane = self._lanes[topic]
            lane.batches.remove(batch)
            lane.numbers.pop(batch, None)
            self._changed.notify_all()

    def start_over(self) -> None:
        """Start every topic under another producer id. Nothing may be in flight."""
        with self._changed:
            assert not any(lane.batches for lane in self._lanes.values())
            self._lanes = {}

    def send(self, topic: str, batch: int, deadline: Deadline, post: Post[_T], *, is_last: bool) -> _T:
        """Send one request of the batch under its number. ``is_last``: if it succeeds, the batch needs no further request.

        Raises ``OutcomeUnknown`` when the request may be in the log; any other ``TidelogError`` means that it is not.
        """
        lane = self._lanes[topic]
        times, pause_s = 0, _PAUSE_S
        while times < TIMES_NUMBERED_MAX and not (times and deadline.near):
            number = self._take(topic, batch, deadline, is_last=is_last)
            try:
                result = post(number.stamp(), number.is_final)
            except TidelogError as error:
                if not self._should_repeat(lane, batch, number, error):
                    raise
                if times and error.code is ErrorCode.UNKNOWN_PRODUCER and not number.identity.acknowledged:
                    # A new id is refused as well: the topic was repaired just now (docs/operations.md).
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
        raise DeliveryTimeout(
            f"Topic {topic!r} repeatedly forgot this producer's sequence numbers. The records were not stored."
        )

    def _take(self, topic: str, batch: int, deadline: Deadline, *, is_last: bool) -> _Number:
        """Return the batch's next number. Waits until the batches before it have theirs."""
        lane = self._lanes[topic]
        with self._changed:
            if not self._changed.wait_for(lambda: self._may_take(lane, batch), deadline.remaining_s()):
                raise DeliveryTimeout(
                    "Earlier records of the topic took all of delivery_timeout_ms. These were not sent."
                )
            if lane.identity is not None and not lane.identity.retired:
                return self._next(lane, lane.identity, batch, is_last=is_last)
        # No other batch gets here concurrently: this one is the first, and the others wait for its number.
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

    def _should_repeat(self, lane: _Lane, batch: int, number: _Number, error: TidelogError) -> bool:
        """Record a failed request, and return whether to send it under another number. Raises ``OutcomeUnknown``."""
        with self._changed:
            del lane.numbers[batch]
            identity = number.identity
            was_sent = error.may_have_happened or (isinstance(error, GatewayError) and error.after_doubt)
            self._changed.notify_all()
            if was_sent and not identity.never(number.sequence):
                identity.retired = True
                if error.may_have_happened:
                    raise error
                unknown = OutcomeUnknown(
                    f"An earlier attempt may have stored the records; the last one was refused: {error.detail}"
                )
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
