"""What the agent reports: one event with fields, as a line for the user or a JSON line for programs."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

import msgspec


class Level(Enum):
    """How much it matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    """Bytes may be missing, or may be in the topic twice."""


class Journal(Protocol):
    """Takes events. Safe from any thread."""

    def tell(self, level: Level, event: str, /, **fields: Any) -> None:
        """``event`` is a fixed sentence, ``fields`` what differs."""


class JsonJournal:
    """Each event as one line of JSON: ``time``, ``level``, ``event`` and the fields."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def tell(self, level: Level, event: str, /, **fields: Any) -> None:
        """Write it."""
        time = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": time, "level": level.value, "event": event} | {
            name: shown(value) if isinstance(value, str) else value for name, value in fields.items()
        }
        self._write(msgspec.json.encode(line).decode() + "\n")


class TextJournal:
    """Each event as a line for the user: ``event (name=value, …)``."""

    def __init__(self, write: Callable[[Level, str], object]) -> None:
        self._write = write

    def tell(self, level: Level, event: str, /, **fields: Any) -> None:
        """Write it."""
        details = ", ".join(f"{name}={shown(str(value))}" for name, value in fields.items())
        self._write(level, f"{event} ({details})" if details else event)


def shown(text: str) -> str:
    """``text`` with what can't be written as UTF-8 (of a file's name) escaped."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")
