"""The memory of share groups: counted within ``queues_bytes_max``, like the leases of queues."""

from __future__ import annotations

from typing import Protocol


class ShareMemory(Protocol):
    """A memory budget, such as ``gateway.system_tables.queues.QueuesTable``."""

    def has_room(self, more: int) -> bool:
        """Return whether so many more bytes are within the budget."""

    def count_bytes(self, more: int) -> None:
        """Add the bytes to the count; a negative number subtracts."""
