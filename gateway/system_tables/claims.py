"""What a coordinator has claimed by rows of a system table, and keeps in memory. Used on the event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar

ItemT = TypeVar("ItemT")


class Claims(Generic[ItemT]):
    """Claimed items by name. ``claim``: claims an item by a row, and adds it. Concurrent calls for one name share a claim."""

    def __init__(self, claim: Callable[[str], Coroutine[Any, Any, ItemT]]) -> None:
        self._claim = claim
        self._items: dict[str, ItemT] = {}
        self._running: dict[str, asyncio.Task[ItemT]] = {}
        self._added = asyncio.Event()

    def __iter__(self) -> Iterator[ItemT]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def get(self, name: str) -> ItemT | None:
        """Return the item, or None if there is none in memory."""
        return self._items.get(name)

    def add(self, name: str, item: ItemT) -> ItemT | None:
        """Keep the item, and return the one that had its name before."""
        before = self._items.get(name)
        self._items[name] = item
        self._added.set()
        return before

    def remove(self, name: str, item: ItemT | None = None) -> bool:
        """Remove the item unless another one has its name by now; without ``item`` any of that name. Return whether one was
        removed."""
        known = self._items.get(name)
        if known is None or (item is not None and known is not item):
            return False
        del self._items[name]
        return True

    async def wait_for_any(self) -> bool:
        """Wait until an item is in memory, and return whether it had to wait."""
        had_none = not self._items
        while not self._items:
            self._added.clear()
            await self._added.wait()
        return had_none

    async def claim(self, name: str) -> ItemT:
        """Claim the item, or wait for the claim that is running. Raises what the claim raises."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.create_task(self._claim(name))
            running.add_done_callback(lambda done: self._claimed(name, done))
        return await asyncio.shield(running)

    def _claimed(self, name: str, done: asyncio.Task[ItemT]) -> None:
        del self._running[name]
        if not done.cancelled():
            done.exception()  # Marked as retrieved: its callers may have gone.
