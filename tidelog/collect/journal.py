"""Reports of the agent: events with fields, as lines for the user or JSON lines for programs."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import msgspec


class Level(Enum):
    """Importance of an event."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    """Bytes may be missing, or may be in the topic twice."""


class Journal(Protocol):
    """Receiver of events. Thread-safe."""

    def report(self, level: Level, event: str, /, **fields: Any) -> None:
        """Report an event: ``event`` is a fixed sentence, ``fields`` are its variable data."""


class JsonJournal:
    """Journal that writes each event as one line of JSON: ``time``, ``level``, ``event`` and the fields."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def report(self, level: Level, event: str, /, **fields: Any) -> None:
        """Write the event."""
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": level.value, "event": event} | {
            name: shown(value) if isinstance(value, str) else value for name, value in fields.items()
        }
        self._write(msgspec.json.encode(line).decode() + "\n")


class TextJournal:
    """Journal that writes each event as a line for the user: ``event (name=value, …)``."""

    def __init__(self, write: Callable[[Level, str], object]) -> None:
        self._write = write

    def report(self, level: Level, event: str, /, **fields: Any) -> None:
        """Write the event."""
        details = ", ".join(f"{name}={shown(str(value))}" for name, value in fields.items())
        self._write(level, f"{event} ({details})" if details else event)


def shown(text: str) -> str:
    """Return ``text`` with everything escaped that UTF-8 can't encode (in file names)."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")
