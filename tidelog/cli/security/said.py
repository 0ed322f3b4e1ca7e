"""Findings in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from log_format.inspection.finding import Finding, Verdict

_NAMES_SHOWN: Final = 5


def good(what: str, said: str) -> Finding:
    """Nothing to do."""
    return Finding(what=what, verdict=Verdict.GOOD, said=said)


def poor(what: str, said: str, advice: str) -> Finding:
    """Worth a look."""
    return Finding(what=what, verdict=Verdict.POOR, said=said, advice=advice)


def bad(what: str, said: str, advice: str) -> Finding:
    """Open."""
    return Finding(what=what, verdict=Verdict.BAD, said=said, advice=advice)


def some(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - _NAMES_SHOWN
    return ", ".join(names[:_NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
