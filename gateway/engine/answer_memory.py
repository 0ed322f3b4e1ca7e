"""Memory reservations for what fetches and event streams hold, taken in the order of arrival before the memory is used.

A read of old records decodes whole row groups, and a slice keeps its row group in memory until it is encoded. So a read from
the store reserves memory for row groups, and releases it when the answer's bytes are made. Records in the tail cache are in
memory anyway: an answer made of them reserves only what it adds.

The client decides how long a large answer is held. A small answer is encoded as a whole, and the connection takes all or most
of it immediately. Its memory is held only while the store is read, so it is reserved as brief.

In this module ``part_count`` is the number of partitions in a long list.
"""

from __future__ import annotations

from typing import Final

from gateway.engine.bounds import ANSWER_WAIT_MS_MAX
from gateway.memory_budget import Memory, Reservation
from log_format.limits import ROW_GROUP_BYTES_MAX

_COPIES: Final = 2
"""Number of copies of the records in memory: as read and, up to ``_PIECES_BYTES`` of them, as sent."""
_ROW_GROUPS: Final = 2
"""Number of decoded row groups around the wanted records: the rest of a row group at either end."""
_PIECES_BYTES: Final = 5_376 * 1024
"""Bytes of a large answer's text, which is made and sent piece by piece, and of the overhead of very many records."""
AROUND_BYTES: Final = ROW_GROUP_BYTES_MAX * _ROW_GROUPS + _PIECES_BYTES
"""Bytes reserved for a large answer in addition to its records."""
_ANSWER_BYTES: Final = 64 * 1024
"""Minimum bytes that an answer costs in addition to its records."""
_PART_BYTES: Final = 1024
"""Bytes that each partition of a long list costs in addition to its records: objects, and the text made of them."""
_WAITING_MAX: Final = 20_000
"""Number of reads that may wait for memory; the number of connections is the smaller bound."""


def read_bytes_max(memory: Memory) -> int:
    """Return how many bytes of records one answer may have to fit into ``memory`` together with what is decoded around them."""
    return max(ROW_GROUP_BYTES_MAX, memory.largest_bytes - AROUND_BYTES)


async def reserve_for_store(
    memory: Memory, bytes_max: int, part_count: int = 0, *, is_small: bool = False, wait_ms: int = ANSWER_WAIT_MS_MAX
) -> Reservation:
    """Reserve memory for a read of up to ``bytes_max`` of old records. Raises ``BackOff`` (``OVERLOADED``).

    ``is_small``: whether the answer is a small one, whose memory is reserved as brief.
    """
    size = bytes_max + min(bytes_max, _PIECES_BYTES) + ROW_GROUP_BYTES_MAX * _ROW_GROUPS + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=wait_ms, waiting_max=_WAITING_MAX, is_brief=is_small)


async def reserve_for_tail(
    memory: Memory, size_bytes: int, part_count: int = 0, *, wait_ms: int = ANSWER_WAIT_MS_MAX
) -> Reservation:
    """Reserve memory for an answer with ``size_bytes`` of records already in memory. Raises ``BackOff`` (``OVERLOADED``)."""
    size = size_bytes * _COPIES + _ANSWER_BYTES + part_count * _PART_BYTES
    return await memory.reserve_in_turn(size, wait_ms=wait_ms, waiting_max=_WAITING_MAX)
