"""Memory for what fetches and event streams hold: reserved before it is taken, in turn.

Reading old records decodes whole row groups, and what is cut out of one keeps all of it in memory until it is encoded. So a
read from the store reserves for that, and gives it back when the answer's bytes are made. What is in the tail is there anyway:
such an answer reserves only what it adds.
"""

from __future__ import annotations

from typing import Final

from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import MemoryBudget, Reservation
from log_format.limits import ROW_GROUP_BYTES_MAX

_COPIES: Final = 2
"""Records are in memory as they were read and, piece by piece, as they are sent."""
_ROW_GROUPS: Final = 2
"""What is decoded around the records wanted: the rest of a row group at either end."""
_ANSWER_BYTES: Final = 64 * 1024
"""What the smallest answer costs beside its records."""
_WAITING_MAX: Final = 20_000
"""Reads that wait for their turn: the number of connections bounds them first."""


async def reserve_for_store(memory: MemoryBudget, bytes_max: int) -> Reservation:
    """For a read of old records, up to ``bytes_max``. Raises ``BackOff`` (``OVERLOADED``)."""
    size = bytes_max * _COPIES + ROW_GROUP_BYTES_MAX * _ROW_GROUPS
    return await memory.reserve_in_turn(size, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)


async def reserve_for_tail(memory: MemoryBudget, size_bytes: int) -> Reservation:
    """For an answer with ``size_bytes`` of records that are in memory already. Raises ``BackOff`` (``OVERLOADED``)."""
    size = size_bytes * _COPIES + _ANSWER_BYTES
    return await memory.reserve_in_turn(size, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)
