"""Short lists of names in messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMES_SHOWN: Final = 5


def some(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
