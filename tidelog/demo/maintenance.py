"""Maintenance of the demo's store, as it runs beside gateways in any installation, and what it did."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tidelog.demo.processes import ChildProcess

EVERY: Final = "5s"
"""A minute is the usual pace; the flights are in after some twenty seconds."""

END_SECONDS: Final = 10
"""How long it may take to end after SIGTERM; it ends at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What all rounds did. ``segments_in`` small segments became ``segments_out``."""

    rounds: int
    failed_topics: int
    segments_in: int
    segments_out: int
    bytes_in: int
    checkpoints: int


class DemoMaintenance(ChildProcess):
    """``python -m compaction`` on the store, in one process: a second Spark would cost the demo more than its few merges."""

    def __init__(self, store: str, log: Path) -> None:
        arguments = ["--store", store, "--workers", "local", "--every", EVERY, "--json"]
        super().__init__("Maintenance", "compaction", arguments, log, grace_seconds=END_SECONDS)

    def done(self) -> Upkeep:
        """What it did so far. Raises ``ChildFailed`` when it has ended."""
        self.check()
        rounds = [event for line in self.log.read_text(encoding="utf-8").splitlines() for event in _round(line)]
        total = {name: sum(event[name] for event in rounds) for name in Upkeep.__slots__ if name != "rounds"}
        return Upkeep(rounds=len(rounds), **total)


def _round(line: str) -> list[dict[str, int]]:
    """The line's event, if it tells of a round; the last line may not be whole."""
    if not (line.startswith("{") and line.endswith("}")):
        return []
    event = json.loads(line)
    return [event] if event["event"] == "round" else []
