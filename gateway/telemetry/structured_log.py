"""Logs on standard error, a line each, with the request's id if there is one: JSON for programs, ``plain_line`` for people.

1. Logging never blocks the event loop: lines go to a bounded queue, which one thread writes out. When the reader of standard
   error stalls, requests go on. Lines beyond the bound are dropped, and their number is logged later.
2. Lines of the standard library's loggers (uvicorn, asyncio, boto3) have the same form.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Final, Literal

import msgspec

LogFormat = Literal["auto", "json", "text"]
LINES_MAX: Final = 20_000
"""Number of lines waiting for the writer: some MiB, and seconds of a busy gateway."""
PAUSE_SECONDS: Final = 0.1
"""Seconds between two looks for lines: a busy gateway's log is behind by that much."""
_FLUSH_LOOK_SECONDS: Final = 0.005
_BATCH_LINES: Final = 500
_STDERR: Final = 2
ACCESS: Final = "gateway.access"
"""Logger of the line that each request gets."""

current_request_id: ContextVar[str | None] = ContextVar("tidelog_request_id", default=None)
"""Id of the present request, set in the task of each request; every line that the task logs has it."""

_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_line(members: dict[str, Any]) -> bytes:
    """Return the members as a line with one JSON object."""
    return _encode(members) + b"\n"


def plain_line(members: dict[str, Any]) -> bytes:
    """Return a line with time, level and event; for a request with its method, path and status. Other members follow by name."""
    rest = dict(members)
    at, level = str(rest.pop("at", "")), str(rest.pop("level", ""))
    logger, said = rest.pop("logger", ""), str(rest.pop("event", ""))
    exception = rest.pop("exception", "")
    if logger == ACCESS:
        said = f"{rest['method']} {rest['path']} {rest['status']} in {rest['duration_ms']:.0f} ms"
        rest = {}
    named = "".join(f" {name}={value}" for name, value in rest.items() if value is not None)
    lines = [f"{at[11:23]} {level:7} {said}{named}", *str(exception).splitlines()]
    # Members may hold what a client sent, and a terminal obeys control characters.
    shown = ("".join(each if each.isprintable() else "?" for each in line) for line in lines)
    return "".join(f"{line}\n" for line in shown).encode(errors="replace")


class LineWriter:
    """A thread that writes lines to a file descriptor."""

    def __init__(self, descriptor: int = _STDERR, *, lines_max: int = LINES_MAX) -> None:
        self._descriptor = descriptor
        self._lines_max = lines_max
        self.form: Callable[[dict[str, Any]], bytes] = json_line
        """Function that makes a line of its members."""
        self._lines: deque[bytes] = deque()
        self._dropped_count = 0
        self._wake: SimpleQueue[None] = SimpleQueue()
        """Queue on which the thread waits. ``threading.Event`` would take a dozen calls for each line."""
        self._is_awake = False
        """Whether the thread will look for lines without being woken: it was woken, or pauses."""
        self._is_writing = False
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def write(self, members: dict[str, Any]) -> None:
        """Queue one line; drop it when ``lines_max`` wait."""
        if len(self._lines) >= self._lines_max:
            self._dropped_count += 1
            return
        self._lines.append(self.form(members))
        if not self._is_awake:
            self._is_awake = True
            self._wake.put(None)
            if self._thread is None:
                self._start()

    def flush(self, timeout_seconds: float = 2.0) -> None:
        """Wait until the queued lines are written, or the time is over."""
        until = time.monotonic() + timeout_seconds
        while (self._lines or self._is_writing) and time.monotonic() < until:
            time.sleep(_FLUSH_LOOK_SECONDS)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._wake.get()
            while self._lines:
                self._is_writing = True
                self._write_lines()
                self._is_writing = False
                # A pause gathers the lines of many requests: one wake-up and one system call for all of them.
                time.sleep(PAUSE_SECONDS)
            self._is_awake = False
            if self._lines:  # A line came after the look, when no wake-up seemed needed; a second wake-up does no harm.
                self._is_awake = True
                self._wake.put(None)

    def _write_lines(self) -> None:
        while self._lines:
            batch = [self._lines.popleft() for _ in range(min(len(self._lines), _BATCH_LINES))]
            if self._dropped_count:
                dropped, self._dropped_count = self._dropped_count, 0
                batch.append(self.form({"level": "warning", "event": "log lines dropped", "line_count": dropped}))
            self._write_out(b"".join(batch))

    def _write_out(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError:
            # Standard error is closed; the gateway's work does not depend on the log.
            return


WRITER: Final = LineWriter()


def access_line(members: dict[str, Any]) -> None:
    """Log one answered request; the caller has checked the level."""
    WRITER.write({"at": _now(), "level": "info", "logger": ACCESS, "event": "request", **members})


def configure(level: str, log_format: LogFormat = "json") -> None:
    """Send every logger's lines of at least ``level`` to standard error; ``auto``: as text when that is a terminal."""
    as_text = os.isatty(_STDERR) if log_format == "auto" else log_format == "text"
    WRITER.form = plain_line if as_text else json_line
    number = logging.getLevelNamesMapping()[level.upper()]
    handler = _JsonHandler()
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    for noisy in ("boto3", "botocore", "urllib3", "s3transfer", "asyncio"):
        logging.getLogger(noisy).setLevel(max(number, logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = name != "uvicorn.access"
        # uvicorn warns of single malformed requests; the gateway's protocol reports those better.
        logger.setLevel(logging.ERROR)


class _JsonHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        members: dict[str, Any] = {
            "at": _now(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        request_id = current_request_id.get()
        if request_id is not None:
            members["request_id"] = request_id
        if record.exc_info and record.exc_info[0] is not None:
            members["exception"] = _FORMATTER.formatException(record.exc_info)
        WRITER.write(members)


_FORMATTER: Final = logging.Formatter()


def _now() -> str:
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
