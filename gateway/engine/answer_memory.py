"""Memory for what fetches and event streams hold: reserved in turn, before it is used. ``part_count``: the partitions of a long
list.

A read of old records decodes whole row groups, and a slice keeps its row group in memory until it is encoded. So a read from the
store reserves memory for row groups, and gives it back when the answer's bytes are made. Records in the tail are in memory
anyway: such an answer reserves only what it adds.

The client decides how long a large answer is held. A small one is encoded as a whole, and the connection takes all or most of it
at once. Its memory is held only while the store is read, so it is reserved as brief.
"""

from __future__ import annotations

from typing import Final

from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import Memory, Reservation
from log_format.limits import ROW_GROUP_BYTES_MAX

_COPIES: Final = 2
"""Records are in memory as read and, up to ``_PIECES_BYTES`` of them, as sent."""
_ROW_GROUPS: Final = 2
"""Decoded around the wanted records: the rest of a row group at either end."""
_PIECES_BYTES: Final = 5_376 * 1024
"""The text of a large answer, made and sent piece by piece, and the overhead of very many records."""
AROUND_BYTES: Final = ROW_GROUP_BYTES_MAX * _ROW_GROUPS + _PIECES_BYTES
"""Reserved for a large answer beside its records."""
_ANSWER_BYTES: Final = 64 * 1024
"""The least that an answer costs beside its records."""
_PART_BYTES: Final = 1024
"""An answer's cost for each partition of a long list, beside its records: objects, and the text made of them."""
_WAITING_MAX: Final = 20_000
"""Reads that wait for their turn; the number of connections is the smaller bound."""


def read_bytes_max(memory: Memory) -> int:
    """How many bytes of records one answer may have, so that it fits alone, with what is decoded around its records."""
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
    """For an answer with ``size_bytes`` of records already in memory. Raises ``BackOff`` (``OVERLOADED``)."""
    size = size_bytes * _COPIES + _ANSWER_BYTES + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=wait_ms, waiting_max=_WAITING_MAX)
