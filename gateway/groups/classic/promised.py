"""Ids given to clients that have not joined with them yet (KIP-394). Until then a rebalance waits for them."""

from __future__ import annotations

from collections.abc import Iterable


class Promised:
    """Times are monotonic milliseconds."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._until_ms)

    @property
    def ends_ms(self) -> Iterable[int]:
        """Until when each may be used."""
        return self._until_ms.values()

    def promise(self, member_id: str, until_ms: int) -> None:
        """A client may join with this id."""
        self._until_ms[member_id] = until_ms

    def take(self, member_id: str) -> bool:
        """Whether it was promised. It is no more."""
        return self._until_ms.pop(member_id, None) is not None

    def end(self, now_ms: int) -> None:
        """Forget those whose time is over."""
        self._until_ms = {name: until_ms for name, until_ms in self._until_ms.items() if until_ms > now_ms}

    def stood_still(self, duration_ms: int) -> None:
        """This process stood still for so long."""
        self._until_ms = {name: until_ms + duration_ms for name, until_ms in self._until_ms.items()}
