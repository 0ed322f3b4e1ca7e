"""Memory for what fetches and event streams hold: reserved before it is taken, in turn. ``part_count``: of a long list.

Reading old records decodes whole row groups, and what is cut out of one keeps all of it in memory until it is encoded. So a
read from the store reserves for that, and gives it back when the answer's bytes are made. What is in the tail is there anyway:
such an answer reserves only what it adds.

How long a large answer is held is for its client to say. A small one is encoded as a whole, and the connection takes all or most
of it at once: its memory is held for as long as the store takes, so it is reserved as brief.
"""

from __future__ import annotations

from typing import Final

from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import Memory, Reservation
from log_format.limits import ROW_GROUP_BYTES_MAX

_COPIES: Final = 2
"""Records are in memory as they were read and, up to ``_PIECES_BYTES`` of them, as they are sent."""
_ROW_GROUPS: Final = 2
"""What is decoded around the records wanted: the rest of a row group at either end."""
_PIECES_BYTES: Final = 5_376 * 1024
"""A large answer's text, of which a piece at a time is made and sent, and what it takes to have very many records."""
AROUND_BYTES: Final = ROW_GROUP_BYTES_MAX * _ROW_GROUPS + _PIECES_BYTES
"""What is reserved for a large answer beside its records."""
_ANSWER_BYTES: Final = 64 * 1024
"""What the smallest answer costs beside its records."""
_PART_BYTES: Final = 1024
"""What an answer holds for each partition of a long list, beside its records, and the text that is made of it."""
_WAITING_MAX: Final = 20_000
"""Reads that wait for their turn: the number of connections bounds them first."""


def read_bytes_max(memory: Memory) -> int:
    """How many bytes of records one answer may have, so that they, and what is decoded around them, fit when it is alone."""
    return max(ROW_GROUP_BYTES_MAX, memory.largest_bytes - AROUND_BYTES)


async def reserve_for_store(
    memory: Memory, bytes_max: int, part_count: int = 0, *, is_small: bool = False, wait_ms: int = ANSWER_WAIT_MS_MAX
) -> Reservation:
    """For a read of old records, up to ``bytes_max``; ``is_small``: for a small answer. Raises ``BackOff`` (``OVERLOADED``)."""
    size = bytes_max + min(bytes_max, _PIECES_BYTES) + ROW_GROUP_BYTES_MAX * _ROW_GROUPS + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=wait_ms, waiting_max=_WAITING_MAX, is_brief=is_small)


async def reserve_for_tail(
    memory: Memory, size_bytes: int, part_count: int = 0, *, wait_ms: int = ANSWER_WAIT_MS_MAX
) -> Reservation:
    """For an answer with ``size_bytes`` of records that are in memory already. Raises ``BackOff`` (``OVERLOADED``)."""
    size = size_bytes * _COPIES + _ANSWER_BYTES + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=wait_ms, waiting_max=_WAITING_MAX)
