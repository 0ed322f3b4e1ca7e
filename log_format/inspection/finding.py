"""The result of a check, with advice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The meaning of a finding."""

    GOOD = "good"
    POOR = "poor"
    """It works, but needs attention."""
    BAD = "bad"
    """It does not work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check: ``what`` was checked, the result in a sentence, and advice (empty if the result is good)."""

    what: str
    verdict: Verdict
    said: str
    advice: str = ""


def good(what: str, said: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(what=what, verdict=Verdict.GOOD, said=said)


def poor(what: str, said: str, advice: str) -> Finding:
    """Return a finding that needs attention. ``said``: the result in a sentence; ``advice``: what to do about it."""
    return Finding(what=what, verdict=Verdict.POOR, said=said, advice=advice)


def bad(what: str, said: str, advice: str) -> Finding:
    """Return a finding that something does not work. ``said``: the result in a sentence; ``advice``: what to do about it."""
    return Finding(what=what, verdict=Verdict.BAD, said=said, advice=advice)
