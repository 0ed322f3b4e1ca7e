"""One item ahead: the next item is made while the one before is used.

Both sides of a task wait mostly outside the interpreter's lock (store, Parquet, socket), so they overlap, with one item more in
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items in the same order, each taken from ``items`` in another thread while the one before is out.

    What ``items`` raises comes where its item would. When the iteration ends early, it waits for the item under way.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="tidelog-read-ahead") as pool:
        upcoming = pool.submit(_taken, items)
        while taken := upcoming.result():
            upcoming = pool.submit(_taken, items)
            yield from taken


def _taken(items: Iterator[T]) -> list[T]:
    """The next item, or nothing when there is none."""
    return [item for _, item in zip(range(1), items, strict=False)]
