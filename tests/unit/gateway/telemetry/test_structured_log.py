"""Log lines: one form for all loggers, and never in the way of requests."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Iterator

import pytest

from gateway.telemetry import structured_log
from gateway.telemetry.structured_log import PAUSE_SECONDS, LineWriter, configure, current_request_id


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, object]]]:
    found: list[dict[str, object]] = []

    def write(members: dict[str, object]) -> None:
        found.append(json.loads(json.dumps(members)))

    monkeypatch.setattr(structured_log.WRITER, "write", write)
    root = logging.getLogger()
    before = (root.handlers[:], root.level)
    yield found
    root.handlers[:], level = before
    root.setLevel(level)


def test_all_loggers_write_one_form(lines: list[dict[str, object]]) -> None:
    """A line has time, level, event and the request's id, whichever logger writes it."""
    configure("info")
    token = current_request_id.set("id-1")
    logging.getLogger("gateway.a").info("from the gateway")
    logging.getLogger("b").warning("from %s", "logging")
    current_request_id.reset(token)
    assert [line["event"] for line in lines] == ["from the gateway", "from logging"]
    assert all(line["request_id"] == "id-1" for line in lines)
    assert [line["level"] for line in lines] == ["info", "warning"]
    assert [line["logger"] for line in lines] == ["gateway.a", "b"]


def test_tracebacks_are_in_the_line(lines: list[dict[str, object]]) -> None:
    """An error's cause is one line, not many."""
    configure("info")
    try:
        raise ZeroDivisionError("why")
    except ZeroDivisionError as error:
        logging.getLogger("a").error("failed", exc_info=error)
    assert "ZeroDivisionError: why" in str(lines[0]["exception"])


def test_the_level_is_a_threshold(lines: list[dict[str, object]]) -> None:
    """Below it nothing is written."""
    configure("warning")
    logging.getLogger("b").info("no")
    logging.getLogger("b").warning("yes")
    assert [line["event"] for line in lines] == ["yes"]


def test_a_reader_that_stalls_costs_lines_not_requests() -> None:
    """With a full pipe behind it, writing returns at once, memory is bounded, and the loss is told once the pipe flows again."""
    reader, writer = os.pipe()
    log = LineWriter(writer, lines_max=100)
    for index in range(5_000):
        log.write({"event": "x" * 1000, "index": index})
    assert len(log._lines) <= 100
    received = bytearray()
    done = threading.Event()

    def read() -> None:
        while chunk := os.read(reader, 65536):
            received.extend(chunk)
            if b'"last"' in received:
                break
        done.set()

    thread = threading.Thread(target=read)
    thread.start()
    log.flush(5)
    log.write({"event": "last"})
    log.flush(5)
    assert done.wait(5)
    thread.join()
    written = [json.loads(line) for line in received.splitlines()]
    dropped = sum(line.get("line_count", 0) for line in written)
    kept = sum("index" in line for line in written)
    assert dropped > 0
    assert dropped + kept == 5_000


def test_lines_of_a_busy_moment_share_a_system_call() -> None:
    """The first goes out at once; those behind it are gathered, and none is left lying when the thread goes to rest."""
    reader, writer = os.pipe()
    log = LineWriter(writer)
    log.write({"event": "first"})
    assert os.read(reader, 65536).count(b"\n") == 1
    for index in range(5):
        log.write({"index": index})
    assert os.read(reader, 65536).count(b"\n") == 5
    for pause_seconds in (0.0, PAUSE_SECONDS, 2 * PAUSE_SECONDS, PAUSE_SECONDS * 0.999):
        time.sleep(pause_seconds)
        log.write({"event": "alone"})
        assert os.read(reader, 65536).count(b"\n") == 1
    log.flush(5)
    assert not log._lines
