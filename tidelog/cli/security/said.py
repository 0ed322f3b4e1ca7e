"""Names in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_NAMES_SHOWN: Final = 5


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
