"""Maintenance's steps, kept for a test that looks at them afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

from compaction.report import STEP


@dataclass(slots=True)
class CollectedEvents:
    """A ``compaction.report.Reporter``."""

    events: list[tuple[str, dict[str, str | float]]] = field(default_factory=list)

    def event(self, event: str, **fields: str | float) -> None:
        """Keep it, unless no line is written for it."""
        if event != STEP:
            self.events.append((event, fields))
