"""The rights of a caller without any bound."""

from __future__ import annotations


def all_allowed(*_: str) -> None:
    """Refuse nothing."""
