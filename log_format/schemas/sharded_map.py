"""An immutable mapping whose changed copy shares nearly all of its entries, for states with a hundred thousand of them.

A commit changes a few entries, and copying a dictionary of 100,000 takes two milliseconds, each time, of every gateway. Here the
entries are in 256 dictionaries by hash, and a change copies only those that it touches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
ValueT_co = TypeVar("ValueT_co", covariant=True)

_SHARDS: Final = 256


class ShardedMap(Mapping[KeyT, ValueT_co], Generic[KeyT, ValueT_co]):
    """The mapping. ``edit`` begins a changed copy."""

    __slots__ = ("_count", "_shards")

    def __init__(self, shards: tuple[dict[KeyT, ValueT_co], ...] | None = None, count: int = 0) -> None:
        self._shards = ({},) * _SHARDS if shards is None else shards
        self._count = count

    def __getitem__(self, key: KeyT) -> ValueT_co:
        return self._shards[hash(key) % _SHARDS][key]

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[KeyT]:
        for shard in self._shards:
            yield from shard

    def edit(self) -> ShardedEdit[KeyT, ValueT_co]:
        """Return a change in progress, which begins with these entries."""
        return ShardedEdit(self, self._shards, self._count)


class ShardedEdit(Generic[KeyT, ValueT]):
    """A changed copy in progress."""

    __slots__ = ("_before", "_count", "_own", "_shards")

    def __init__(self, before: ShardedMap[KeyT, ValueT], shards: tuple[dict[KeyT, ValueT], ...], count: int) -> None:
        self._before = before
        self._shards = list(shards)
        self._own: set[int] = set()
        self._count = count

    def get(self, key: KeyT) -> ValueT | None:
        """Return the entry; None if there is none."""
        return self._shards[hash(key) % _SHARDS].get(key)

    def set(self, key: KeyT, value: ValueT) -> None:
        """Add or replace an entry."""
        shard = self._owned(key)
        self._count += key not in shard
        shard[key] = value

    def remove(self, key: KeyT) -> None:
        """Remove the entry if it is there."""
        if key in self._shards[hash(key) % _SHARDS]:
            del self._owned(key)[key]
            self._count -= 1

    def done(self) -> ShardedMap[KeyT, ValueT]:
        """Return the mapping. Ends the change."""
        return ShardedMap(tuple(self._shards), self._count) if self._own else self._before

    def _owned(self, key: KeyT) -> dict[KeyT, ValueT]:
        number = hash(key) % _SHARDS
        if number not in self._own:
            self._own.add(number)
            self._shards[number] = self._shards[number].copy()
        return self._shards[number]
