"""The memory that share groups take: it is within ``queues_bytes_max``, as their leases are."""

from __future__ import annotations

from typing import Protocol


class ShareMemory(Protocol):
    """``gateway.tables.queues.QueuesTable`` is one."""

    def has_room(self, more: int) -> bool:
        """Whether so many bytes more are within the budget."""

    def count_bytes(self, more: int) -> None:
        """So many bytes more are taken, or fewer."""
