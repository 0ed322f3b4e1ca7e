"""Which tests of a suite may fail, and which are left out, each with its reason."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.suites.suite import Outcomes

_HERE: Final = Path(__file__).parent
SEEN_THERE: Final = "as Apache Kafka:"
"""How a reason begins that was seen on a broker."""


class Row(NamedTuple):
    """Of one test. ``beside`` is its outcome on a broker, empty where none was asked."""

    suite: str
    test: str
    here: str
    beside: str
    reason: str
    is_wrong: bool


def allowed(suite: str) -> dict[str, str]:
    """Reasons by the name of the test."""
    return _lines(_HERE / "allowed" / f"{suite}.txt")


def left_out(suite: str) -> dict[str, str]:
    """Reasons by patterns of the shell's kind."""
    return _lines(_HERE / "left_out" / f"{suite}.txt")


def _lines(path: Path) -> dict[str, str]:
    if not path.exists():
        return {}
    parts = (line.partition(" | ") for line in path.read_text().splitlines() if line.strip())
    return {name.strip(): reason.strip() for name, _, reason in parts}


def is_left_out(test: str, patterns: dict[str, str]) -> bool:
    """Whether one of the patterns matches."""
    return any(fnmatchcase(test, pattern) for pattern in patterns)


def unforeseen(suite: str, found: Outcomes) -> list[str]:
    """Tests that failed without a reason, by name."""
    reasons, patterns = allowed(suite), left_out(suite)
    return sorted(
        test
        for test, word in found.items()
        if word == "fail" and test not in reasons and not is_left_out(test, patterns)
    )


def judged(suite: str, here: Outcomes, there: Outcomes, *, all_ran: bool) -> list[Row]:
    """A row for each test that ran, and for each allowed one that did not; by name."""
    reasons, patterns = allowed(suite), left_out(suite)
    rows = []
    for test, outcome in sorted(here.items()):
        if is_left_out(test, patterns):
            continue
        reason, beside = reasons.get(test, ""), there.get(test, "")
        passes_there = reason.startswith(SEEN_THERE) and beside == "pass"
        rows.append(Row(suite, test, outcome, beside, reason, (outcome == "fail") != bool(reason) or passes_there))
    gone = sorted(reasons.keys() - here.keys()) if all_ran else []
    return rows + [Row(suite, test, "did not run", "", reasons[test], True) for test in gone]
