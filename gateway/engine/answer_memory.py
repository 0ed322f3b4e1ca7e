"""Memory for what fetches and event streams hold: reserved before it is taken, in turn. ``part_count``: of a long list.

Reading old records decodes whole row groups, and what is cut out of one keeps all of it in memory until it is encoded. So a
read from the store reserves for that, and gives it back when the answer's bytes are made. What is in the tail is there anyway:
such an answer reserves only what it adds.
"""

from __future__ import annotations

from typing import Final

from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import Memory, Reservation
from log_format.limits import ROW_GROUP_BYTES_MAX

_COPIES: Final = 2
"""Records are in memory as they were read and, piece by piece, as they are sent."""
_ROW_GROUPS: Final = 2
"""What is decoded around the records wanted: the rest of a row group at either end."""
_PIECES_BYTES: Final = 4 * 1024 * 1024
"""A large answer's text, of which a piece at a time is made and sent."""
_ANSWER_BYTES: Final = 64 * 1024
"""What the smallest answer costs beside its records."""
_PART_BYTES: Final = 1024
"""What an answer holds for each partition of a long list, beside its records, and the text that is made of it."""
_WAITING_MAX: Final = 20_000
"""Reads that wait for their turn: the number of connections bounds them first."""


def read_bytes_max(memory: Memory) -> int:
    """How many bytes of records one answer may have, so that they, and what is decoded around them, fit when it is alone."""
    around = ROW_GROUP_BYTES_MAX * _ROW_GROUPS + _PIECES_BYTES
    return max(ROW_GROUP_BYTES_MAX, memory.largest_bytes - around)


async def reserve_for_store(memory: Memory, bytes_max: int, part_count: int = 0) -> Reservation:
    """For a read of old records, up to ``bytes_max``. Raises ``BackOff`` (``OVERLOADED``)."""
    size = bytes_max * _COPIES + ROW_GROUP_BYTES_MAX * _ROW_GROUPS + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)


async def reserve_for_tail(memory: Memory, size_bytes: int, part_count: int = 0) -> Reservation:
    """For an answer with ``size_bytes`` of records that are in memory already. Raises ``BackOff`` (``OVERLOADED``)."""
    size = size_bytes * _COPIES + _ANSWER_BYTES + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=ANSWER_WAIT_MS_MAX, waiting_max=_WAITING_MAX)
