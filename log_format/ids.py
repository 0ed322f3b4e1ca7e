"""Unique ids: the only randomness that the format uses."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

NewId = Callable[[], str]
"""Function that returns a new id of ``[A-Za-z0-9-]``. Programs pass ``random_id`` or ``uuid4``, the simulation one
from its seed."""

_VERSION_4: Final = (4 << 76) | (2 << 62)
_NOT_RANDOM: Final = (0xF << 76) | (3 << 62)
"""Mask of the bits of version and variant."""


def random_id() -> str:
    """Return a random UUID (RFC 9562, 5.4). ``uuid.uuid4`` takes twice as long with cold caches, and a flush needs two ids."""
    digits = f"{int.from_bytes(os.urandom(16)) & ~_NOT_RANDOM | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
