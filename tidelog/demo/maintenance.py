"""Maintenance of the demo's store, as it runs in any installation, and its results."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.demo.processes import ChildProcess

EVERY: Final = "5s"
"""Interval of rounds: a minute is usual, but the flights arrive within some twenty seconds."""

END_SECONDS: Final = 10
"""Time limit for its end after SIGTERM; it ends immediately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Results of all rounds: ``segments_in`` small segments became ``segments_out``."""

    rounds: int
    failed_topics: int
    segments_in: int
    segments_out: int
    bytes_in: int
    checkpoints: int


class DemoMaintenance(ChildProcess):
    """Process ``python -m compaction`` on the store, without Spark: a second Spark would cost the demo more than its few
    merges."""

    def __init__(self, store: str, log: Path) -> None:
        arguments = ["--store", store, "--workers", "local", "--every", EVERY, "--json"]
        super().__init__("Maintenance", "compaction", arguments, log, grace_seconds=END_SECONDS)

    def done(self) -> Upkeep:
        """Return the results so far. Raises ``ChildFailed`` if the process has ended."""
        self.check()
        rounds = [event for line in self.log.read_text(encoding="utf-8").splitlines() for event in _round(line)]
        total = {name: sum(event[name] for event in rounds) for name in Upkeep.__slots__ if name != "rounds"}
        return Upkeep(rounds=len(rounds), **total)


def _round(line: str) -> list[dict[str, int]]:
    """Return the line's event if it reports a round; the last line may be incomplete."""
    if not (line.startswith("{") and line.endswith("}")):
        return []
    event = json.loads(line)
    return [event] if event["event"] == "round" else []
