"""Ids given to clients that have not joined with them yet (KIP-394). A rebalance waits for them until then."""

from __future__ import annotations

from collections.abc import Iterable


class PromisedIds:
    """Promised member ids. Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until_ms)

    @property
    def ends_ms(self) -> Iterable[int]:
        """Times until which the ids may be used."""
        return self._until_ms.values()

    def promise(self, member_id: str, until_ms: int) -> None:
        """Let a client join with this id until the time."""
        self._until_ms[member_id] = until_ms

    def take(self, member_id: str) -> bool:
        """Drop an id; return whether it was promised."""
        return self._until_ms.pop(member_id, None) is not None

    def end(self, now_ms: int) -> None:
        """Drop the ids whose time is over."""
        self._until_ms = {name: until_ms for name, until_ms in self._until_ms.items() if until_ms > now_ms}

    def postpone(self, duration_ms: int) -> None:
        """Extend all ids by the time for which this process was suspended."""
        self._until_ms = {name: until_ms + duration_ms for name, until_ms in self._until_ms.items()}
