"""Report of a pipeline: for each micro-batch a line for the operator, or a JSON object for programs."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final, Protocol

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from log_format.words import counted

REASONS_MAX: Final = 5
"""Number of reasons reported per micro-batch: the most frequent ones."""


class Report(Protocol):
    """Receiver of events from several threads."""

    def event(self, name: str, **fields: Any) -> None:
        """Report an event."""


class JsonReport:
    """Report as one JSON object per line on standard output: ``{"event": …, "at_ms": …, …}``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def event(self, name: str, **fields: Any) -> None:
        """Write the event."""
        line = json.dumps({"event": name, "at_ms": time.time_ns() // 1_000_000, **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


class TextReport:
    """Report as lines for the operator on standard error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def event(self, name: str, **fields: Any) -> None:
        """Write the event."""
        line = f"{time.strftime('%H:%M:%S')} {_LINES[name].format_map(_Shown(fields))}"
        for reason, count in fields.get("reasons", {}).items():
            line += f"\n           {count:,} x {reason}"
        with self._lock:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


class GoldListener(StreamingQueryListener):
    """Listener that reports each micro-batch of a gold query that had records. ``names``: the aggregate of each query."""

    def __init__(self, report: Report, names: Mapping[str, str]) -> None:
        self._report = report
        self._names = names

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Do nothing: the code that waits for the query handles its end."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Report the micro-batch."""
        progress = event.progress
        gold = self._names.get(progress.name or "")
        if gold is None or not progress.numInputRows:
            return
        late = sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
        self._report.event("gold", gold=gold, batch=progress.batchId, rows=progress.numInputRows, late=late)


_LINES: Final = {
    "started": "{topic} -> {silver}; what does not fit -> topic {dead_letter_topic}",
    "advice": "{detail}",
    "batch": "batch {batch}: {records}, {silver}, {dead_letters}",
    "gold": "gold {gold}, batch {batch}: {rows}, {late} too late",
    "finished": "at the end of what there was",
    "stopped": "stopped; the next run goes on here",
}


_NOUNS: Final = {"records": "record", "silver": "row", "dead_letters": "dead letter", "rows": "row"}
"""What a field counts."""


class _Shown(dict[str, Any]):
    """Fields with numbers formatted for the operator."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        if not isinstance(value, int):
            return value
        return counted(value, _NOUNS[name]) if name in _NOUNS else f"{value:,}"
