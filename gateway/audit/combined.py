"""Events of one kind that may be very many: those that agree in some members become one event, with their number.

1. Of a new group the first event is told ``HELD_MS`` after it came, each further one ``apart_ms`` after the one before at least.
2. Beyond ``groups_max`` groups, events lose the last of these members, and are combined without it; beyond that many more, the
   one before it. So what clients make up takes bounded memory, and no event is left out of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from gateway.audit.event import AuditEvent
from log_format.clock import Clock

HELD_MS: Final = 6_000
"""Longest time that a first event waits for others: it is readable within 10 s."""


class _Group:
    """Events that are combined: the first that is not told yet, their number, and when the last one was told."""

    __slots__ = ("count", "due_ms", "first", "told_ms")

    def __init__(self) -> None:
        self.first: AuditEvent | None = None
        self.count = 0
        self.due_ms = 0
        self.told_ms: int | None = None


class CombinedEvents:
    """Events that agree in ``members``. ``apart_ms``: least time between two events of a group; ``groups_max``: most groups that
    are told apart, in half a kilobyte each. Used on the event loop only."""

    def __init__(self, members: Sequence[str], *, apart_ms: int, groups_max: int, clock: Clock) -> None:
        self._members = members
        self._apart_ms = apart_ms
        self._groups_max = groups_max
        self._clock = clock
        self._groups: dict[tuple[str | None, ...], _Group] = {}

    @property
    def group_count(self) -> int:
        """Number of groups that are remembered."""
        return len(self._groups)

    def note(self, event: AuditEvent) -> None:
        """Add an event, which stands for ``event.count``."""
        event = self._found(event)
        group = self._groups.setdefault(self._key(event), _Group())
        if group.first is None:
            now_ms = self._clock.monotonic_ms()
            told_ms = -self._apart_ms if group.told_ms is None else group.told_ms
            group.first, group.due_ms = event, max(now_ms + HELD_MS, told_ms + self._apart_ms)
        group.count += event.count

    def is_new(self, event: AuditEvent) -> bool:
        """Return whether no event of its group was told for ``apart_ms``."""
        group = self._groups.get(self._key(self._found(event)))
        return group is None or group.told_ms is None

    def note_told(self, event: AuditEvent) -> None:
        """Count an event of the group as told now: the next one comes ``apart_ms`` later."""
        self._groups.setdefault(self._key(self._found(event)), _Group()).told_ms = self._clock.monotonic_ms()

    def due_in_ms(self, span_ms: int) -> int:
        """Return in how many milliseconds an event is to be told, at most ``span_ms``."""
        now_ms = self._clock.monotonic_ms()
        due = (group.due_ms - now_ms for group in self._groups.values() if group.first is not None)
        return max(0, min(span_ms, min(due, default=span_ms)))

    def take(self, *, is_last: bool = False) -> Iterator[AuditEvent]:
        """Yield the events that are to be told now, ``is_last``: all; and forget groups that were quiet for ``apart_ms``."""
        now_ms = self._clock.monotonic_ms()
        for key, group in list(self._groups.items()):
            if group.first is not None and (is_last or group.due_ms <= now_ms):
                yield msgspec.structs.replace(group.first, count=group.count)
                group.first, group.count, group.told_ms = None, 0, now_ms
            elif group.first is None and group.told_ms is not None and now_ms - group.told_ms > self._apart_ms:
                del self._groups[key]

    def _found(self, event: AuditEvent) -> AuditEvent:
        """Return the event without the members that it loses, so that there is a group for it or room for one."""
        for given_up, name in enumerate(("", *reversed(self._members))):
            if name:
                event = msgspec.structs.replace(event, **{name: None})
            if self._key(event) in self._groups or len(self._groups) < self._groups_max * (given_up + 1):
                break
        return event

    def _key(self, event: AuditEvent) -> tuple[str | None, ...]:
        return tuple(getattr(event, name) for name in self._members)
