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
