"""Numbers in sentences for people."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """Return the number with its noun, which gets an s unless the number is one: ``1 segment``, ``1,200 records``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
