"""Readers that wait for records of a partition, woken as soon as this gateway sees a commit.

Their number is bounded over all topics; past it a reader is refused (503 ``OVERLOADED``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gateway.problem import overloaded
from log_format.errors import BackOff, ErrorCode


class Wakeup:
    """A waiting reader, woken by an event in one of the partitions for which it waits."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the reader, now or when it next waits."""
        self._event.set()

    def clear(self) -> None:
        """Clear past events."""
        self._event.clear()

    async def wait(self, duration_ms: float) -> bool:
        """Return True as soon as the reader is woken, False after ``duration_ms``."""
        try:
            async with asyncio.timeout(max(0.0, duration_ms / 1000)):
                await self._event.wait()
        except TimeoutError:
            return False
        return True


@dataclass(slots=True)
class DrainFlag:
    """Whether the gateway is shutting down: then it takes no new work, and ends waits."""

    begun: bool = False

    def check(self) -> None:
        """Raise ``BackOff`` (``DRAINING``) if the gateway is shutting down."""
        if self.begun:
            raise BackOff("The gateway is shutting down and takes no new work.", code=ErrorCode.DRAINING)


class WaiterSlots:
    """Bound on the number of waiting readers, over all topics."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self._taken: set[Wakeup] = set()

    @property
    def taken_count(self) -> int:
        """Number of waiting readers."""
        return len(self._taken)

    @contextmanager
    def hold(self, wakeup: Wakeup) -> Iterator[None]:
        """Hold a waiting place while the context lasts. Raises ``BackOff`` (``OVERLOADED``) when all are taken."""
        if len(self._taken) >= self.count_max:
            raise overloaded(f"{self.count_max} polls and event streams are waiting already.")
        self._taken.add(wakeup)
        try:
            yield
        finally:
            self._taken.discard(wakeup)

    def wake_all(self) -> None:
        """Wake all waiting readers, whatever they wait for."""
        for wakeup in self._taken:
            wakeup.set()


class Waiters:
    """The waiting readers of one topic, by partition."""

    __slots__ = ("_by_partition",)

    def __init__(self) -> None:
        self._by_partition: dict[int, set[Wakeup]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_partition)

    @contextmanager
    def register(self, partitions: Iterable[int], wakeup: Wakeup) -> Iterator[None]:
        """Set ``wakeup`` at each event in one of ``partitions`` while the context lasts."""
        wanted = tuple(partitions)
        for partition in wanted:
            self._by_partition.setdefault(partition, set()).add(wakeup)
        try:
            yield
        finally:
            for partition in wanted:
                waiting = self._by_partition.get(partition)
                if waiting is not None:
                    waiting.discard(wakeup)
                    if not waiting:
                        del self._by_partition[partition]

    def wake(self, partitions: Iterable[int]) -> None:
        """Wake the readers that wait for these partitions."""
        for partition in partitions:
            for wakeup in self._by_partition.get(partition, ()):
                wakeup.set()

    def wake_all(self) -> None:
        """Wake all readers that wait for the topic."""
        self.wake(list(self._by_partition))
