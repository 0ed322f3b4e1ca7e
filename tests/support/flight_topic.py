"""Records of flights, good and bad, in a topic; the pipeline's settings for it, and a report that keeps what it is told."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from spark_pipeline.jobs.pipeline.settings import Settings, read_settings
from tests.support.topic_writer import TopicWriter

DDL = "carrier STRING NOT NULL, flight INT NOT NULL, dep_delay DOUBLE, time_hour TIMESTAMP NOT NULL"
GOLD = {
    "event_time": "time_hour",
    "watermark": "30 hours",
    "window": "1 hour",
    "group_by": ["carrier"],
    "unique": ["carrier", "flight", "time_hour"],
    "columns": {"flights": "count(*)", "delay": "sum(dep_delay)"},
}


class FlightTopic:
    """A topic of flights in a directory, the pipeline's settings for it, and what the pipeline made of it."""

    def __init__(self, directory: Path) -> None:
        self.store = (directory / "store").as_uri()
        self.writer = TopicWriter(self.store, "flights")
        self.directory = directory

    def settings(self, output: str = "lake", **changed: Any) -> Settings:
        """With one aggregate, and few records in a micro-batch."""
        given = {
            "store": self.store,
            "topic": "flights",
            "output": str(self.directory / output),
            "schema": DDL,
            "gold": {"delays": GOLD},
            "max_offsets_per_trigger": 40,
        }
        return read_settings(None, given | changed)

    def flights(self, first: int, count: int, *, bad_each: int = 0, day: int = 1) -> None:
        """One commit of flights, an hour apart, all on ``day``; each ``bad_each``-th is no flight."""
        values = [
            b"flight %d" % number
            if bad_each and number % bad_each == 0
            else json.dumps(
                {
                    "carrier": "UA",
                    "flight": number,
                    "dep_delay": 1.5,
                    "time_hour": f"2013-01-{day:02d}T{number % 24:02d}:00:00Z",
                }
            ).encode()
            for number in range(first, first + count)
        ]
        self.writer.append(
            [(number % 2, 1_763_683_200_000 + number, b"k", value) for number, value in enumerate(values)]
        )


class Events:
    """A report that keeps what it is told; ``until`` may set ``stopping``."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.stopping = threading.Event()
        self.rows_wanted: int | None = None

    def event(self, name: str, **fields: Any) -> None:
        self.told.append((name, fields))
        if name == "gold" and self.rows_wanted is not None and self.sum("gold", "rows") >= self.rows_wanted:
            self.stopping.set()

    def sum(self, event: str, field: str) -> int:
        return sum(fields[field] for name, fields in self.told if name == event)
