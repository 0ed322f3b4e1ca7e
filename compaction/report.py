"""Reports of maintenance: a line for each step. An irreversible step is reported before it is done."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from typing import Final, Protocol

_log = logging.getLogger("compaction")


@dataclass(slots=True)
class Totals:
    """The counts of one round over all topics."""

    topics: int = 0
    failed_topics: int = 0
    rewrites: int = 0
    overtaken: int = 0
    segments_in: int = 0
    segments_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    expired_segments: int = 0
    archived_segments: int = 0
    checkpoints: int = 0
    drains: int = 0
    """Topics drained from their journals because no gateway had; ``failed_drains`` counts those that failed."""
    failed_drains: int = 0
    deleted_objects: int = 0
    deleted_bytes: int = 0
    waiting_segments: int = 0
    """Flushed segments not merged yet when their topic was done; ``waiting_bytes`` are their stored bytes."""
    waiting_bytes: int = 0
    untyped_segments: int = 0
    """Segments that a backfill still has to rewrite when their topic was done; ``untyped_bytes`` are their stored bytes."""
    untyped_bytes: int = 0
    unfinished_backfills: int = 0
    """Topics whose backfill has had its share of the round, and goes on in the next one."""
    pins: int = 0
    """Pinned versions of topics; ``pinned_bytes`` are the bytes of files that only pins kept when they were last collected."""
    pinned_bytes: int = 0

    def rewritten(self, *, segments_in: int, segments_out: int, bytes_in: int, bytes_out: int) -> None:
        """Count one rewrite that was committed."""
        self.rewrites += 1
        self.segments_in += segments_in
        self.segments_out += segments_out
        self.bytes_in += bytes_in
        self.bytes_out += bytes_out

    def deleted(self, size_bytes: int) -> None:
        """Count one deleted object."""
        self.deleted_objects += 1
        self.deleted_bytes += size_bytes

    def as_dict(self) -> dict[str, int]:
        """Return the counts by name."""
        return {name: getattr(self, name) for name in self.__slots__}


STEP: Final = "step"
"""Event before each journal, without fields, and before each topic of a round, with the number of topics ``done`` and their
``total``. Shows that maintenance goes on; no line is written for it."""


class Reporter(Protocol):
    """The receiver of each step. ``event`` is a word or two; ``fields`` are text and numbers."""

    def event(self, event: str, **fields: str | float) -> None:
        """Report the step."""
        ...


@dataclass(slots=True)
class LogReporter:
    """A reporter that writes one line of text for each step, by ``logging``."""

    def event(self, event: str, **fields: str | float) -> None:
        """Report the step."""
        if event != STEP:
            _log.info("%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))


@dataclass(slots=True)
class JsonReporter:
    """A reporter that writes one JSON object per line to standard output."""

    def event(self, event: str, **fields: str | float) -> None:
        """Report the step."""
        if event == STEP:
            return
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()
