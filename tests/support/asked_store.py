"""A store in memory that notes what was read of it."""

from __future__ import annotations

from log_format.stores.memory import MemoryStore


class AskedStore(MemoryStore):
    """``asked``: keys, in order."""

    def __init__(self, *, lists_from_key: bool = True) -> None:
        super().__init__(lists_from_key=lists_from_key)
        self.asked: list[str] = []

    def get(self, key: str, *, bytes_max: int | None = None) -> bytes:
        self.asked.append(key)
        return super().get(key, bytes_max=bytes_max)
