"""What a check found, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a finding means."""

    GOOD = "good"
    POOR = "poor"
    """It works, but needs attention."""
    BAD = "bad"
    """It does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check: ``what`` was checked, the result in a sentence, and advice (none when the result is good)."""

    what: str
    verdict: Verdict
    said: str
    advice: str = ""


def good(what: str, said: str) -> Finding:
    """Nothing to do."""
    return Finding(what=what, verdict=Verdict.GOOD, said=said)


def poor(what: str, said: str, advice: str) -> Finding:
    """Worth a look."""
    return Finding(what=what, verdict=Verdict.POOR, said=said, advice=advice)


def bad(what: str, said: str, advice: str) -> Finding:
    """It does not work, or is open."""
    return Finding(what=what, verdict=Verdict.BAD, said=said, advice=advice)
