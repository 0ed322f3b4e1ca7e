"""Maintenance's steps, kept for a test that looks at them afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CollectedEvents:
    """A ``compaction.report.Reporter``."""

    events: list[tuple[str, dict[str, str | float]]] = field(default_factory=list)

    def event(self, event: str, **fields: str | float) -> None:
        """Keep it."""
        self.events.append((event, fields))
