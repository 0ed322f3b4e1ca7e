"""Read-ahead by one item: the next item is produced while the current one is used.

Both sides of a task mostly wait outside the interpreter's lock (store, Parquet, socket), so they overlap, at the cost of one
more item in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the same items in the same order, each taken from ``items`` in another thread while the previous one is used.

    Exceptions of ``items`` are raised at their item's position. When the iteration ends early, it waits for the item under way.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="tidelog-read-ahead") as pool:
        upcoming = pool.submit(_next_item, items)
        while taken := upcoming.result():
            upcoming = pool.submit(_next_item, items)
            yield from taken


def _next_item(items: Iterator[T]) -> list[T]:
    """Return the next item in a list, which is empty at the end."""
    return [item for _, item in zip(range(1), items, strict=False)]
